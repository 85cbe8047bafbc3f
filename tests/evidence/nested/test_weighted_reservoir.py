"""Chao's reservoir: every point is included with its exact probability, overweight ones too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.evidence.nested.weighted_reservoir import WeightedReservoir


def inclusion_probabilities(weights, size):
    """min(1, w / τ) with sum `size`: set overweight points aside until none is left."""
    weights, is_over = np.asarray(weights, float), np.zeros(len(weights), bool)
    while True:
        threshold = weights[~is_over].sum() / (size - is_over.sum())
        if not np.any(new := ~is_over & (weights >= threshold)):
            return np.where(is_over, 1.0, weights / threshold)
        is_over |= new


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "size"),
    [
        ([100, 1, 1, 1, 2, 3, 50], 3),  # the first point stays overweight
        ([5, 1, 1, 1, 1, 1, 1, 1], 2),  # overweight until others arrive
        ([1, 10, 100, 1000, 1, 1, 1000, 500, 20], 3),
        (list(np.exp(np.arange(12))), 4),  # each is overweight on arrival
        ([1, 1, 1, 1, 1], 1),
    ],
)
def test_points_are_included_with_their_probabilities(weights, size):
    generator, repeats = np.random.default_rng(0), 1500
    counts = np.zeros(len(weights))
    for _ in range(repeats):
        reservoir = WeightedReservoir(size)
        for item, weight in enumerate(weights):
            reservoir.offer(generator, item, np.log(weight) - 5000.0)  # far below the range of floats
        counts[reservoir.items] += 1
    probabilities = inclusion_probabilities(weights, size)
    four_errors = 4 * np.sqrt(probabilities * (1 - probabilities) / repeats)
    # Each item's count is binomial, and there are at most 41: one in 400 such tests exceeds four
    # standard errors by chance.
    assert np.all(np.abs(counts / repeats - probabilities) <= four_errors + 1e-9)


@given(st.lists(st.floats(-2000, 2000), min_size=4, max_size=40), st.integers(1, 4), st.integers(0, 1000))
def test_it_holds_as_many_as_it_may_and_none_twice(log_weights, size, seed):
    reservoir, generator = WeightedReservoir(size), np.random.default_rng(seed)
    for item, log_weight in enumerate(log_weights):
        reservoir.offer(generator, item, log_weight)
    assert len(reservoir.items) == len(set(reservoir.items)) == size


def test_points_of_weight_zero_are_not_taken():
    reservoir, generator = WeightedReservoir(2), np.random.default_rng(0)
    for item, log_weight in enumerate([-np.inf, 0.0, -np.inf, -800.0, -np.inf]):
        reservoir.offer(generator, item, log_weight)
    assert sorted(reservoir.items) == [1, 3]
