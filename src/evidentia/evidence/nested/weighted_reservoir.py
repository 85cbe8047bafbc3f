"""Weighted reservoir sampling: a sample of fixed size from a stream of weighted points."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float


@dataclass
class WeightedReservoir:
    """Chao's reservoir: n of the points seen so far, sampled in proportion to their weights.

    Point i is included with probability

        π_i = min(1, w_i / τ),   Σ π_i = n,

    so a point with a weight above τ is overweight and always included. With every point τ grows.
    The new point enters with its probability π and replaces one of those held, point j with
    probability (1 - π_j(now) / π_j(before)) / π. The probabilities of all points that were not
    overweight fall by the same factor, so only overweight points need their own weights, and these
    are all held. The buffer and the total weight of all others are therefore enough.

    Weights are given as logarithms, which may grow by any amount from point to point, as in nested
    sampling.

    Attributes:
        size: number of points held, n.
        items: the points held.

    Source: Chao (1982), Biometrika 69, 653, section 2.
    """

    size: int
    items: list[Any] = field(default_factory=list)
    _log_weights: Float[np.ndarray, " items"] = field(default_factory=lambda: np.empty(0))
    _is_over: Bool[np.ndarray, " items"] = field(default_factory=lambda: np.empty(0, bool))
    _log_unit: float = -np.inf  # the largest log weight seen; sums are in units of its exponential
    _others: float = 0.0  # the total weight of all points that are not overweight, held or not

    def offer(self, generator: np.random.Generator, item: Any, log_weight: float) -> None:
        """Process the next point; ignore it if its weight is zero (a log weight of -inf)."""
        if log_weight == -np.inf:
            return
        if log_weight > self._log_unit:
            self._others *= np.exp(self._log_unit - log_weight)
            self._log_unit = log_weight
        if len(self.items) < self.size:
            self.items.append(item)
            self._log_weights = np.append(self._log_weights, log_weight)
            self._is_over = np.append(self._is_over, True)
            return
        # τ only grows: only the new point and those that were overweight can be overweight now.
        held = np.flatnonzero(self._is_over)
        log_weights = np.append(self._log_weights[held], log_weight)
        weights = np.exp(np.maximum(log_weights - self._log_unit, -690.0))  # none underflows to zero
        is_over, threshold = _overweight(weights, self._others, self.size)
        self._others += float(weights[~is_over].sum())
        self._is_over[held] = is_over[:-1]
        probabilities = np.ones(len(weights))
        probabilities[~is_over] = weights[~is_over] / threshold
        if generator.random() < probabilities[-1]:
            place = self._leaving(generator, held, (1 - probabilities[:-1]) / probabilities[-1])
            self.items[place], self._log_weights[place], self._is_over[place] = item, log_weight, is_over[-1]

    def _leaving(self, generator: np.random.Generator, held: np.ndarray, probabilities: np.ndarray) -> int:
        """Draw the place to free: an overweight point by its probability, or any other."""
        was_not_over = np.setdiff1d(np.arange(self.size), held)
        cumulative = np.cumsum(probabilities)
        draw = generator.random()
        if not len(was_not_over):
            draw *= cumulative[-1]  # one, up to rounding
        if len(held) and draw < cumulative[-1]:
            return int(held[np.searchsorted(cumulative, draw, "right")])
        return int(generator.choice(was_not_over))


def _overweight(weights: np.ndarray, others: float, size: int) -> tuple[np.ndarray, float]:
    """Which weights are above τ, and τ itself.

    From the largest down, a weight is above τ as long as it exceeds its share of the remaining
    total.
    """
    order = np.argsort(-weights, kind="stable")
    ordered = weights[order]
    left = others + np.cumsum(ordered[::-1])[::-1]  # without the preceding weights
    places = size - np.arange(len(weights))
    is_larger = (places > 1) & (places * ordered >= left)
    count = len(weights) if is_larger.all() else int(np.argmin(is_larger))
    is_over = np.zeros(len(weights), bool)
    is_over[order[:count]] = True
    rest = others if count == len(weights) else left[count]
    return is_over, rest / (size - count)
