"""Every family's truth, by two computations that share nothing; the same seed, the same problem."""

import json

import numpy as np
import pytest
from fresh_families import FAMILIES, draw

from tests.benchmarks.second_truth import second_truth

TOLERANCE = 2e-3  # nats; quadratures agree to 1e-3


def error_of(family: str, seed: int) -> float:
    problem = draw(family, seed)
    return abs(second_truth(problem) - problem.truth) / max(1.0, abs(problem.truth) * 1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_truth_twice(family):
    assert error_of(family, 0) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_truths_of_many_seeds(family):
    errors = {seed: error_of(family, seed) for seed in range(1, 21)}
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_a_problem(family):
    one, same, other = draw(family, 3), draw(family, 3), draw(family, 4)
    assert one.truth == same.truth != other.truth
    assert all(np.array_equal(one.data[name], same.data[name]) for name in one.data)
    assert one.model is same.model  # compiled programs are shared
    assert json.loads(json.dumps(one.drawn)) == one.drawn


def test_there_are_enough_families():
    assert len(FAMILIES) >= 25
