"""The record of the past against sums over all rows, with a likelihood that is not quadratic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import evidentia as ev
from evidentia.evidence.population.particles import Population
from evidentia.online import past as pasts
from evidentia.online import reservoir as reservoirs
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window, without_remainder
from evidentia.posterior.target import gradient_sum, log_target, posterior

NUM_ROWS, CAPACITY = 6000, 1000
MODEL = ev.models.softmax_regression(num_features=2, num_classes=2)
AWAY = np.array([3.0, -1.0, 2.0, 0.0, 1.0, -1.0], np.float32)


@pytest.fixture(scope="module")
def stream():
    """The model, all rows on the device, and Gaussian particles near the posterior of all rows."""
    data, params = MODEL.simulate(NUM_ROWS, 1)
    bound = MODEL.bind(data)
    true = np.asarray(bound.unconstrain({name: jnp.asarray(value) for name, value in params.items()}))
    noise = np.random.default_rng(0).standard_normal((16, bound.num_parameters)) / np.sqrt(NUM_ROWS)
    positions = jnp.asarray(true + noise, jnp.float32)
    return bound, data, Window(jax.tree.map(jnp.asarray, data), 0, NUM_ROWS), positions


def followed(bound, data, positions, *, stop=NUM_ROWS, seed=0):
    """The past after the stream, with particles that approach their place as a posterior does."""
    past = pasts.StreamPast(reservoirs.empty(data, CAPACITY, seed))
    while (first := past.reservoir.num_observations) < stop:
        size = min(250, reservoirs.room(past.reservoir))
        chunk = jax.tree.map(lambda leaf: leaf[first : first + size], data)  # noqa: B023
        reservoir, window = reservoirs.stage(past.reservoir, chunk)
        away = positions + AWAY / np.sqrt(first + size)
        population = Population(jax.random.key(0), away, np.zeros(len(away)))
        past = pasts.absorb(bound, past._replace(reservoir=reservoir), window, population)
    return past


def test_while_every_row_is_kept_the_window_is_all_rows(stream):
    bound, data, _, positions = stream
    past = followed(bound, data, positions, stop=CAPACITY)
    assert past.sums is None and past.standard_error == 0.0
    assert past.window.remainder is None and past.window.num_observations == CAPACITY


@pytest.mark.slow
def test_log_likelihoods_are_those_of_all_rows_near_the_posterior(stream):
    """Within a tenth of a nat, while the weighted sample alone is off by tens of nats."""
    bound, data, all_rows, positions = stream
    past = followed(bound, data, positions)
    assert past.sums is not None and past.window.num_observations == pytest.approx(NUM_ROWS)
    exact = all_rows.exact_log_likelihoods(bound, np.asarray(positions))
    errors = past.window.exact_log_likelihoods(bound, np.asarray(positions)) - exact
    assert np.abs(errors).max() < 0.05
    deviations, offset = past.window.log_likelihoods(bound, positions)
    np.testing.assert_allclose(deviations + offset - exact, errors, atol=2e-3)
    sample = without_remainder(past.window)
    alone = sample.exact_log_likelihoods(bound, np.asarray(positions)) * NUM_ROWS / CAPACITY - exact
    assert np.abs(alone).max() > 10


@pytest.mark.slow
def test_the_standard_error_is_that_of_the_log_likelihood(stream):
    """Mean squared error over squared standard error: 1.15 ± 0.14 for 100 reservoirs.

    For 12 reservoirs, χ² allows a factor of 3 (0.1%).
    """
    bound, data, all_rows, positions = stream
    exact = all_rows.exact_log_likelihoods(bound, np.asarray(positions[:1]))[0]
    ratios = []
    for seed in range(12):
        place = np.asarray(positions[0], np.float64)
        past = followed(bound, data, positions, seed=seed)
        past = past._replace(sums=pasts.sums_about(bound, past, place, place))
        error = past.window.exact_log_likelihoods(bound, np.asarray(positions[:1]))[0] - exact
        ratios.append((error / past.standard_error) ** 2)
    assert 1 / 3 < np.mean(ratios) < 3, ratios


@pytest.mark.slow
def test_gradients_and_curvature_are_those_of_all_rows_within_a_hundredth_of_a_standard_deviation(stream):
    bound, data, all_rows, positions = stream
    past = followed(bound, data, positions)
    exact, found = (rows.expand(bound, positions[0]) for rows in (all_rows, past.window))
    widths = np.sqrt(-np.diag(exact.hessian))  # of the gradient over the posterior
    np.testing.assert_allclose(found.gradient / widths, exact.gradient / widths, atol=0.05)
    np.testing.assert_allclose(
        np.asarray(found.hessian) / np.outer(widths, widths),
        np.asarray(exact.hessian) / np.outer(widths, widths),
        atol=0.05,
    )
    np.testing.assert_allclose(
        np.asarray(gradient_sum(bound, positions, past.window)) / widths,
        np.asarray(gradient_sum(bound, positions, all_rows)) / widths,
        atol=0.05,
    )
    slope = jax.grad(log_target(bound, posterior(past.window)))(positions[0])
    slope -= jax.grad(bound.log_prior)(positions[0])
    np.testing.assert_allclose(np.asarray(slope), np.asarray(found.gradient), rtol=1e-3, atol=0.05)


def test_another_centre_leaves_the_log_likelihood_the_same_function(stream):
    bound, data, _, positions = stream
    past = followed(bound, data, positions)
    place = np.asarray(positions[3], np.float64)
    moved = past._replace(sums=pasts.sums_about(bound, past, place, place))
    before, after = (
        each.window.exact_log_likelihoods(bound, np.asarray(positions)) for each in (past, moved)
    )
    np.testing.assert_allclose(after, before, atol=1e-6)
    assert moved.standard_error > past.standard_error


def test_the_mode_of_what_is_kept_is_that_of_all_rows(stream):
    """Within a tenth of a posterior standard deviation, in the metric of the curvature there."""
    bound, data, all_rows, positions = stream
    past = followed(bound, data, positions)
    start = np.asarray(positions[0], np.float64)
    exact, found = (newton(bound, rows, start, tolerance=1e-6) for rows in (all_rows, past.window))
    assert exact is not None and found is not None
    step = found.centre - exact.centre
    assert step @ exact.precision @ step < 0.1**2
    assert abs(found.log_mass - exact.log_mass) < 0.1
