"""Weighted reservoir sampling: a few of many weighted points, chosen as they come, with a memory
for the few only.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

SMALLEST = -690.0  # logarithm of the smallest weight beside the largest: none becomes zero


@dataclass
class WeightedReservoir:
    """Chao's reservoir: after each point, n of those seen, point i included with a probability
    proportional to its weight,

        π_i = min(1, w_i / τ),   Σ π_i = n,

    where a weight above τ is overweight and surely included. With every point τ grows. The new
    point is taken with its probability π; then one of those held makes place, point j with the
    probability (1 - π_j(now) / π_j(before)) / π. Points that were not overweight have all lost by
    the same factor: only overweight ones need their own weights, and these are all held. So the
    buffer, and the sum of the weights of all others, are enough.

    Weights are given as logarithms, which may grow by any amount from point to point, as those of
    nested sampling do.

    Attributes:
        size: points held, n.
        items: the points held.

    Source: Chao (1982), Biometrika 69, 653, section 2.
    """

    size: int
    items: list[Any] = field(default_factory=list)
    _log_weights: Float[np.ndarray, " items"] = field(default_factory=lambda: np.empty(0))
    _is_over: Bool[np.ndarray, " items"] = field(default_factory=lambda: np.empty(0, bool))
    _log_unit: float = -np.inf  # the largest log weight seen; sums are in units of its exponential
    _others: float = 0.0  # the weights of all points that are not overweight, held or not

    def offer(self, generator: np.random.Generator, item: Any, log_weight: float) -> None:
        """Take in the next point; one of weight zero, a log weight of -inf, is not."""
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
        # τ only grows: none but those that were overweight, and the new point, can be so now.
        held = np.flatnonzero(self._is_over)
        log_weights = np.append(self._log_weights[held], log_weight)
        weights = np.exp(np.maximum(log_weights - self._log_unit, SMALLEST))
        is_over, threshold = _overweight(weights, self._others, self.size)
        self._others += float(weights[~is_over].sum())
        self._is_over[held] = is_over[:-1]
        probabilities = np.ones(len(weights))
        probabilities[~is_over] = weights[~is_over] / threshold
        if generator.random() < probabilities[-1]:
            place = self._leaving(generator, held, (1 - probabilities[:-1]) / probabilities[-1])
            self.items[place], self._log_weights[place], self._is_over[place] = item, log_weight, is_over[-1]

    def _leaving(self, generator: np.random.Generator, held: np.ndarray, probabilities: np.ndarray) -> int:
        """The place that becomes free: one of those that were overweight, by their probabilities,
        or any of the others.
        """
        was_not_over = np.setdiff1d(np.arange(self.size), held)
        cumulative = np.cumsum(probabilities)
        draw = generator.random()
        if not len(was_not_over):
            draw *= cumulative[-1]  # which is one, but for rounding
        if len(held) and draw < cumulative[-1]:
            return int(held[np.searchsorted(cumulative, draw, "right")])
        return int(generator.choice(was_not_over))


def _overweight(weights: np.ndarray, others: float, size: int) -> tuple[np.ndarray, float]:
    """Which weights are above τ, the largest first for as long as they have more than their share
    of what is left; and τ.
    """
    order = np.argsort(-weights, kind="stable")
    ordered = weights[order]
    left = others + np.cumsum(ordered[::-1])[::-1]  # without those before
    places = size - np.arange(len(weights))
    is_larger = (places > 1) & (places * ordered >= left)
    count = len(weights) if is_larger.all() else int(np.argmin(is_larger))
    is_over = np.zeros(len(weights), bool)
    is_over[order[:count]] = True
    rest = others if count == len(weights) else left[count]
    return is_over, rest / (size - count)
