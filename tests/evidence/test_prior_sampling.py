"""Prior sampling: unbiased, accurate if the posterior is near the prior, and flagged if not."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.prior_sampling import log_mean_likelihood
from tests.evidence.test_analytic_truths import CASES

pytestmark = pytest.mark.reference

METHOD = ev.PriorSampling(num_particles=4000)
MANY = ev.PriorSampling(num_particles=16_000)  # in four batches


def problem(name, num_observations=30):
    case = CASES[name]
    data = case.simulate(np.random.default_rng(1), num_observations)
    return case.explicit, data, case.exact(data)


@pytest.mark.parametrize("name", ["gamma-poisson", "normal-inverse-gamma"])
def test_estimates_agree_with_the_exact_evidence(name):
    # As in test_analytic_truths: a failure happens by chance once in 10⁴ cases.
    model, data, exact = problem(name, 10)
    runs = [ev.estimate(model, data, method=METHOD, seed=seed) for seed in range(10)]
    scores = np.array([(run.log_evidence - exact) / run.standard_error for run in runs])
    assert np.all(np.abs(scores) < 4.5) and abs(scores.mean()) < 4 / np.sqrt(10), scores


def test_the_standard_error_is_what_repeats_vary_by():
    model, data, exact = problem("beta-bernoulli")
    repeats = 60
    runs = [ev.estimate(model, data, method=METHOD, seed=seed) for seed in range(repeats)]
    scores = np.array([(run.log_evidence - exact) / run.standard_error for run in runs])
    # 60 independent scores: mean within 4 / √60 of zero, deviation within 4 / √120 of one.
    assert abs(scores.mean()) < 4 / np.sqrt(repeats), scores.mean()
    assert abs(scores.std() - 1) < 4 / np.sqrt(2 * repeats), scores.std()


def test_the_posterior_is_the_draws_weighted_by_their_likelihood():
    model, data, _ = problem("beta-bernoulli")
    evidence = ev.estimate(model, data, method=METHOD)
    ones, n = data["y"].sum(), len(data["y"])
    mean = np.exp(evidence.weighted.log_weights) @ evidence.weighted["p"]
    truth = dist.Beta(2.0 + ones, 1.0 + n - ones)
    assert abs(mean - truth.mean) < 4 * np.sqrt(truth.variance / evidence.ess)


def test_a_posterior_far_from_the_prior_is_said_loudly():
    model, data, exact = problem("linear", 500)
    with pytest.warns(
        ev.DiagnosticWarning, match=r"effective draws of 4,000 .* Use SGAIS\(\), or Laplace\(\)"
    ):
        runs = [ev.estimate(model, data, method=METHOD, seed=seed) for seed in range(5)]
    assert all(run.diagnostics["ess"] < 100 for run in runs)
    assert np.median([run.log_evidence for run in runs]) < exact  # a single run may be far too high


def test_batches_change_nothing_but_the_draws():
    model, data, exact = problem("gamma-poisson")
    updates = []
    evidence = ev.estimate(model, data, method=MANY, progress=updates.append)
    assert [update.share_done for update in updates] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert abs(evidence.log_evidence - exact) < 4.5 * evidence.standard_error
    assert evidence.num_particles == 16_000 and len(evidence.trajectory) == 1
    same = ev.estimate(model, data, method=MANY)
    assert same.log_evidence == evidence.log_evidence
    assert ev.estimate(model, data, method=MANY, seed=1).log_evidence != evidence.log_evidence


def test_ctrl_c_leaves_the_estimate_of_the_batches_so_far():
    model, data, exact = problem("gamma-poisson")

    def interrupt(update):
        if update.share_done > 0.5:
            raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning, match="stopped after 3 steps"):
        evidence = ev.estimate(model, data, method=MANY, progress=interrupt)
    assert not evidence.completed and evidence.num_particles == 12_000
    assert abs(evidence.log_evidence - exact) < 4.5 * evidence.standard_error


def uniform_width(threshold):
    return ev.Model(
        {"m": dist.Uniform(0, 1)}, lambda params, y: jnp.where(params["m"] > threshold, 0.0, -jnp.inf) + 0 * y
    )


@pytest.mark.filterwarnings("ignore::evidentia.EvidenceWarning")
def test_likelihoods_of_zero_count_as_zero():
    y = np.zeros(5, np.float32)
    evidence = ev.estimate(uniform_width(0.75), y, method=METHOD)
    assert abs(evidence.log_evidence - np.log(0.25)) < 4.5 * evidence.standard_error


def test_data_that_are_impossible_or_not_a_number_are_errors():
    method = ev.PriorSampling(num_particles=100)
    y = np.zeros(5, np.float32)
    with pytest.raises(ev.EstimationError, match="rows 0 to 4 is -inf at all 100 draws"):
        ev.estimate(uniform_width(0.9999), y, method=method)
    broken = ev.Model(
        {"m": dist.Normal(0, 1)}, lambda params, y: jnp.where(params["m"] > 2, jnp.nan, params["m"]) + 0 * y
    )
    with pytest.raises(ev.EstimationError, match=r"rows 0 to 4 is NaN or \+inf at \d of 100 draws"):
        ev.estimate(broken, y, method=method)


@pytest.mark.parametrize("method", [ev.PriorSampling, ev.HarmonicMean, ev.Laplace])
@pytest.mark.parametrize("given", [1, 0, 10.5, "many"])
def test_the_number_of_particles_is_checked(method, given):
    with pytest.raises(ev.ConfigurationError, match=f"num_particles must be an integer .*; got {given!r}"):
        method(num_particles=given)


def test_the_mean_of_likelihoods_is_taken_on_their_own_scale():
    log_evidence, error = log_mean_likelihood(np.array([-1e6, -1e6 + np.log(3)]))
    assert log_evidence == pytest.approx(-1e6 + np.log(2), abs=1e-9)
    assert error == pytest.approx(
        0.5 / np.sqrt(2)
    )  # likelihoods 1 and 3: a deviation of 1 relative to a mean of 2
