"""The evidence of models without parameters is their likelihood: by every way in and method."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import evidentia as ev
from evidentia.errors import EstimationError, ModelError

Y = np.random.default_rng(0).normal(0.5, 1.0, 60).astype(np.float32)
DATA = {"y": Y}
EXACT = norm.logpdf(Y.astype(float)).sum()


def standard(y):
    numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def holds_its_data():
    standard(Y)


def with_an_idle_parameter(y):
    numpyro.sample("idle", dist.Gamma(2.0, 1.0))
    standard(y)


def log_likelihood(params, batch):
    return dist.Normal(0.0, 1.0).log_prob(batch["y"])


MODELS = {
    "numpyro": (ev.Model.from_numpyro(standard), DATA),
    "numpyro without arguments": (ev.Model.from_numpyro(holds_its_data), None),
    "functions": (ev.Model({}, log_likelihood), DATA),
    "of all data": (ev.Model({}, lambda p, b: log_likelihood(p, b).sum(), pointwise=False), DATA),
    "callable": (ev.Model.from_callable(lambda params: EXACT, prior={}), None),
    "unit cube": (ev.Model.from_callable(lambda x: EXACT + x.sum(), lambda u: u, num_parameters=0), None),
    "vectorised": (
        ev.Model.from_callable(lambda x: np.full(len(x), EXACT), lambda u: u, names=(), vectorized=True),
        None,
    ),
    "idle parameter": (ev.Model.from_numpyro(with_an_idle_parameter), DATA),
    "constant": (ev.Model({"idle": dist.Normal(0.0, 1.0)}, log_likelihood), DATA),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_log_evidence_is_the_log_likelihood(name):
    model, data = MODELS[name]
    evidence = ev.estimate(model, data)
    assert evidence.log_evidence == pytest.approx(EXACT, abs=2e-5)  # data in a closure are of float32
    assert (evidence.standard_error, evidence.verdict.word) == (0.0, "trusted")
    assert set(evidence.posterior) == ({"idle"} if "idle" in name or name == "constant" else set())
    assert "uses no parameters" in str(evidence.diagnostics["chosen"])


@pytest.mark.parametrize(
    "method",
    [ev.SGAIS(), ev.Laplace(), ev.AIS(), ev.SMC(), ev.NestedSampling(), ev.AMIS(), ev.PriorSampling(),
     ev.HarmonicMean(), ev.BridgeSampling(), ev.Sequential(), ev.OnlineNestedSampling(), ev.Jarzynski()],
)  # fmt: skip
def test_every_method_gives_the_exact_value(method):
    for name in ("numpyro", "idle parameter"):
        evidence = ev.estimate(MODELS[name][0], DATA, method=method, target_standard_error=1e-9)
        assert (evidence.log_evidence, evidence.standard_error) == (pytest.approx(EXACT, abs=1e-9), 0.0)


def test_the_posterior_of_an_idle_parameter_is_its_prior():
    draws = ev.estimate(*MODELS["idle parameter"]).posterior["idle"]
    assert abs(draws.mean() - 2.0) < 4 * np.sqrt(2.0 / len(draws))


def test_a_result_without_parameters_is_a_result(tmp_path):
    evidence = ev.estimate(*MODELS["numpyro"])
    evidence.save(tmp_path / "saved")
    loaded = ev.load(tmp_path / "saved")
    assert (loaded.log_evidence, loaded.method) == (evidence.log_evidence, evidence.method)
    assert repr(evidence).startswith("Evidence(standard: ") and "Likelihood" in evidence._repr_html_()
    assert evidence.to_dict()["parameters"] == {}
    assert evidence.to_arviz().sample_stats["log_weight"].shape == (1, evidence.num_particles)
    evidence.plot_posterior()
    comparison = ev.compare({"null": loaded, "idle": ev.estimate(*MODELS["constant"])})
    assert comparison.to_dict()["models"]["null"]["probability"] == pytest.approx(0.5)


def test_a_stream_adds_up_to_the_exact_value(tmp_path):
    for name in ("numpyro", "constant"):
        online = ev.Online(MODELS[name][0], reservoir_size=500)
        parts = [online.update({"y": Y[start : start + 7]}).log_predictive for start in range(0, 60, 7)]
        assert (sum(parts), online.log_evidence) == (pytest.approx(EXACT), pytest.approx(EXACT))
        online.save(tmp_path / name)
        again = ev.Online.load(tmp_path / name, MODELS[name][0])
        many = {"y": np.tile(Y, 20)}  # beyond round numbers of rows, and the reservoir
        assert again.update(many).log_evidence == online.update(many).log_evidence
        assert (online.log_evidence, online.standard_error) == (pytest.approx(21 * EXACT), 0.0)
        np.testing.assert_allclose(online.log_predictive(DATA), norm.logpdf(Y), rtol=1e-5)


@pytest.mark.slow
def test_fleets_and_averages_take_models_without_parameters():
    model = MODELS["numpyro"][0]
    [record, _] = ev.estimate_many(model, [DATA, DATA])
    assert record.evidences["standard"].log_evidence == pytest.approx(EXACT, abs=1e-4)
    [update] = ev.OnlineFleet(model).update({"a": DATA}).results.values()
    assert update.log_evidence == pytest.approx(EXACT, abs=1e-4)
    average = ev.ModelAverage({"a": ev.Online(model), "b": ev.Online(MODELS["constant"][0])})
    assert average.update(DATA).probabilities["a"] == pytest.approx(0.5)
    assert ev.sandwich(model, lambda seed: (DATA, {})).gap == 0.0


def test_priors_do_not_matter_to_a_constant_likelihood():
    table = ev.prior_sensitivity(ev.estimate(*MODELS["constant"]))
    assert not np.any(table.change) and not np.any(table.change_error)


def mixture(y):
    with numpyro.plate("rows", len(y)):
        kind = numpyro.sample("kind", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(kind, 1.0), obs=y)


def noisy(y):
    with numpyro.plate("rows", len(y)):
        level = numpyro.sample("level", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(level, 1.0), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (mixture, logsumexp([np.log(0.7) + norm.logpdf(Y), np.log(0.3) + norm.logpdf(Y, 1.0)], axis=0).sum()),
        (noisy, norm.logpdf(Y, 0.0, np.sqrt(2.0)).sum()),
    ],
)
def test_latents_of_rows_are_no_parameters(function, exact):
    evidence = ev.estimate(ev.Model.from_numpyro(function), DATA)
    assert evidence.log_evidence == pytest.approx(exact, abs=1e-3)
    assert evidence.standard_error < 1e-3


def test_pymc_models_without_free_variables():
    pm = pytest.importorskip("pymc")
    with pm.Model() as observed:
        pm.Normal("y", 0.0, 1.0, observed=Y)
    with pm.Model() as potential:
        pm.Potential("log likelihood", pm.logp(pm.Normal.dist(0.0, 1.0), Y).sum())
    for pm_model in (observed, potential):
        assert ev.estimate(ev.Model.from_pymc(pm_model)).log_evidence == pytest.approx(EXACT, abs=2e-5)
    with pytest.raises(ModelError, match="the PyMC model has neither an observed variable nor a Potential"):
        ev.Model.from_pymc(pm.Model())


def test_an_impossible_or_undefined_likelihood_is_refused():
    for value, message in ((jnp.nan, "is NaN or"), (jnp.inf, "is NaN or"), (-jnp.inf, "is -inf at all 1")):
        model = ev.Model({}, lambda p, b, value=value: jnp.full(b["y"].shape, value))
        with pytest.raises(EstimationError, match=message):
            ev.estimate(model, DATA)


@pytest.mark.parametrize("constant", [-1e9, 1e12])
def test_a_large_constant_leaves_the_evidence_right(constant):
    def shifted(params, batch):
        return dist.Normal(params["mean"], 1.0).log_prob(batch["y"]) + constant

    evidence = ev.estimate(ev.Model({"mean": dist.Normal(0.0, 1.0)}, shifted), DATA, method=ev.Laplace())
    squares, total = np.sum(np.square(Y, dtype=float)), np.sum(Y, dtype=float)
    exact = -0.5 * (60 * np.log(2 * np.pi) + np.log(61) + squares - total**2 / 61)
    # one unit in the last place of 6·10¹³ nats is 0.008
    assert evidence.log_evidence - 60 * constant == pytest.approx(exact, abs=0.05)
    assert jax.config.jax_enable_x64 is False


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e12, 1e30])
def test_the_unit_of_the_data_only_shifts_the_evidence(unit):
    def log_likelihood(params, batch):
        return dist.Normal(params["mean"], unit).log_prob(batch["y"])

    model = ev.Model({"mean": dist.Normal(0.0, unit)}, log_likelihood)
    found = ev.estimate(model, {"y": (Y * unit).astype(np.float32)})
    squares, total = np.sum(np.square(Y, dtype=float)), np.sum(Y, dtype=float)
    exact = -0.5 * (60 * np.log(2 * np.pi) + np.log(61) + squares - total**2 / 61) - 60 * np.log(unit)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error + 1e-3
