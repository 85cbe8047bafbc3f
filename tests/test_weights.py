"""Log weights: limits of the effective sample size, temperatures, increments, resampling."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evidentia import weights

log_weight_vectors = arrays(np.float64, st.integers(2, 40), elements=st.floats(-50, 50))


def test_ess_of_equal_weights_is_their_number():
    assert weights.ess(np.full(7, -1234.5)) == pytest.approx(7)


def test_ess_of_one_dominant_weight_is_one():
    assert weights.ess(np.array([0.0, -800.0, -800.0])) == pytest.approx(1)


def test_ess_of_zero_weights_is_zero():
    assert weights.ess(np.full(3, -np.inf)) == 0


def test_particles_of_weight_zero_do_not_count():
    assert weights.ess(np.array([0.0, 0.0, -np.inf])) == pytest.approx(2)


@given(log_weight_vectors, st.floats(-1e3, 1e3))
def test_ess_lies_between_one_and_the_number_and_ignores_scale(log_weights, shift):
    assert 1 - 1e-9 <= weights.ess(log_weights) <= len(log_weights) + 1e-9
    assert weights.ess(log_weights + shift) == pytest.approx(weights.ess(log_weights), rel=1e-8)


@given(log_weight_vectors)
def test_normalised_weights_sum_to_one(log_weights):
    assert np.exp(weights.normalise(log_weights)).sum() == pytest.approx(1)


def test_family_variance_of_single_particles_is_the_relative_variance():
    log_weights = np.random.default_rng(0).normal(size=50)
    variance = weights.family_variance(log_weights, np.arange(50), 50)
    assert variance == pytest.approx(weights.relative_variance(log_weights))


def test_twins_that_count_as_one_double_the_variance():
    log_weights = np.repeat(np.random.default_rng(0).normal(size=500), 2)
    twins, single = np.repeat(np.arange(500), 2), np.arange(1000)
    ratio = (weights.family_variance(log_weights, twins, 1000) + 1 / 1000) / (
        weights.family_variance(log_weights, single, 1000) + 1 / 1000
    )
    assert ratio == pytest.approx(2.0)


def test_evidence_increment_is_the_weighted_mean_likelihood():
    log_weights = np.log([0.2, 0.3, 0.5])
    increments = np.log([1.0, 2.0, 4.0])
    assert weights.log_evidence_increment(log_weights, increments) == pytest.approx(np.log(0.2 + 0.6 + 2.0))


@given(log_weight_vectors, log_weight_vectors, st.floats(-1e3, 1e3))
def test_evidence_increments_of_two_steps_add_up(log_weights, increments, shift):
    increments = np.resize(increments, log_weights.shape)
    half = weights.log_evidence_increment(log_weights, 0.5 * increments)
    half += weights.log_evidence_increment(log_weights + 0.5 * increments, 0.5 * increments)
    assert half == pytest.approx(weights.log_evidence_increment(log_weights, increments), abs=1e-9)


def test_relative_variance_is_that_of_the_mean_weight():
    sample = np.random.default_rng(1).lognormal(sigma=0.3, size=400)
    expected = sample.var() / sample.mean() ** 2 / len(sample)
    assert weights.relative_variance(np.log(sample)) == pytest.approx(expected)


def test_next_temperature_reaches_the_target_ess():
    log_likelihoods = 100 * np.random.default_rng(2).normal(size=64)
    temperature = weights.next_temperature(np.zeros(64), log_likelihoods, 0.0, target=32)
    assert 0 < temperature < 1
    assert weights.ess(temperature * log_likelihoods) == pytest.approx(32, rel=1e-3)


def test_next_temperature_is_one_when_the_whole_step_keeps_enough():
    assert weights.next_temperature(np.zeros(8), np.linspace(0, 0.1, 8), 0.25, target=4) == 1.0


def test_next_temperature_counts_from_the_present_one():
    log_likelihoods = 100 * np.random.default_rng(3).normal(size=64)
    first = weights.next_temperature(np.zeros(64), log_likelihoods, 0.0, target=32)
    second = weights.next_temperature(np.zeros(64), log_likelihoods, 0.5, target=32)
    assert second - 0.5 == pytest.approx(first, rel=1e-4)


def test_next_temperature_moves_on_when_fewer_particles_survive_than_the_target():
    log_likelihoods = np.r_[np.full(60, -np.inf), 0.0, -10.0, -20.0, -30.0]
    temperature = weights.next_temperature(np.zeros(64), log_likelihoods, 0.0, target=32)
    assert weights.ess(temperature * log_likelihoods) == pytest.approx(0.9 * 4, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_systematic_resampling_rounds_the_expected_counts(seed):
    log_weights = np.random.default_rng(seed).normal(size=33)
    ancestors = np.asarray(weights.resample(jax.random.key(seed), log_weights))
    counts = np.bincount(ancestors, minlength=33)
    # A count is off by one if a boundary is within float32 rounding of a stratum's edge.
    expected = 33 * np.exp(weights.normalise(log_weights))
    assert np.all(counts >= np.floor(expected - 1e-4)) and np.all(counts <= np.ceil(expected + 1e-4))


def test_resampling_never_draws_a_weight_of_zero():
    log_weights = np.array([0.0, -np.inf, 0.0, -np.inf])
    for seed in range(20):
        assert set(np.asarray(weights.resample(jax.random.key(seed), log_weights))) <= {0, 2}


def test_different_keys_give_different_ancestors():
    log_weights = np.random.default_rng(0).normal(size=100)
    first, second = (weights.resample(jax.random.key(seed), log_weights) for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("shape", [0.3, 0.6, 0.9])
def test_pareto_shape_of_pareto_weights(shape):
    found = []
    for seed in range(20):
        uniform = np.random.default_rng(seed).uniform(size=4000)
        log_weights = np.append(-shape * np.log(uniform), -np.inf)
        found.append(weights.pareto_shape(log_weights))
    # The fit to the largest 3√4000 = 190 weights has a standard error of about (1 + k)/√190, and
    # shrinks k towards 1/2.
    assert np.mean(found) == pytest.approx(
        shape, abs=4.5 * (1 + shape) / np.sqrt(190 * 20) + 10 / 200 * abs(0.5 - shape)
    )


def test_the_relative_variance_of_equal_weights_is_zero_and_of_none_unknown():
    assert all(weights.relative_variance(np.zeros(count)) < 1e-15 for count in range(2, 100))
    assert np.isnan(weights.relative_variance(np.full(3, -np.inf)))


@pytest.mark.parametrize("values", [[0.0], [0.0, 1.0, 2.0], np.zeros(100), [*np.zeros(50), 1e3]])
def test_tails_that_cannot_be_fitted_have_an_infinite_shape(values):
    assert weights.pareto_shape(np.array(values)) == math.inf


def test_the_share_of_a_path_follows_the_logarithm_of_the_temperature():
    assert weights.share_of_path(0.01, 0.01) == 0.0
    assert weights.share_of_path(0.01, 0.1) == pytest.approx(0.5)
    assert weights.share_of_path(1.0, 1.0) == weights.share_of_path(0.01, 1.0) == 1.0
    assert weights.share_of_path(0.0, 0.25) == 0.25
