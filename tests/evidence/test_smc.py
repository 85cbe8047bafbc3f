"""SMC: exact evidences along both paths, unbiased for every resampling scheme; rejections."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia import weights
from evidentia.data.arrays import as_arrays, on_device
from evidentia.posterior.rows import Window
from tests.evidence.scores import fresh_scores
from tests.evidence.test_analytic_truths import CASES

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("name", ["linear", "normal-inverse-gamma"])
@pytest.mark.parametrize("chunk_size", [None, 10])
def test_estimates_agree_with_the_exact_evidence(name, chunk_size):
    found = fresh_scores(ev.SMC(chunk_size=chunk_size), CASES[name], range(4))
    assert np.all(np.abs(found) < 3.5), found
    assert abs(found.mean()) < 4 / np.sqrt(4), found


@pytest.mark.parametrize(
    ("scheme", "chain_length", "chunk_size"),
    [*((scheme, 1, 3) for scheme in weights.SCHEMES), ("systematic", 4, 3), ("multinomial", 8, None)],
)
def test_the_mean_of_the_evidence_is_the_evidence(scheme, chain_length, chunk_size):
    case = CASES["beta-bernoulli"]
    data = case.simulate(np.random.default_rng(0), 30)
    bound, rows = case.explicit.bind(data), Window(jax.tree.map(jnp.asarray, data), 0, 30)
    method, ratios = ev.SMC(64, chain_length, chunk_size, resampling=scheme), []
    for seed in range(40):
        *_, last = method.run(bound, rows, jax.random.key(seed))
        # The raw estimate, without the correction for the bias of the logarithm.
        ratios.append(np.exp(last.estimate.raw - case.exact(data)))
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios) / np.sqrt(40)
    assert np.std(ratios) > 0.02  # otherwise the test would prove nothing


def test_moves_do_not_keep_what_the_scale_of_few_particles_has_by_chance():
    # Each half is moved with the scale of the other; with its own, the mean error is 7 nats.
    size = 50
    model = ev.Model(
        {"x": dist.Normal(0, 1).expand([size]).to_event(1)},
        lambda params, y: dist.Normal(params["x"], 0.1).log_prob(y).sum(-1),
    )
    y = np.random.default_rng(0).normal(0, 1, (1, size)).astype(np.float32)
    exact = dist.Normal(0, np.sqrt(1.01)).log_prob(y).sum()
    found = [ev.estimate(model, y, method=ev.SMC(64), seed=seed) for seed in range(4)]
    errors = np.array([each.log_evidence - exact for each in found])
    assert abs(errors.mean()) < 4 * max(each.standard_error for each in found) / np.sqrt(4)


def test_rows_are_taken_in_one_by_one_as_published():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)
    arrays = on_device(as_arrays(data))
    snapshots = list(
        ev.SMC(chunk_size=1, chain_length=1).run(model.bind(arrays), Window(arrays, 0, 30), jax.random.key(0))
    )
    assert [snapshot.num_observations for snapshot in snapshots] == list(range(1, 31))
    for n in (2, 10, 30):
        exact = model.exact_log_evidence({name: array[:n] for name, array in data.items()})
        found = snapshots[n - 1].estimate
        assert abs(found.log_evidence - exact) < 4 * found.standard_error


def test_published_resamples_and_moves_after_every_row():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(40, 0)
    bound, rows = model.bind(on_device(data)), Window(on_device(data), 0, 40)
    method = ev.SMC.published()
    state, steps = method.init(bound, jax.random.key(0)), []
    for n in range(40):
        state, info = method.update(bound, state, rows.part(0, n), rows.part(n, n + 1))
        steps += info.steps
        assert state.population.log_weights.tolist() == [0.0] * method.num_particles
    assert len(steps) == 40 and not any(np.isnan(step.correlation) for step in steps)
    estimate = method.estimate(state)
    assert estimate.log_evidence == estimate.raw
    assert abs(estimate.raw - model.exact_log_evidence(data)) < 4.5 * estimate.standard_error


def test_ctrl_c_returns_the_rows_so_far():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(200, 0)

    def interrupt(update):
        if update.num_observations == 100:
            raise KeyboardInterrupt

    with pytest.warns(ev.EvidenceWarning, match="stopped after 100 of 200 observations"):
        evidence = ev.estimate(model, data, method=ev.SMC(chunk_size=10), progress=interrupt)
    assert not evidence.completed and evidence.num_observations == 100


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_particles": 1}, r"num_particles must be an integer of at least 2; got 1\."),
        ({"chain_length": 0}, r"chain_length must be an integer of at least 1; got 0\."),
        ({"chunk_size": 0}, r"chunk_size must be an integer of at least 1; got 0\."),
        ({"target_ess": 0.0}, r"target_ess is a fraction of the particles .* got 0\.0\."),
        (
            {"resampling": "bootstrap"},
            r"resampling must be one of systematic, stratified, residual, multinomial; got 'bootstrap'\.",
        ),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.SMC(**fields)


@pytest.mark.parametrize("seed", [3, 5])
def test_particles_that_do_not_represent_a_heavy_tailed_posterior_drift(seed):
    # A Student t in 15 dimensions under a wide normal prior: these seeds are a nat too low, with
    # standard errors of 0.15.
    size, degrees = 15, 3.0
    model = ev.Model(
        {"x": dist.Normal(0.0, 10.0).expand([size]).to_event(1)},
        lambda params, batch: (
            -0.5 * (degrees + size) * jnp.log1p(jnp.sum((params["x"] - batch["y"]) ** 2, -1) / degrees)
        ),
    )
    y = np.random.default_rng(seed + 16).standard_normal((1, size)).astype(np.float32)
    with pytest.warns(ev.DiagnosticWarning, match="change the log-likelihood"):
        evidence = ev.estimate(model, {"y": y}, method=ev.SMC(), seed=seed)
    assert evidence.verdict.word == "doubtful" and evidence.diagnostics["drift"] > 0.3
