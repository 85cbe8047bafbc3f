"""bilby's `run_sampler` with evidentia: exact evidences, priors of every kind, files, refusals."""

import json
import warnings

import numpy as np
import pytest
from scipy.stats import norm

import evidentia as ev

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of bilby's own samplers, which its import looks at
    bilby = pytest.importorskip("bilby", reason="needs the extra bilby")
    from bilby.core import prior

    from tests.bilby_likelihood import Normal

pytestmark = [pytest.mark.slow, pytest.mark.bridges, pytest.mark.filterwarnings("ignore")]
A, B = (0.3, 0.1), (1.0, 0.2)
LOG_UNIFORM = -np.log(10.0)  # evidence of a normalised peak well inside Uniform(-5, 5)


@pytest.fixture
def run(tmp_path):
    def run(priors, at=None, likelihood=None, **options):
        if isinstance(priors, dict) and not isinstance(priors, prior.PriorDict):
            priors = prior.PriorDict(priors)
        return bilby.run_sampler(
            likelihood or Normal(at or {"a": A}),
            priors,
            sampler="evidentia",
            outdir=str(tmp_path),
            label="run",
            **options,
        )

    return run


def is_close(found, exact):
    return abs(found.log_evidence - exact) < 4 * found.log_evidence_err < 0.2


def test_the_evidence_and_the_posterior(run, tmp_path):
    priors = {"a": prior.Uniform(-5, 5), "b": prior.Normal(0, 2), "c": 7.0}
    found = run(priors, {"a": A, "b": B})
    assert is_close(found, LOG_UNIFORM + norm.logpdf(1.0, 0, np.hypot(2, 0.2)))
    posterior = found.posterior
    assert abs(posterior["a"].mean() - 0.3) < 4 * 0.1 / np.sqrt(len(posterior))
    assert set(posterior["c"]) == {7.0}
    nested = found.nested_samples
    assert nested["weights"].sum() == pytest.approx(1.0)
    assert nested["weights"] @ nested["a"] == pytest.approx(0.3, abs=0.03)
    at = posterior.iloc[0]
    assert at["log_likelihood"] == pytest.approx(
        norm.logpdf(at["a"], *A) + norm.logpdf(at["b"], *B), abs=1e-4
    )
    assert found.information_gain == pytest.approx(
        nested["weights"] @ nested["log_likelihood"] - found.log_evidence
    )
    assert found.num_likelihood_evaluations > 1000
    kept = json.loads((tmp_path / "run_result.json").read_text())
    assert kept["meta_data"]["evidentia"]["verdict"]["word"] == "trusted"


def test_a_conditional_prior(run):
    """b ~ Uniform(0, a), a ~ Uniform(1, 2): the evidence of a peak in b is E[1/a] = log 2."""

    def below(reference_parameters, a):
        return {"minimum": 0.0, "maximum": a}

    priors = prior.ConditionalPriorDict(
        {"a": prior.Uniform(1, 2), "b": prior.ConditionalUniform(below, minimum=0, maximum=2)}
    )
    assert is_close(run(priors, {"b": (0.5, 0.05)}), np.log(np.log(2.0)))


def test_a_constraint_normalises_the_prior(run):
    """Half of the square lies where a > b, and the peak a quarter of the way into it."""

    def difference(parameters):
        return {**parameters, "difference": parameters["a"] - parameters["b"]}

    priors = prior.PriorDict(
        {
            "a": prior.Uniform(-5, 5),
            "b": prior.Uniform(-5, 5),
            "difference": prior.Constraint(minimum=0, maximum=20),
        },
        conversion_function=difference,
    )
    at = {"a": (0.1, 0.1), "b": (0.0, 0.1)}
    inside = norm.logcdf(0.1 / np.hypot(0.1, 0.1))
    assert is_close(run(priors, at), 2 * LOG_UNIFORM + np.log(2.0) + inside)
    priors["difference"] = prior.Constraint(minimum=11, maximum=20)


def test_a_constraint_that_leaves_almost_nothing():
    """A square of side 10⁻⁴ in the corner of a unit square, which no draw meets."""
    from evidentia.bilby_sampler import Evidentia

    priors = prior.PriorDict(
        {"a": prior.Uniform(0, 1), "b": prior.Uniform(0, 1), "corner": prior.Constraint(0, 1e-4)},
        conversion_function=lambda given: {**given, "corner": max(given["a"], given["b"])},
    )
    sampler = Evidentia(Normal({"a": A}), priors, soft_init=True)
    with pytest.raises(ev.ModelError, match=r"constraints \(corner\): none of 16,384 draws"):
        sampler.run_sampler()


def test_a_periodic_parameter_and_a_ratio(run):
    """A peak across the edge of a circle; the ratio to the noise is bilby's evidence less that."""
    priors = {"a": prior.Uniform(0, 1, boundary="periodic")}

    class Across(Normal):
        def log_likelihood(self, parameters=None):
            given = (self.parameters if parameters is None else parameters)["a"]
            return float(norm.logpdf((given + 0.5) % 1.0, 0.5, 0.05))

    found = run(priors, likelihood=Across({}, noise=-3.0))
    assert found.use_ratio and found.log_bayes_factor == pytest.approx(found.log_evidence + 3.0)
    assert is_close(found, 0.0)


def test_workers_settings_and_going_on(run, tmp_path):
    priors = {"a": prior.Uniform(-5, 5), "b": prior.Normal(0, 2)}
    at = {"a": A, "b": B}
    first = run(priors, at, npool=2, sampling_seed=5)
    (tmp_path / "run_result.json").unlink()  # which bilby would return
    again = run(priors, at, sampling_seed=5)
    assert again.log_evidence == first.log_evidence
    assert again.num_likelihood_evaluations < first.num_likelihood_evaluations
    (tmp_path / "run_result.json").unlink()
    other = run(priors, at, seed=6, resume=False, method=ev.PriorSampling(num_particles=4096))
    assert other.log_evidence != first.log_evidence
    assert other.sampler_kwargs["method"].startswith("PriorSampling(")


def test_nothing_to_sample():
    from evidentia.bilby_sampler import Evidentia

    sampler = Evidentia(Normal({"a": A}), {"a": 0.3}, soft_init=True)
    with pytest.raises(ev.ModelError, match="at least one parameter free"):
        sampler.run_sampler()
