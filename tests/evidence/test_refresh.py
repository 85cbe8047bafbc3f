"""Refresh: exact where the posterior is a Student t's, refused where it is not covered."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.annealing import Population
from evidentia.evidence.refresh import covers, weighted_draws
from evidentia.laplace import Laplace, laplace_approximation
from evidentia.rows import Rows

COUNT = 2000


@pytest.fixture(scope="module")
def linear():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(1000, 0)
    rows = Rows(jax.tree.map(jnp.asarray, data), 0, 1000)
    bound = model.bind(data)
    return bound, rows, laplace_approximation(bound, rows, np.zeros(4)), model.exact_log_evidence(data)


def test_the_mean_weight_is_the_evidence(linear):
    model, rows, laplace, exact = linear
    scores = []
    for seed in range(10):
        draws = weighted_draws(model, rows, laplace, jax.random.key(seed), COUNT)
        share = np.exp(draws.log_weights - draws.log_weights.max())
        scores.append((draws.log_evidence - exact) / (np.std(share) / np.mean(share) / np.sqrt(COUNT)))
    assert np.max(np.abs(scores)) < 4.5 and abs(np.mean(scores)) < 4 / np.sqrt(10)


def test_a_proposal_far_off_is_refused(linear):
    model, rows, laplace, _ = linear
    narrow = Laplace(laplace.mode, 100 * laplace.precision)
    elsewhere = Laplace(laplace.mode + 1.0, laplace.precision)
    for wrong in (narrow, elsewhere):
        assert weighted_draws(model, rows, wrong, jax.random.key(0), COUNT) is None


def two_modes(params, y):
    """A coin's toss for the sign: two modes of the same height at -1 and 1, each of width 0.1 after a hundred rows."""
    near = -0.5 * (jnp.abs(params["m"]) - 1 - 0 * y) ** 2
    return near - 0.5 * jnp.log(2 * jnp.pi)


@pytest.fixture(scope="module")
def symmetric():
    model = ev.Model(prior={"m": dist.Normal(0, 1)}, log_likelihood=two_modes, name="two modes")
    y = np.zeros(100, np.float32)
    return model, y


def test_a_mode_that_the_proposal_misses_is_noticed(symmetric):
    model, y = symmetric
    bound, rows = model.bind(y), Rows(jnp.asarray(y), 0, 100)
    laplace = laplace_approximation(bound, rows, np.array([0.9]))
    draws = weighted_draws(bound, rows, laplace, jax.random.key(0), COUNT)
    assert draws is not None  # on its own it looks well
    for share, is_covered in ((0.0, True), (0.5, False), (0.15, False)):
        particles = draws.positions * jnp.where(jnp.arange(COUNT) < share * COUNT, -1, 1)[:, None]
        # A log evidence that is right: two modes, not the one that the draws saw.
        population = Population(None, particles, draws.log_weights, draws.log_evidence + np.log(2))
        assert covers(bound, rows, laplace, draws, population) == is_covered


@pytest.mark.filterwarnings("ignore::evidentia.errors.DiagnosticWarning")  # particles keep to their modes
def test_with_two_modes_the_path_counts_both(symmetric):
    model, y = symmetric
    grid = np.linspace(-6, 6, 200_001)
    log_density = 100 * (-0.5 * (np.abs(grid) - 1) ** 2 - 0.5 * np.log(2 * np.pi)) - 0.5 * grid**2
    exact = (
        np.log(np.trapezoid(np.exp(log_density - log_density.max()) / np.sqrt(2 * np.pi), grid))
        + log_density.max()
    )
    for seed in range(4):
        evidence = ev.estimate(model, y, seed=seed)
        assert evidence.diagnostics["num_refreshes"] == 0
        assert abs(evidence.log_evidence - exact) < 4.5 * evidence.standard_error


def test_rows_in_other_arrays_than_their_past_are_annealed():
    model = ev.models.linear_regression(num_features=3)
    data, _ = model.simulate(2000, 0)
    bound, method = model.bind(data), ev.SGAIS()
    state = method.init(bound, jax.random.key(0))
    halves = [
        jax.tree.map(jnp.asarray, {name: array[part] for name, array in data.items()})
        for part in (slice(0, 1000), slice(1000, 2000))
    ]
    first = Rows(halves[0], 0, 1000)
    state, info = method.update(bound, state, Rows(halves[0], 0, 0), first)
    assert info.is_refreshed
    state, info = method.update(bound, state, first, Rows(halves[1], 0, 1000))
    assert not info.is_refreshed and state.num_observations == 2000
    log_evidence, standard_error = method.summary(state)
    assert abs(log_evidence - model.exact_log_evidence(data)) < 4.5 * standard_error
