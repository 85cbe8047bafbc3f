"""The log Bayes factor of a t test as a smooth function of t and n, for thousands of tests.

Exact values on a grid are interpolated: by cubic splines over arcsinh(t / 2), and over log n by
the polynomial through Chebyshev's points. Both grids are doubled until the values at new points
differ from those interpolated by less than a tolerance, which bounds the error of the finer grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.polynomial import chebyshev
from scipy.interpolate import CubicSpline

TOLERANCE = 1e-4  # nats
SPACING = 0.3  # of arcsinh(t / 2), at first
MOST_POINTS, MOST_COUNTS = 5_000, 129

LogBayesFactors = Callable[[ndarray, float], ndarray]  # of t statistics with the same n


@dataclass(frozen=True, eq=False)
class Surface:
    """Log Bayes factors on a grid.

    Attributes:
        places: arcsinh(t / 2), in order.
        log_counts: log n.
        values: exact log BF₁₀, a row for each n.
        error: the largest error found at points between those of the last grid but one.
    """

    places: Float[ndarray, " places"]
    log_counts: Float[ndarray, " counts"]
    values: Float[ndarray, "counts places"]
    error: float

    def at(self, t: ndarray, count: int) -> ndarray:
        """log BF₁₀ of t statistics within the grid, all of the same n."""
        row = _between(self.log_counts, self.values, np.array([np.log(count)]))[0]
        return CubicSpline(self.places, row)(np.arcsinh(t / 2))


def surface_of(
    log_bf10: LogBayesFactors, t_ends: tuple[float, float], looks: Int[ndarray, " looks"]
) -> Surface:
    """The surface between two t statistics, at all numbers of observations in `looks`."""
    ends = np.log(looks[[0, -1]])
    places, error = _places(log_bf10, np.arcsinh(np.array(t_ends) / 2), np.unique(ends))

    def rows(log_counts: ndarray) -> ndarray:
        return np.array([_row(log_bf10, places, log_count) for log_count in log_counts]).reshape(
            -1, len(places)
        )

    intervals = 4
    if len(looks) <= intervals + 1:
        return Surface(places, np.log(looks), rows(np.log(looks)), error)
    nodes = _chebyshev(ends[0], ends[1], intervals)
    values = rows(nodes)
    while True:
        intervals *= 2
        finer = _chebyshev(ends[0], ends[1], intervals)
        new = rows(finer[1::2])
        found = float(np.abs(_between(nodes, values, finer[1::2]) - new).max())
        merged = np.empty((intervals + 1, len(places)))
        merged[::2], merged[1::2] = values, new
        nodes, values = finer, merged
        if found < TOLERANCE or len(nodes) >= MOST_COUNTS:
            return Surface(places, nodes, values, max(error, found))


def _places(log_bf10: LogBayesFactors, ends: ndarray, log_counts: ndarray) -> tuple[ndarray, float]:
    """Places that are close enough for a cubic spline at the least and the largest n."""
    places = np.linspace(ends[0], ends[1], max(int(np.ptp(ends) / SPACING), 6))
    values = np.array([_row(log_bf10, places, log_count) for log_count in log_counts])
    while True:
        middle = (places[1:] + places[:-1]) / 2
        new = np.array([_row(log_bf10, middle, log_count) for log_count in log_counts])
        error = float(np.abs(CubicSpline(places, values, axis=1)(middle) - new).max())
        places = np.insert(places, np.arange(1, len(places)), middle)
        values = np.insert(values, np.arange(1, values.shape[1]), new, axis=1)
        if error < TOLERANCE or len(places) >= MOST_POINTS:
            return places, error


def _row(log_bf10: LogBayesFactors, places: ndarray, log_count: float) -> ndarray:
    return log_bf10(2 * np.sinh(places), float(np.exp(log_count)))


def _between(nodes: ndarray, values: ndarray, wanted: ndarray) -> ndarray:
    """Rows at other nodes, by the polynomial through all."""
    middle, half = (nodes[0] + nodes[-1]) / 2, (nodes[-1] - nodes[0]) / 2 or 1.0
    coefficients = chebyshev.chebfit((nodes - middle) / half, values, len(nodes) - 1)
    return chebyshev.chebval((wanted - middle) / half, coefficients).T


def _chebyshev(low: float, high: float, intervals: int) -> ndarray:
    """The extremes of Chebyshev's polynomial; every second is one of half as many intervals."""
    return (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * np.arange(intervals + 1) / intervals)
