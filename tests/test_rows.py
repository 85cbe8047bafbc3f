"""Sums over rows: every row once, any window, no digits lost."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidentia.model import Model
from evidentia.rows import BLOCK_SIZE, Rows, fold_rows, joined, log_likelihood_sums, next_stop

CAPACITY = 3 * BLOCK_SIZE + 17


@jax.jit
def visits(rows):
    def count(carry, block, mask):
        return carry.at[block].add(mask)

    return fold_rows(count, jnp.zeros(CAPACITY, jnp.int32), rows)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, CAPACITY), st.integers(0, CAPACITY))
def test_a_fold_visits_each_row_of_the_window_once(first, second):
    start, stop = sorted((first, second))
    rows = Rows(jnp.arange(CAPACITY), start, stop)
    expected = np.zeros(CAPACITY)
    expected[start:stop] = 1
    np.testing.assert_array_equal(visits(rows), expected)


def test_windows_side_by_side_are_joined():
    arrays = {"y": jnp.arange(10)}
    assert joined(Rows(arrays, 0, 4), Rows(arrays, 4, 9)) == Rows(arrays, 0, 9)
    assert joined(Rows(arrays, 0, 4), Rows(arrays, 5, 9)) is None
    assert joined(Rows(arrays, 1, 4), Rows(arrays, 4, 9)) is None
    assert joined(Rows(arrays, 0, 4), Rows({"y": jnp.arange(10)}, 4, 9)) is None


def _location_model():
    """y ~ N(m, 1): a log-likelihood of about -10³ a row, so that float32 sums would lose the answer."""
    return Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: -0.5 * (batch["y"] - params["m"]) ** 2 - 1000.0,
    )


def test_log_likelihoods_of_a_million_rows_keep_their_digits():
    y = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    model = _location_model().bind({"y": y})
    positions = np.array([[0.0], [0.01], [-0.02], [0.03]], np.float32)
    deviations, offset = log_likelihood_sums(
        model, jnp.asarray(positions), Rows({"y": jnp.asarray(y)}, 0, len(y))
    )
    exact = np.array([(-0.5 * (y.astype(float) - float(m[0])) ** 2 - 1000.0).sum() for m in positions])
    # A row of -1000 nats is rounded to float32 steps of 2^-14; those errors are random and grow as the square root.
    tolerance = 4 * 2.0**-14 / np.sqrt(12) * np.sqrt(len(y))
    np.testing.assert_allclose(deviations + offset, exact, rtol=0, atol=tolerance)


def test_rounding_of_data_that_take_few_values_does_not_add_up():
    # Each row's value is rounded in the same way, an error of 10⁻⁷ that a million rows make 0.1.
    model = Model(
        prior={"p": dist.Beta(1.0, 1.0)},
        log_likelihood=lambda params, batch: -1.1 - params["p"] * (1.0 + batch["y"]),
    ).bind({"y": np.ones(4, np.int32)})
    positions = jnp.linspace(-0.01, 0.01, 33)[:, None]
    rows = Rows({"y": jnp.zeros(1_000_000, jnp.int32)}, 0, 1_000_000)
    deviations, offset = log_likelihood_sums(model, positions, rows)
    exact = -1e6 * (1.1 + 1 / (1 + np.exp(-np.asarray(positions[:, 0], np.float64))))
    assert abs(np.mean(deviations + offset - exact)) < 4 * 0.06 / np.sqrt(12) / np.sqrt(8)
    # Single particles keep the rounding of their own values, at most half a step of 2⁻²³ for each row.
    np.testing.assert_allclose(deviations + offset, exact, rtol=0, atol=2 * 0.06)


def test_deviations_are_finite_when_one_particle_rules_a_row_out():
    model = Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.where(batch["y"] > params["m"], 0.0, -jnp.inf),
    ).bind({"y": np.ones(4, np.float32)})
    rows = Rows({"y": jnp.ones(4)}, 0, 4)
    deviations, _ = log_likelihood_sums(model, jnp.array([[0.0], [2.0]]), rows)
    assert np.isfinite(deviations[0]) and deviations[1] == -np.inf


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
def test_nan_and_plus_infinity_are_reported_as_nan(value):
    model = Model(
        prior={"m": dist.Normal(0.0, 1.0)},
        log_likelihood=lambda params, batch: jnp.where(params["m"] > 1, value, -params["m"] * batch["y"]),
    ).bind({"y": np.ones(4, np.float32)})
    deviations, _ = log_likelihood_sums(model, jnp.array([[0.0], [2.0]]), Rows({"y": jnp.ones(4)}, 0, 4))
    assert np.isfinite(deviations[0]) and np.isnan(deviations[1])


@given(st.integers(1, 20_000), st.integers(1, 3000), st.booleans())
def test_chunks_hold_each_row_once_in_order(total, size, is_rounded):
    stop = 0
    while stop < total:
        start, stop = stop, next_stop(stop, size, total, round_above=stop if is_rounded else None)
        assert 0 < stop - start <= size
    assert stop == total


def stops(total, size, *, is_rounded):
    found = [0]
    while found[-1] < total:
        start = found[-1]
        found.append(next_stop(start, size(start), total, round_above=start if is_rounded else None))
    return found[1:]


def test_chunks_stop_at_round_numbers():
    found = stops(100_000, lambda n: max(500, n), is_rounded=True)
    assert found == [500, 1000, 2000, 4000, 5000, 10_000, 20_000, 40_000, 50_000, 100_000]


def test_a_chunk_that_reaches_the_end_does_not_stop_before():
    found = stops(100_000, lambda n: max(500, 4 * n), is_rounded=True)
    assert found == [500, 1000, 2000, 5000, 10_000, 20_000, 100_000]


def test_a_chunk_can_pass_round_numbers_that_were_tried():
    assert next_stop(1000, 24_000, 100_000, round_above=5000) == 10_000


def test_chunks_of_one_size_are_equal():
    assert stops(2300, lambda n: 500, is_rounded=False) == [500, 1000, 1500, 2000, 2300]
