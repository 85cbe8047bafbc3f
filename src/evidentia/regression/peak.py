"""The peak of a function of few coordinates that is expensive and has no derivatives.

Newton's method with central differences, whose steps are half of a deviation of the peak, so that
it sees the function at the scale of the draws that follow, and rounding does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import EstimationError
from evidentia.system.interruption import check

NUM_STEPS = 25
FIRST, WIDEST = 0.1, 0.5  # steps of differences at the start, and at most
FLATTEST = 0.25  # curvature of a direction at least, and so a deviation of 2 at most
LONGEST = 1.5  # step in a coordinate
CLOSE = 0.02  # nats that a step would still gain; draws about the peak need no more
HALVINGS = 6

Point = Float[ndarray, " coordinates"]
Height = Callable[[Point], float]


class Peak(NamedTuple):
    """A maximum, with the curvature there in all directions, at least `FLATTEST`."""

    centre: Point
    precision: Float[ndarray, "coordinates coordinates"]


def climb(height: Height, starts: Sequence[Point]) -> Peak:
    """The peak that the highest of some starts leads to.

    Raises:
        EstimationError: the function is not finite at any start, or its peak is not reached.
    """
    heights = [height(one) for one in starts]
    best = int(np.nanargmax(heights)) if np.isfinite(heights).any() else 0
    here, top = np.asarray(starts[best], float), heights[best]
    if not np.isfinite(top):
        raise EstimationError("the likelihood is not finite at any start over the deviations.")
    steps = np.full(len(here), FIRST)
    for _ in range(NUM_STEPS):
        check()
        slope, precision = _expansion(height, here, top, steps)
        steps = np.minimum(WIDEST, 0.5 / np.sqrt(np.diag(precision)))
        ahead = np.linalg.solve(precision, slope)
        gain = 0.5 * slope @ ahead
        ahead = ahead * min(1.0, LONGEST / max(np.abs(ahead).max(), 1e-12))
        for _ in range(HALVINGS):
            there = height(here + ahead)
            if there > top:
                break
            ahead = ahead / 2
        else:
            if gain < CLOSE:
                return Peak(here, precision)
            steps = steps / 4  # differences were too coarse for this place
            continue
        here, top = here + ahead, there
        if gain < CLOSE:
            return Peak(here, precision)
    raise EstimationError("the search for the mode over the deviations did not end.")


def _expansion(height: Height, here: Point, top: float, steps: Point) -> tuple[Point, ndarray]:
    """The slope, and the negative curvature with flat and upward directions curved down."""
    size, moves = len(here), np.diag(steps)
    above = np.array([height(here + one) for one in moves])
    below = np.array([height(here - one) for one in moves])
    if not (np.isfinite(above).all() and np.isfinite(below).all()):
        raise EstimationError("the likelihood is not finite near the mode over the deviations.")
    curvature = np.diag((2 * top - above - below) / steps**2)
    for i in range(size):
        for j in range(i):
            both = height(here + moves[i] + moves[j])
            curvature[i, j] = curvature[j, i] = (above[i] + above[j] - both - top) / (steps[i] * steps[j])
    values, vectors = np.linalg.eigh(curvature)
    return (above - below) / (2 * steps), (vectors * np.maximum(values, FLATTEST)) @ vectors.T
