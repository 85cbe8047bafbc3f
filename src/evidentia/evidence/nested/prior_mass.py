"""The evidence as a sum over shrinking prior mass: Z = Σ L_i w_i.

Nested sampling removes points in order of likelihood. When the lowest of n live points is removed,
the prior mass inside the contour shrinks by a factor t with a known mean: E log t = -1/n. The
points' widths w_i are differences of the masses X_i = t₁ t₂ … t_i, so log Z and the information H
= Σ p_i log(L_i / Z), p_i = L_i w_i / Z, follow from the likelihoods alone. All sums are in float64
on the host.

Source: Skilling (2006), Bayesian Analysis 1, 833, sections 2 and 6.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float

Quadrature = Literal["rectangle", "trapezoid", "lower"]
Shrinkage = Literal["geometric", "arithmetic"]
Vector = Float[np.ndarray, " points"]


class WeightedPoints(NamedTuple):
    """Points with log-likelihoods (nats) and the log of the prior mass that each represents."""

    positions: Float[Array, "points parameters"]
    log_likelihoods: Vector
    log_widths: Vector

    @property
    def log_weights(self) -> Vector:
        """Log of likelihood times prior mass; with these weights the points are the posterior."""
        return self.log_likelihoods + self.log_widths


class Integral(NamedTuple):
    """Part of the sum, in nats: log Σ L_i w_i, and the mean of log L_i weighted by L_i w_i."""

    log_evidence: float = -np.inf
    mean_log_likelihood: float = 0.0

    def add(self, points: WeightedPoints) -> "Integral":
        """The sum including these points."""
        log_weights = points.log_weights
        log_evidence = float(np.logaddexp.reduce(log_weights, initial=self.log_evidence))
        if log_evidence == -np.inf:
            return self
        shares = np.exp(log_weights - log_evidence)
        counted = np.where(shares > 0, points.log_likelihoods, 0.0)
        before = np.exp(self.log_evidence - log_evidence) * self.mean_log_likelihood
        return Integral(log_evidence, float(before + shares @ counted))

    @property
    def information(self) -> float:
        """H in nats: the Kullback-Leibler divergence of the posterior from the prior."""
        return max(0.0, self.mean_log_likelihood - self.log_evidence)


def log_shrinkages(num_live: int, num_removed: int, shrinkage: Shrinkage) -> Vector:
    """log t for points removed in succession from `num_live`, before any is replaced.

    "geometric" uses the mean of log t, -1/n, which is right for log Z on average; "arithmetic"
    uses the mean of t, n/(n + 1), which is larger by 1/2n² and adds about H/2n to log Z: half its
    variance.
    """
    counts = num_live - np.arange(num_removed, dtype=float)
    return -1 / counts if shrinkage == "geometric" else np.log(counts / (counts + 1))


def variance_of_log_mass(num_live: int, num_removed: int) -> float:
    """Variance of log X per nat of shrinkage: 1/n for single removals, a bit more for several."""
    counts = num_live - np.arange(num_removed, dtype=float)
    return float(np.sum(1 / counts**2) / np.sum(1 / counts))


def log_widths(
    log_mass: float, steps: Float[np.ndarray, " points_and_next"], quadrature: Quadrature
) -> tuple[Vector, float]:
    """Log widths of points removed in succession, and the log mass left to the live points.

    `log_mass` is log X before the first of them, and `steps` are their log t, followed by that of
    the first point of the next batch. "rectangle" gives a point the mass from X_{i-1} to X_i,
    where its likelihood is the highest; "trapezoid" gives it the mass between the midpoints to its
    neighbors, (X_{i-1} - X_{i+1}) / 2, so that the errors of both sides cancel; the first point's
    mass reaches up to X = 1. Widths and remainder add up to one over a run. "lower" gives a point
    the mass from X_i to X_{i+1}, where its likelihood is the lowest, and the first shell to none:
    the sum is below that of any other rule. Summed by parts, it is Σ (L_i - L_{i-1}) X_i, the
    Lebesgue sum over simple functions, but for the mass beyond the last point.

    Source of "lower": Cameron (2020), MSc thesis, Eq. 3.22 and 3.26.
    """
    masses = np.exp(np.cumsum(steps))  # in units of the mass before; X_1, X_2, …, and one more
    edges = np.r_[1.0, masses[:-1]]
    if quadrature == "lower":
        edges = masses
    if quadrature == "trapezoid":
        edges = 0.5 * (edges + masses)
        if log_mass == 0.0:
            edges[0] = 1.0
    return log_mass + np.log(edges[:-1] - edges[1:]), log_mass + float(np.log(edges[-1]))
