"""AIS: exact evidences under every kernel and schedule, unbiased, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.rows import Rows
from tests.evidence.test_analytic_truths import CASES

FEW = ev.AIS(num_particles=128)


def scores(name, method, num_rows, seeds):
    """Errors in units of the reported standard error, each on data of its own."""
    case, found = CASES[name], []
    for seed in seeds:
        data = case.simulate(np.random.default_rng([num_rows, seed]), num_rows)
        evidence = ev.estimate(case.explicit, data, method=method, seed=seed)
        found.append((evidence.log_evidence - case.exact(data)) / evidence.standard_error)
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_estimates_agree_with_the_exact_evidence(name):
    found = scores(name, FEW, 200, range(4))
    assert np.all(np.abs(found) < 3.5), found
    assert abs(found.mean()) < 4 / np.sqrt(4), found


@pytest.mark.parametrize(
    "kernel", [ev.kernels.MALA(), ev.kernels.RandomWalk(), ev.kernels.BAOAB()], ids=lambda k: type(k).__name__
)
def test_every_kernel_finds_the_evidence(kernel):
    found = scores("linear", ev.AIS(kernel=kernel, num_particles=128), 200, range(2))
    assert np.all(np.abs(found) < 4), found


GEOMETRIC = np.r_[0, np.geomspace(1e-3, 1, 30)]


@pytest.mark.parametrize("schedule", [ev.linear_schedule(100), ev.sigmoid_schedule(50), GEOMETRIC])
def test_a_schedule_is_followed(schedule):
    case = CASES["beta-bernoulli"]
    data = case.simulate(np.random.default_rng(0), 200)
    evidence = ev.estimate(case.explicit, data, method=replace(FEW, schedule=schedule))
    assert evidence.trajectory.num_annealing_steps.sum() == len(schedule) - 1
    assert abs(evidence.log_evidence - case.exact(data)) < 4 * evidence.standard_error


def test_the_mean_of_the_evidence_is_the_evidence():
    case = CASES["beta-bernoulli"]
    data = case.simulate(np.random.default_rng(0), 30)
    bound, rows = case.explicit.bind(data), Rows(jax.tree.map(jnp.asarray, data), 0, 30)
    method, ratios = ev.AIS(num_particles=16, schedule=ev.sigmoid_schedule(8)), []
    for seed in range(40):
        *_, last = method.run(bound, rows, jax.random.key(seed))
        # Without the correction for the bias of the logarithm.
        ratios.append(np.exp(last.log_evidence - 0.5 * last.standard_error**2 - case.exact(data)))
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios) / np.sqrt(40)
    assert np.std(ratios) > 0.02  # else the test would prove nothing


def test_the_posterior_is_that_of_the_model():
    case = CASES["beta-bernoulli"]
    data = case.simulate(np.random.default_rng(1), 200)
    evidence = ev.estimate(case.explicit, data, method=FEW)
    weights, draws = np.exp(evidence.log_weights), evidence.posterior["p"]
    ones = data["y"].sum()
    mean = (2 + ones) / 203
    spread = np.sqrt(mean * (1 - mean) / 204)
    assert abs(weights @ draws - mean) < 4 * spread / np.sqrt(evidence.ess)


def test_draws_that_the_data_rule_out_from_the_start_are_no_boundary_that_moves_crossed():
    """y = 0 with a mean that must be above -0.5: 31% of the prior is impossible, and no warning blames the moves."""
    model = ev.Model(
        {"m": dist.Normal(0, 1)},
        lambda params, batch: jnp.where(
            params["m"] > -0.5, dist.Normal(params["m"], 1).log_prob(batch["y"]), -jnp.inf
        ),
    )
    evidence = ev.estimate(model, {"y": np.zeros(2)}, method=ev.AIS())
    draws = np.linspace(-0.5, 12, 200_001)
    density = np.exp(-0.5 * 3 * draws**2) / (2 * np.pi) ** 1.5
    exact = np.log(np.sum(density) * (draws[1] - draws[0]))
    assert abs(evidence.log_evidence - exact) < 4 * evidence.standard_error


def test_published_is_that_of_the_paper():
    method = ev.AIS.published()
    assert (method.num_particles, method.target_ess * method.num_particles) == (10, 5)
    assert method.kernel == ev.kernels.SGHMC(learning_rate=0.1, friction=0.2, num_steps=20)
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)
    with pytest.warns(ev.DiagnosticWarning):
        evidence = ev.estimate(model, data, method=method)
    assert np.isfinite(evidence.log_evidence)


def test_progress_shows_the_way_and_only_the_end_is_an_estimate():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)
    updates = []
    evidence = ev.estimate(model, data, method=FEW, progress=updates.append)
    shares = [update.share for update in updates]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert {update.num_observations for update in updates[:-1]} == {0}
    assert updates[-1].num_observations == evidence.num_observations == 200
    assert len(evidence.trajectory) == 1


def test_ctrl_c_on_the_way_is_passed_on():
    """On the way there is no estimate of the evidence yet."""
    model = ev.models.linear_regression(num_features=3)

    def interrupt(update):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ev.estimate(model, model.simulate(200, 0)[0], method=FEW, progress=interrupt)


def test_the_same_seed_repeats_and_another_differs():
    case = CASES["beta-bernoulli"]
    data = case.simulate(np.random.default_rng(0), 200)
    first, again, other = (
        ev.estimate(case.explicit, data, method=FEW, seed=seed).log_evidence for seed in (3, 3, 4)
    )
    assert first == again != other


def test_sigmoid_steps_are_shorter_at_the_ends():
    schedule = ev.sigmoid_schedule(10, delta=6.0)
    steps = np.diff(schedule)
    assert schedule[0] == 0 and schedule[-1] == 1 and np.all(steps > 0)
    np.testing.assert_allclose(steps, steps[::-1])
    assert steps[0] < 0.2 * steps[4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ev.AIS(num_particles=1), r"num_particles must be an integer of at least 2; got 1\."),
        (lambda: ev.AIS(num_particles=10.5), r"num_particles must be an integer of at least 2; got 10\.5\."),
        (
            lambda: ev.AIS(kernel=ev.kernels.Rejection()),
            r"kernel must be one of kernels\.HMC\(\), .* got Rejection",
        ),
        (lambda: ev.AIS(kernel=ev.kernels.HMC), r"kernel must be one of kernels\.HMC\(\), .* got <class"),
        (lambda: ev.AIS(target_ess=1.0), r"target_ess is a fraction of the particles .* got 1\.0\."),
        (
            lambda: ev.AIS(schedule=[0, 0.5, 0.5, 1]),
            r"schedule must rise from 0 to 1, .* got \[0\.  0\.5 0\.5 1\. \]\.",
        ),
        (lambda: ev.AIS(schedule=[0.1, 1]), r"schedule must rise from 0 to 1"),
        (lambda: ev.AIS(schedule=[0.0]), r"schedule must rise from 0 to 1"),
        (lambda: ev.linear_schedule(0), r"num_steps must be an integer of at least 1; got 0\."),
        (lambda: ev.sigmoid_schedule(10, 0.0), r"delta must be positive; got 0\.0\."),
    ],
)
def test_impossible_fields_are_refused(make, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        make()
