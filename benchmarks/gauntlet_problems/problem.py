"""A problem of the gauntlet, and truths by quadrature."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

import evidentia as ev

LogDensity = Callable[[np.ndarray], np.ndarray]  # (points, dimensions) -> (points,)

NODES, LOG_WEIGHTS = (lambda x, w: (x, np.log(w)))(*np.polynomial.legendre.leggauss(10))
NEGLIGIBLE = 45.0  # nats below the highest point, where a box may be cut off
COARSE = {1: 20_000, 2: 120, 3: 60}  # grid points of each axis, by dimension
PANELS = {1: (2000, 1500), 2: (16, 12), 3: (8, 6)}
AGREEMENT = 1e-3  # nats between two numbers of panels


class Problem(NamedTuple):
    """A model with data and the true log evidence, in nats, with its standard error."""

    model: ev.Model | ev.Regression
    data: dict[str, np.ndarray]
    truth: float
    truth_error: float = 0.0


def problem(prior: dict[str, Any], log_likelihood: Callable, truth: float, **data: np.ndarray) -> Problem:
    """A problem whose model has no names of its own; floats become float32, as in evidentia."""
    return Problem(ev.Model(prior, log_likelihood), data, float(truth))


def single(values) -> np.ndarray:
    """Values rounded to float32, which the truth must use too."""
    return np.asarray(values, np.float32)


def log_integral(log_density: LogDensity, *bounds: tuple[float, float]) -> float:
    """log ∫ exp(log_density) over a box of one to three dimensions, by Gauss-Legendre panels.

    The box is first shrunk to where the density is not negligible. Raises AssertionError if two
    numbers of panels disagree.
    """
    for _ in range(4):
        bounds = _shrunk(log_density, bounds)
    fine, coarse = (_log_sum(log_density, bounds, panels) for panels in PANELS[len(bounds)])
    assert abs(fine - coarse) < AGREEMENT, (fine, coarse)
    return fine


def _shrunk(log_density: LogDensity, bounds):
    axes = [np.linspace(*bound, COARSE[len(bounds)]) for bound in bounds]
    heights = log_density(_product(axes)).reshape([len(axis) for axis in axes])
    is_high = heights > np.nanmax(heights) - NEGLIGIBLE
    shrunk = []
    for number, axis in enumerate(axes):
        others = tuple(i for i in range(len(axes)) if i != number)
        (index,) = np.nonzero(is_high.any(axis=others))
        shrunk.append((axis[max(index[0] - 2, 0)], axis[min(index[-1] + 2, len(axis) - 1)]))
    return tuple(shrunk)


def _log_sum(log_density: LogDensity, bounds, panels: int) -> float:
    axes, log_weights = [], []
    for low, high in bounds:
        half = 0.5 * (high - low) / panels
        centres = low + half * (2 * np.arange(panels) + 1)
        axes.append((centres[:, None] + half * NODES).ravel())
        log_weights.append(np.tile(LOG_WEIGHTS + np.log(half), panels))
    total = _product(log_weights).sum(1)
    return float(logsumexp(log_density(_product(axes)) + total))


def _product(axes) -> np.ndarray:
    return np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], axis=-1)


def over_rows(pointwise: Callable, log_prior: LogDensity, *columns: np.ndarray) -> LogDensity:
    """Log joint density at many points; `pointwise(*point, *columns)` broadcasts over rows."""
    wide = [np.asarray(column, np.float64) for column in columns]

    def log_density(points: np.ndarray) -> np.ndarray:
        size = max(1, 4_000_000 // len(wide[0]))
        parts = [
            pointwise(*points[start : start + size].T[:, :, None], *wide).sum(1)
            for start in range(0, len(points), size)
        ]
        return np.concatenate(parts) + log_prior(points)

    return log_density


def independent(*log_densities: Callable[[np.ndarray], np.ndarray]) -> LogDensity:
    """The log density of independent coordinates."""
    return lambda points: sum(
        log_density(column) for log_density, column in zip(log_densities, points.T, strict=True)
    )
