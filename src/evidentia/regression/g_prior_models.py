"""Many sub-models of one regression under a g prior: least squares and Bayes factors, from shared
sums.

The Bayes factor of a model depends on 1 - R², the rank p and the number of rows alone. For a given
rank, with ν degrees of freedom and the scale r,

    f(s) = log Bayes factor + ν/2 log(1 - R²),    s = log(1 + R² / ((1 - R²) r²)),

is smooth: a Chebyshev series of some 60 terms has all its digits. So the integral over g is
computed 60 times for thousands of models, and linear interpolation in a fine table of f serves a
search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from numpy.polynomial import chebyshev

from evidentia.regression import g_prior
from evidentia.regression.g_prior import LEAST, LOG_G, SAME, Fit, Sums

FEW = 64  # models of one rank, up to which each has its own integral
DEGREES = 64, 128, 256, 512
CONVERGED = 1e-11  # nats: the last terms of a series
BLOCK = 2**20  # numbers in a stack of matrices
GRID = 8193  # points of f(s) in a search; the error is below 1e-4 nats


class Fits(NamedTuple):
    """Least squares of many models, in units of the deviations; absent ones have the effect 0."""

    unexplained: Float[ndarray, " models"]  # 1 - R²
    ranks: Int[ndarray, " models"]
    effects: Float[ndarray, "models columns"]


def fits_of(sums: Sums, columns: Bool[ndarray, "models columns"]) -> Fits:
    """`g_prior.least_squares` for many sets of columns."""
    unexplained, ranks = np.ones(len(columns)), np.zeros(len(columns), int)
    effects, sizes = np.zeros(columns.shape), columns.sum(axis=1)
    for size in np.unique(sizes[sizes > 0]):
        models = np.flatnonzero(sizes == size)
        for block in np.array_split(models, -(-len(models) * size**2 // BLOCK)):
            chosen = np.nonzero(columns[block])[1].reshape(len(block), size)
            values, vectors = np.linalg.eigh(sums.correlations[chosen[:, :, None], chosen[:, None, :]])
            kept = values > SAME * size
            projected = np.where(kept, np.einsum("mij,mi->mj", vectors, sums.correlations[chosen, -1]), 0)
            scaled = projected / np.where(kept, values, 1)
            effects[block[:, None], chosen] = np.einsum("mij,mj->mi", vectors, scaled)
            ranks[block] = kept.sum(axis=1)
            unexplained[block] = 1 - np.einsum("mj,mj->m", projected, scaled)
    is_saturated = ranks >= sums.degrees_of_freedom
    return Fits(np.where(is_saturated, 0.0, np.maximum(unexplained, LEAST)), ranks, effects)


def log_bayes_factors(
    sums: Sums, fits: Fits, scale: float | None
) -> tuple[Float[ndarray, " models"], Float[ndarray, " models"]]:
    """Log Bayes factors in nats against the model without columns, and the shrinkages.

    These are `g_prior.log_bayes_factor` and `g_prior.mean_shrinkage` of every model.
    """
    both = np.zeros((len(fits.ranks), 2))
    inside = (fits.ranks > 0) & (fits.ranks < sums.degrees_of_freedom)
    series = None
    for rank in np.unique(fits.ranks):
        models = np.flatnonzero(fits.ranks == rank)
        if scale is None or len(models) <= FEW or not inside[models[0]]:
            both[models] = _directly(sums, int(rank), scale, fits.unexplained[models])
        else:
            series = series or FactorSeries(sums, scale, float(fits.unexplained[inside].min()))
            both[models] = series(int(rank), fits.unexplained[models])
    return both[:, 0], both[:, 1]


class FactorSeries:
    """Log Bayes factors and shrinkages under the JZS prior by Chebyshev series in s.

    Args:
        sums: of the data.
        scale: r of the JZS prior.
        least: the smallest 1 - R² of all models.
    """

    def __init__(self, sums: Sums, scale: float, least: float):
        self._sums, self._scale = sums, scale
        self.largest = max(float(coordinate(np.array(least), scale)), 1e-3)
        rate = sums.num_rows * scale**2 / 2  # the prior of log g, as in `g_prior`
        log_prior = 0.5 * np.log(rate / np.pi) - 0.5 * LOG_G - rate * np.exp(-LOG_G)
        self._log_prior = log_prior + np.log(LOG_G[1] - LOG_G[0])
        self._terms: dict[
            int, ndarray
        ] = {}  # by degree: logarithms of the integral's terms, but for the rank
        self._half = sums.degrees_of_freedom / 2
        self._rounding = 4e-16 * self._half * abs(float(np.log(least)))

    def __call__(self, rank: int, unexplained: Float[ndarray, " models"]) -> Float[ndarray, "models 2"]:
        """Of models with a rank between 0 and the degrees of freedom, without these."""
        for degree in DEGREES:
            points = chebyshev.chebpts1(degree + 1)
            series = chebyshev.chebvander(points, degree).T @ self._integrals(rank, points)
            series *= 2 / (degree + 1)
            series[0] /= 2
            if np.abs(series[-3:]).max() < CONVERGED + self._rounding:
                s = coordinate(unexplained, self._scale)
                both = chebyshev.chebval(2 * s / self.largest - 1, series).T
                both[:, 0] -= self._half * np.log(unexplained)
                return both
        return _directly(self._sums, rank, self._scale, unexplained)

    def _integrals(self, rank: int, points: ndarray) -> Float[ndarray, "points 2"]:
        """f(s), and the posterior mean of g/(1+g), at points between -1 and 1."""
        log_1g, g = np.log1p(np.exp(LOG_G)), np.exp(LOG_G)
        if len(points) not in self._terms:
            share = 1 / (1 + self._scale**2 * np.expm1((points + 1) / 2 * self.largest))[:, None]
            self._terms[len(points)] = self._log_prior + self._half * (
                log_1g - np.log1p(g * share) + np.log(share)
            )
        terms = self._terms[len(points)] - rank / 2 * log_1g
        top = terms.max(axis=1, keepdims=True)
        masses = np.exp(terms - top)
        total = masses.sum(axis=1)
        return np.column_stack([top[:, 0] + np.log(total), masses @ (g / (1 + g)) / total])


class FactorTable:
    """Log Bayes factors for a search, by linear interpolation between computed ones.

    Args:
        sums: of the data.
        scale: r of the JZS prior; None for the unit-information prior.
        least: 1 - R² of the largest model.
    """

    def __init__(self, sums: Sums, scale: float | None, least: float):
        self._sums, self._scale = sums, scale
        num_ranks = min(sums.degrees_of_freedom, len(sums.means) - 1) + 1
        self._table = np.zeros((num_ranks, 0 if scale is None else GRID))
        self._series = None if scale is None else FactorSeries(sums, scale, max(least, LEAST))
        self._known = {0}

    def __call__(
        self, unexplained: Float[ndarray, " models"], ranks: Int[ndarray, " models"]
    ) -> Float[ndarray, " models"]:
        """Log Bayes factors in nats; 0 for models of rank 0, and for those that explain all."""
        freedom = self._sums.degrees_of_freedom
        inside = (ranks > 0) & (ranks < freedom)
        share = np.where(inside, np.minimum(np.maximum(unexplained, LEAST), 1), 1.0)
        if self._series is None or self._scale is None:
            g = float(self._sums.num_rows)
            found = (freedom - ranks) / 2 * np.log1p(g) - freedom / 2 * np.log1p(g * share)
            return np.where(inside, found, 0.0)
        rows = np.where(inside, ranks, 0)
        for rank in set(rows.tolist()) - self._known:
            self._learn(rank, self._series, self._scale)
        step = self._series.largest / (GRID - 1)
        place = np.minimum(coordinate(share, self._scale) / step, GRID - 1.001)
        low = place.astype(int)
        left, right = self._table[rows, low], self._table[rows, low + 1]
        return left + (place - low) * (right - left) - freedom / 2 * np.log(share)

    def _learn(self, rank: int, series: FactorSeries, scale: float) -> None:
        share = 1 / (1 + scale**2 * np.expm1(np.linspace(0, series.largest, GRID)))
        half = self._sums.degrees_of_freedom / 2
        self._table[rank] = series(rank, share)[:, 0] + half * np.log(share)
        self._known.add(rank)


def coordinate(unexplained: ndarray, scale: float) -> ndarray:
    """s of 1 - R²."""
    return np.log1p((1 / unexplained - 1) / scale**2)


def _directly(sums: Sums, rank: int, scale: float | None, unexplained: ndarray) -> ndarray:
    """Log Bayes factor and shrinkage, by an integral over g for each model."""
    fits = [Fit(float(one), np.zeros(0), rank) for one in unexplained]
    return np.array(
        [(g_prior.log_bayes_factor(sums, f, scale), g_prior.mean_shrinkage(sums, f, scale)) for f in fits]
    )
