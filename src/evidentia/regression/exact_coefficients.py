"""The coefficients of a normal regression under a g prior: posterior and Bayes factors, exact.

Given g, with s = g/(1+g), b the effects of least squares, C the correlations of the columns and ν
degrees of freedom, all in units of the deviations,

    σ² | g ~ n (1 - s R²) / χ²(ν),    β | σ², g ~ N(s b, s σ² C⁻¹ / n),    α | σ² ~ N(0, σ² / n),

so that each coefficient is Student's t with ν degrees of freedom, mixed over the posterior of g.
Without column j, 1 - R² grows by b_j² / (C⁻¹)_jj, which gives the evidence of the formula without
it, and so the exact Bayes factor of its coefficient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import brentq
from scipy.special import chdtrc, gammaln, logsumexp, stdtr

from evidentia.display.summary_table import ENDS, Row
from evidentia.regression import g_prior
from evidentia.regression.frame import Frame
from evidentia.regression.g_prior_models import Fits, fits_of, log_bayes_factors

NODES = 200  # of the integral over g
NEGLIGIBLE = 1e-13  # a node's share, relative to the largest
BISECTIONS = 60  # of quantiles
SPAN = 40.0  # of the search for quantiles of σ, in its logarithm
REACH = 60.0  # of the search for quantiles, in standard deviations
MOST_SINGULAR = 200  # columns of which each is left out in turn, where their sums have no inverse


@dataclass(frozen=True, eq=False)
class ExactCoefficients:
    """The coefficients of a g prior's regression, and its scale."""

    frame: Frame
    sums: g_prior.Sums
    fit: g_prior.Fit
    scale: float | None

    def rows(self) -> list[Row]:
        """As in `Coefficients`."""
        frame, sums, freedom = self.frame, self.sums, self.sums.degrees_of_freedom
        every = np.arange(len(frame.names))
        directions, values = g_prior.kept_directions(sums, every)
        inverse = (directions / values) @ directions.T
        g, shares = self._nodes()
        shrinkage = g / (1 + g)
        variance = sums.num_rows * (1 - shrinkage * (1 - self.fit.unexplained)) / freedom
        spread = np.outer(np.diag(inverse) / sums.num_rows, shrinkage * variance)
        means, factors = np.outer(self.fit.effects, shrinkage), self._log_factors(np.diag(inverse))
        units, location = sums.deviations[-1] / frame.deviations, np.zeros(len(every))
        names = frame.names
        if frame.formula.has_intercept:
            towards = frame.means / frame.deviations  # what an effect takes from the intercept
            through = float(towards @ inverse @ towards) / sums.num_rows
            own = -(towards @ self.fit.effects) * shrinkage
            means = np.vstack([own, means])
            spread = np.vstack([variance / sums.num_rows + through * shrinkage * variance, spread])
            names, factors = ("Intercept", *names), np.append(math.nan, factors)
            units, location = np.append(sums.deviations[-1], units), np.append(sums.means[-1], location)
        mean = means @ shares
        inflation = freedom / (freedom - 2) if freedom > 2 else math.inf
        deviation = np.sqrt(inflation * (spread @ shares) + ((means - mean[:, None]) ** 2) @ shares)
        low, high = (quantiles(end, means, np.sqrt(spread), shares, freedom) for end in ENDS)
        columns = [location + units * one for one in (mean, low, high)]
        errors = np.where(np.isnan(factors), math.nan, 0.0)
        found = [
            Row(*row)
            for row in zip(
                names,
                columns[0].tolist(),
                (units * deviation).tolist(),
                columns[1].tolist(),
                columns[2].tolist(),
                factors.tolist(),
                errors.tolist(),
                strict=True,
            )
        ]
        return [*found, scale_row(sums.deviations[-1] * np.sqrt(variance), shares, freedom)]

    known_rows = rows

    def _nodes(self) -> tuple[Float[ndarray, " nodes"], Float[ndarray, " nodes"]]:
        """Values of g with their shares of the posterior."""
        if self.scale is None or self.fit.rank == 0:
            return np.array([float(self.sums.num_rows)]), np.ones(1)
        log_g, terms = g_prior.LOG_G, g_prior.log_terms(self.sums, self.fit, self.scale)
        used = np.flatnonzero(terms > terms.max() + math.log(NEGLIGIBLE))
        used = used[:: -(-len(used) // NODES)]  # the trapezoidal rule, with wider steps
        return np.exp(log_g[used]), np.exp(terms[used] - logsumexp(terms[used]))

    def _log_factors(self, inverse: Float[ndarray, " columns"]) -> Float[ndarray, " columns"]:
        """The log Bayes factors of the formula against that without each column."""
        sums, fit, count = self.sums, self.fit, len(inverse)
        if not count:
            return np.zeros(0)
        if fit.rank < count:
            if count > MOST_SINGULAR:
                return np.full(count, math.nan)
            others = fits_of(sums, ~np.eye(count, dtype=bool))
        else:
            unexplained = np.minimum(fit.unexplained + fit.effects**2 / inverse, 1.0)
            others = Fits(unexplained, np.full(count, count - 1), np.zeros((count, count)))
        whole = g_prior.log_bayes_factor(sums, fit, self.scale)
        return whole - log_bayes_factors(sums, others, self.scale)[0]


def scale_row(roots: Float[ndarray, " nodes"], shares: Float[ndarray, " nodes"], freedom: int) -> Row:
    """The posterior of σ, a mixture over g of s √(ν / χ²(ν)).

    Given g, the mean of σ² is s² ν / (ν - 2), that of σ s √(ν / 2) Γ((ν - 1) / 2) / Γ(ν / 2).

    Args:
        roots: s at each node of g.
        shares: of the posterior.
        freedom: ν.
    """
    ratio = math.exp(gammaln((freedom - 1) / 2) - gammaln(freedom / 2)) if freedom > 1 else math.inf
    mean = float(roots @ shares) * math.sqrt(freedom / 2) * ratio
    square = float(roots**2 @ shares) * freedom / (freedom - 2) if freedom > 2 else math.inf

    def below(log_value: float) -> float:
        return float(chdtrc(freedom, freedom * (roots / math.exp(log_value)) ** 2) @ shares)

    def quantile(probability: float) -> float:
        about = math.log(float(roots.max()))
        found: Any = brentq(lambda at: below(at) - probability, about - SPAN, about + SPAN)
        return math.exp(found)

    low, high = map(quantile, ENDS)
    deviation = math.sqrt(max(square - mean**2, 0.0)) if freedom > 2 else math.inf
    return Row("scale", mean, deviation, low, high)


def quantiles(
    probability: float,
    means: Float[ndarray, "names nodes"],
    scales: Float[ndarray, "names nodes"],
    shares: Float[ndarray, " nodes"],
    freedom: int,
) -> Float[ndarray, " names"]:
    """Quantiles of mixtures of Student's t, by bisection.

    Example:
        >>> means, shares = np.array([[1.0, 3.0]]), np.array([0.5, 0.5])
        >>> quantiles(0.5, means, np.ones((1, 2)), shares, 9).round(6)
        array([2.])
    """
    reach = REACH * scales.max(axis=1) * (1 if freedom > 2 else 1e3)
    low, high = means.min(axis=1) - reach, means.max(axis=1) + reach
    safe = np.where(scales > 0, scales, 1.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = stdtr(freedom, (middle[:, None] - means) / safe) @ shares < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
