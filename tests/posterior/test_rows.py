"""Sums over rows: each row counted once, any window, no loss of digits."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidentia.model.model import Model
from evidentia.posterior import row_sums
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.row_sums import BLOCK_SIZE, sum_rows
from evidentia.posterior.rows import MORE_EXACT, ROUNDING, Window

CAPACITY = 3 * BLOCK_SIZE + 17


@jax.jit
def visits(rows):
    def count(carry, block, weights):
        return carry.at[block].add(weights.astype(jnp.int32))

    return sum_rows(count, jnp.zeros(CAPACITY, jnp.int32), rows)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, CAPACITY), st.integers(0, CAPACITY))
def test_a_fold_visits_each_row_of_the_window_once(first, second):
    start, stop = sorted((first, second))
    rows = Window(jnp.arange(CAPACITY), start, stop)
    expected = np.zeros(CAPACITY)
    expected[start:stop] = 1
    np.testing.assert_array_equal(visits(rows), expected)


def test_a_part_of_a_window_counts_from_its_first_row():
    arrays = {"y": jnp.arange(10)}
    part = Window(arrays, 3, 9).part(1, 4)
    assert (part.start, part.stop, part.size) == (4, 7, 3)
    assert part.arrays is arrays


def test_a_sample_is_spread_evenly_and_never_larger_than_the_window():
    window = Window({"y": jnp.arange(100)}, 10, 90)
    sample = window.sample(9)
    np.testing.assert_array_equal(sample.arrays["y"], [10, 19, 29, 39, 49, 59, 69, 79, 89])
    assert window.sample(1000) == Window(window.arrays, 10, 90)


def test_a_window_that_stands_for_more_rows_counts_each_of_its_own_more_often():
    y = np.random.default_rng(0).normal(size=30).astype(np.float32)
    model = _location_model().bind({"y": y})
    window = Window({"y": jnp.asarray(y)}, 0, 30)
    nothing = Expansion(np.zeros(1), np.zeros(()), np.zeros(1), np.zeros((1, 1)))
    thrice = Window(window.arrays, 0, 30, 3.0, nothing)
    assert thrice.num_observations == 90
    positions = jnp.array([[0.1], [0.4]])
    single, triple = (sum(rows.log_likelihoods(model, positions)) for rows in (window, thrice))
    np.testing.assert_allclose(triple, 3 * single, rtol=1e-6)
    for of_one, of_three in zip(
        window.expand(model, np.array([0.2]))[1:], thrice.expand(model, np.array([0.2]))[1:], strict=True
    ):
        np.testing.assert_allclose(of_three, 3 * of_one, rtol=1e-12)


def test_the_expansion_is_exact_for_a_gaussian_likelihood_however_large_it_is():
    y = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    model = _location_model().bind({"y": y})
    found = Window({"y": jnp.asarray(y)}, 0, len(y)).expand(model, np.array([0.3]))
    residuals = y.astype(float) - 0.3
    assert found.value == pytest.approx(np.sum(-0.5 * residuals**2 - 1000.0), rel=1e-12)
    np.testing.assert_allclose(found.gradient, [residuals.sum()], rtol=1e-9)
    np.testing.assert_allclose(found.hessian, [[-len(y)]], rtol=1e-12)
    without = Window({"y": jnp.asarray(y)}, 0, len(y)).expand(model, np.array([0.3]), hessian=False)
    assert without.value == found.value


def _location_model():
    """y ~ N(m, 1) with about -10³ nats per row, so that float32 sums would lose the answer."""
    return Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: -0.5 * (batch["y"] - params["m"]) ** 2 - 1000.0,
    )


def test_log_likelihoods_of_a_million_rows_keep_their_digits():
    y = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    model = _location_model().bind({"y": y})
    positions = np.array([[0.0], [0.01], [-0.02], [0.03]], np.float32)
    window = Window({"y": jnp.asarray(y)}, 0, len(y))
    deviations, offset = window.log_likelihoods(model, jnp.asarray(positions))
    exact = np.array([(-0.5 * (y.astype(float) - float(m[0])) ** 2 - 1000.0).sum() for m in positions])
    # A row of -1000 nats is rounded to float32 steps of 2^-14; the errors are random and their sum
    # grows as the square root.
    tolerance = 4 * 2.0**-14 / np.sqrt(12) * np.sqrt(len(y))
    np.testing.assert_allclose(deviations + offset, exact, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_rounding_of_data_that_take_few_values_does_not_add_up():
    # All rows are rounded in the same way: a million errors of 10⁻⁷ add up to 0.1.
    model = Model(
        prior={"p": dist.Beta(1.0, 1.0)},
        log_likelihood=lambda params, batch: -1.1 - params["p"] * (1.0 + batch["y"]),
    ).bind({"y": np.ones(4, np.int32)})
    positions = jnp.linspace(-0.01, 0.01, 33)[:, None]
    rows = Window({"y": jnp.zeros(1_000_000, jnp.int32)}, 0, 1_000_000)
    deviations, offset = rows.log_likelihoods(model, positions)
    exact = -1e6 * (1.1 + 1 / (1 + np.exp(-np.asarray(positions[:, 0], np.float64))))
    assert abs(np.mean(deviations + offset - exact)) < 4 * 0.06 / np.sqrt(12) / np.sqrt(8)
    # Single particles keep their own rounding errors, at most half a step of 2⁻²³ per row.
    np.testing.assert_allclose(deviations + offset, exact, rtol=0, atol=2 * 0.06)


def test_rounding_errors_of_all_rows_are_corrected_by_those_of_some():
    """A million errors of up to 5·10⁻⁷, and one particle where the likelihood is zero."""

    def log_likelihood(params, batch):
        possible = params["m"] < 1.0
        return jnp.where(possible, -11.1 - params["m"] * (1.0 + batch["y"]), -jnp.inf)

    model = Model({"m": dist.Normal(0, 1)}, log_likelihood).bind({"y": np.ones(4, np.int32)})
    positions = np.append(np.linspace(-0.01, 0.01, 32), 2.0).astype(np.float32)[:, None]
    rows = Window({"y": jnp.zeros(1_000_000, jnp.int32)}, 0, 1_000_000)
    exact = -1e6 * (11.1 + positions[:-1, 0].astype(float))
    rounded = np.asarray(row_sums.deviations(model, jnp.asarray(positions), rows), float)
    corrected, offset = rows.log_likelihoods(model, jnp.asarray(positions))
    assert 0.1 < np.std(rounded[:-1] - exact) < 1.0
    # All rows in float64 would leave some 10⁻⁹.
    assert 1e-7 < np.std(corrected[:-1] + offset - exact) < 0.01
    assert rounded[-1] == corrected[-1] == -np.inf


def test_the_offset_is_good_where_particles_have_rounding_errors_of_their_own():
    """10⁵ equal rows: each particle is off by up to 0.1 nats; eight of them average badly."""
    model = Model(
        prior={"m": dist.Normal(0, 1)},
        log_likelihood=lambda params, batch: -22.2 - params["m"] * (1.0 + batch["y"]),
    ).bind({"y": np.ones(4, np.int32)})
    rows = Window({"y": jnp.zeros(100_000, jnp.int32)}, 0, 100_000)
    errors = []
    for seed in range(10):
        positions = np.random.default_rng(seed).uniform(-0.01, 0.01, (256, 1)).astype(np.float32)
        deviations, offset = rows.log_likelihoods(model, jnp.asarray(positions))
        errors.append(deviations + offset + 1e5 * (22.2 + positions[:, 0].astype(float)))
    of_one = np.std(errors)
    assert 0.03 < of_one < ROUNDING
    # The mean of all particles, from 128 of them: rms of ten, which has a spread of a quarter.
    assert np.sqrt(np.mean(np.mean(errors, axis=1) ** 2)) < 1.75 * of_one / np.sqrt(MORE_EXACT)


def test_particles_far_out_leave_the_others_their_digits():
    """A Poisson log-likelihood of -10³² at one of ten particles, as a heavy-tailed prior has."""
    model = Model(
        {"rate": dist.Normal(0, 1)},
        lambda params, batch: params["rate"] * batch - jnp.exp(params["rate"]),
        name="counts",
    )
    counts = np.arange(100, dtype=np.float32) % 3
    positions = np.append(np.linspace(-1, 1, 9), 70.0)[:, None]
    window = Window(jnp.asarray(counts), 0, 100)
    deviations, offset = window.log_likelihoods(model.bind(counts), jnp.asarray(positions, jnp.float32))
    exact = positions[:, 0] * counts.sum() - 100 * np.exp(positions[:, 0])
    np.testing.assert_allclose(deviations[:9] + offset, exact[:9], atol=1e-3)
    assert deviations[9] == pytest.approx(exact[9], rel=1e-4)


def test_deviations_are_finite_when_one_particle_rules_a_row_out():
    model = Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.where(batch["y"] > params["m"], 0.0, -jnp.inf),
    ).bind({"y": np.ones(4, np.float32)})
    rows = Window({"y": jnp.ones(4)}, 0, 4)
    deviations, _ = rows.log_likelihoods(model, jnp.array([[0.0], [2.0]]))
    assert np.isfinite(deviations[0]) and deviations[1] == -np.inf


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
def test_nan_and_plus_infinity_are_reported_as_nan(value):
    model = Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.where(params["m"] > 1, value, -params["m"] * batch["y"]),
    ).bind({"y": np.ones(4, np.float32)})
    deviations, _ = Window({"y": jnp.ones(4)}, 0, 4).log_likelihoods(model, jnp.array([[0.0], [2.0]]))
    assert np.isfinite(deviations[0]) and np.isnan(deviations[1])
