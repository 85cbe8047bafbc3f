"""The evidence of normal linear regression under g priors, up to the constant that all models
share.

y = α + Xβ + ε, ε ~ N(0, σ²), with p(α, σ²) ∝ 1/σ² and β | g, σ² ~ N(0, g σ² (XᵀX)⁻¹), X centred
(Zellner 1986). Given g, against the model without X (Liang et al. 2008, Eq. 6):

    Bayes factor = (1+g)^((n-1-p)/2) (1 + g (1-R²))^(-(n-1)/2).

The Zellner–Siow prior of Jeffreys has g ~ InverseGamma(1/2, n r²/2), so that the effects are
Cauchy (JZS; Rouder and Morey 2012, Eq. 10); then one integral over log g is left, which the
trapezoidal rule gives to all digits. The unit-information prior is g = n (Kass and Wasserman
1995).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import gammaln, logsumexp

from evidentia.errors import DataError
from evidentia.regression.moments import Moments

LOG_G = np.linspace(
    -30.0, 80.0, 11_001
)  # steps of 0.01; the posterior of log g has a width of at least about 1/√p
LEAST = 1e-15  # of 1 - R²
SAME = 1e-9  # the share of a column's variation that may be left once the others explain it


class Sums(NamedTuple):
    """What the evidence takes from the data; everything else of the rows is irrelevant.

    Attributes:
        num_rows: n.
        correlations: of the columns and, last, of the response.
        means, deviations: of the columns and, last, of the response: those about zero if the model
            has no intercept.
        has_intercept: whether means were subtracted.
    """

    num_rows: int
    correlations: Float[ndarray, "columns columns"]
    means: Float[ndarray, " columns"]
    deviations: Float[ndarray, " columns"]
    has_intercept: bool

    @property
    def degrees_of_freedom(self) -> int:
        """Rows less the parameters that all models share."""
        return self.num_rows - int(self.has_intercept)


class Fit(NamedTuple):
    """Least squares of the response on some columns, in units of their deviations."""

    unexplained: float  # 1 - R²
    effects: Float[ndarray, " columns"]
    rank: int


def sums_of(moments: Moments, has_intercept: bool) -> Sums:
    """The sums, of the moments of the columns and, last, the response.

    Raises:
        DataError: the response is constant.
    """
    used = moments if has_intercept else moments.about_zero
    if used.deviations[-1] <= 1e-12 * abs(used.means[-1]):
        raise DataError(
            f"the response is constant: {used.means[-1]:g} in all rows used ({used.num_rows:,}). There is nothing to explain."
        )
    return Sums(used.num_rows, used.correlations, used.means, used.deviations, has_intercept)


def least_squares(sums: Sums, chosen: ndarray) -> Fit:
    """Fit the response by the chosen columns; of equally good effects, the shortest vector."""
    directions, values = kept_directions(sums, chosen)
    projected = directions.T @ sums.correlations[chosen, -1]
    effects, rank = directions @ (projected / values), len(values)
    unexplained = 1 - float(projected @ (projected / values))
    return Fit(0.0 if rank >= sums.degrees_of_freedom else max(unexplained, LEAST), effects, rank)


def kept_directions(
    sums: Sums, chosen: ndarray
) -> tuple[Float[ndarray, "columns rank"], Float[ndarray, " rank"]]:
    """Eigenvectors and eigenvalues of the correlations of columns, without those about 0."""
    values, vectors = np.linalg.eigh(sums.correlations[np.ix_(chosen, chosen)])
    kept = values > SAME * max(len(chosen), 1)
    return vectors[:, kept], values[kept]


def log_bayes_factor(sums: Sums, fit: Fit, scale: float | None) -> float:
    """Log Bayes factor in nats against the model without columns.

    `scale` is r of the JZS prior; None is the unit-information prior.
    """
    if fit.rank == 0:
        return 0.0
    if scale is None:
        return float(_log_factor(sums, fit, np.array(float(sums.num_rows))))
    return float(np.asarray(logsumexp(log_terms(sums, fit, scale))))


def log_evidence_of_null(sums: Sums) -> float:
    """log ∫∫ p(y | α, σ²) dα dσ²/σ²: the evidence of the model without columns, in nats."""
    freedom = sums.degrees_of_freedom
    squares = sums.num_rows * sums.deviations[-1] ** 2
    constant = gammaln(freedom / 2) - freedom / 2 * np.log(np.pi * squares)
    return float(constant - (0.5 * np.log(sums.num_rows) if sums.has_intercept else 0.0))


def mean_shrinkage(sums: Sums, fit: Fit, scale: float | None) -> float:
    """The posterior mean of g/(1+g), by which least squares are multiplied."""
    if scale is None or fit.rank == 0:
        return sums.num_rows / (1 + sums.num_rows)
    terms = log_terms(sums, fit, scale)
    g = np.exp(LOG_G)
    return float(np.exp(terms - logsumexp(terms)) @ (g / (1 + g)))


class Draws(NamedTuple):
    """Independent posterior draws, in units of the columns' and the response's deviations."""

    effects: Float[ndarray, "draws p"]
    intercept: Float[ndarray, " draws"]  # at the means
    scale: Float[ndarray, " draws"]
    g: Float[ndarray, " draws"]


def sample_posterior(
    sums: Sums, fit: Fit, chosen: ndarray, scale: float | None, num_draws: int, seed: int
) -> Draws:
    """Draw g from its posterior on the grid, then σ², α and β from their conjugate laws."""
    generator = np.random.default_rng(seed)
    freedom = sums.degrees_of_freedom
    if scale is None or fit.rank == 0:
        g = np.full(num_draws, float(sums.num_rows))
    else:
        terms = log_terms(sums, fit, scale)
        g = np.exp(generator.choice(LOG_G, num_draws, p=np.exp(terms - logsumexp(terms))))
    shrinkage = g / (1 + g)
    # σ² | g is inverse gamma with n/2 [1 - g/(1+g) R²] in units of the response's variance
    squares = sums.num_rows * (1 - shrinkage * (1 - fit.unexplained))
    variance = squares / 2 / generator.gamma(freedom / 2, size=num_draws)
    directions, values = kept_directions(sums, chosen)
    normal = generator.standard_normal((num_draws, len(values)))
    spread = normal / np.sqrt(values * sums.num_rows) @ directions.T
    effects = shrinkage[:, None] * fit.effects + np.sqrt(shrinkage * variance)[:, None] * spread
    intercept = np.sqrt(variance / sums.num_rows) * generator.standard_normal(num_draws)
    return Draws(effects, intercept * sums.has_intercept, np.sqrt(variance), g)


def _log_factor(sums: Sums, fit: Fit, g: ndarray) -> ndarray:
    freedom = sums.degrees_of_freedom
    return (freedom - fit.rank) / 2 * np.log1p(g) - freedom / 2 * np.log1p(g * fit.unexplained)


def log_terms(sums: Sums, fit: Fit, scale: float) -> ndarray:
    """Logarithms of the terms of the trapezoidal rule over log g.

    The prior is InverseGamma(g; 1/2, b) dg = √(b/π) e^(-b/g) g^(-1/2) d log g.
    """
    rate = sums.num_rows * scale**2 / 2
    log_prior = 0.5 * np.log(rate / np.pi) - 0.5 * LOG_G - rate * np.exp(-LOG_G)
    return _log_factor(sums, fit, np.exp(LOG_G)) + log_prior + np.log(LOG_G[1] - LOG_G[0])
