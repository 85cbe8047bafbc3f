"""Planted faults of a proposal are caught before any weight is computed."""

from typing import Any

import numpy as np
import pytest

from evidentia.errors import EstimationError
from evidentia.evidence.population.mixture import Mixture, check_density, mean_ratio
from evidentia.posterior.gaussian import LocalGaussian


def proposal_of(size: int) -> Mixture:
    """Two components of different mass and place."""
    first = LocalGaussian(np.zeros(size), np.diag(np.linspace(1.0, 100.0, size)), 0.0)
    return Mixture((first, LocalGaussian(np.full(size, 4.0), 3 * np.eye(size), -2.0)))


class TooNarrow(Mixture):
    """Draws at 0.8 of the scale that the density has."""

    def draw(self, generator: np.random.Generator, count: int) -> Any:
        draws = np.asarray(super().draw(generator, count))
        return np.float32(0.8) * draws


class OffByAConstant(Mixture):
    """A density too high by 0.3 nats."""

    def log_density(self, positions: Any) -> np.ndarray:
        return super().log_density(positions) + 0.3


@pytest.mark.parametrize("size", [1, 2, 10, 60, 200])
def test_a_density_is_that_of_its_draws(size):
    mean, error = mean_ratio(proposal_of(size), 0)
    assert mean == pytest.approx(1.0, abs=4 * error)
    assert error < 0.15
    check_density(proposal_of(size))


@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize("kind", [TooNarrow, OffByAConstant])
def test_planted_faults_are_caught(size, kind):
    faulty = kind(proposal_of(size).components[:1])
    with pytest.raises(EstimationError, match=r"its integral is .* instead of 1"):
        check_density(faulty)


def test_positions_that_float32_cannot_tell_apart_are_caught():
    narrow = Mixture((LocalGaussian(np.array([0.3, 0.3]), 1e20 * np.eye(2), 0.0),))
    with pytest.raises(EstimationError, match="too narrow for float32"):
        check_density(narrow)
