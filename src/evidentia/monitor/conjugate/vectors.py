"""Vectors of normal numbers, and numbers that depend linearly on others.

Source: Gelman et al. (2013), "Bayesian data analysis", third edition, sections 3.6 and 14.8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import gammaln

from evidentia.errors import check_count, check_positive
from evidentia.monitor.conjugate.protocol import ROUNDING, vectors

SINGULAR = 1e-9  # ratio of eigenvalues below which a difference of two matrices is mostly rounding


class _Wishart(NamedTuple):
    mean: Float[ndarray, "runs dimensions"]
    rows: Float[ndarray, " runs"]
    degrees: Float[ndarray, " runs"]
    scatter: Float[ndarray, "runs dimensions dimensions"]


class _Linear(NamedTuple):
    weights: Float[ndarray, "runs features"]
    covariance: Float[ndarray, "runs features features"]
    shape: Float[ndarray, " runs"]
    scale: Float[ndarray, " runs"]


@dataclass(frozen=True)
class NormalInverseWishart:
    """Vectors of normal numbers with unknown mean and covariance.

    Σ ~ InverseWishart(Ψ, ν) with ν = dimensions + 1 + extra_degrees and Ψ = scale² (extra_degrees)
    I, so that the prior mean of Σ is scale² I, and μ ~ N(0, Σ / rows_of_prior). The predictive
    density is a multivariate t. Parameters: mean m, κ, ν and Ψ.

    Attributes:
        dimensions: length d of a row.
        rows_of_prior: number of rows that the prior of μ counts for (κ).
        extra_degrees: of freedom, above zero; more say that Σ is closer to its prior mean.
        scale: prior standard deviation of each entry.

    Raises:
        ConfigurationError: a field is not positive.

    Example:
        >>> model = ev.monitor.NormalInverseWishart(dimensions=2)
        >>> model.log_predictive(model.prior[None], np.zeros(2)).round(4)
        array([-3.1372])
    """

    dimensions: int
    rows_of_prior: float = 0.1
    extra_degrees: float = 1.0
    scale: float = 1.0

    def __post_init__(self):
        check_count("dimensions", self.dimensions, 1)
        for field in ("rows_of_prior", "extra_degrees", "scale"):
            check_positive(field, getattr(self, field))

    @property
    def prior(self) -> Float[ndarray, " parameters"]:
        """m, κ, ν and Ψ, in one vector of d + 2 + d² numbers."""
        d = self.dimensions
        scatter = self.scale**2 * self.extra_degrees * np.eye(d)
        return np.concatenate(
            [np.zeros(d), [self.rows_of_prior, d + 1 + self.extra_degrees], scatter.ravel()]
        )

    def rows(self, batch: Any) -> Float[ndarray, "rows dimensions"]:
        """The batch as float64; DataError unless it is (rows, dimensions) finite numbers."""
        return vectors(batch, self.dimensions, f"an array (rows, {self.dimensions}) of numbers")

    def log_predictive(
        self, parameters: Float[ndarray, "runs parameters"], row: Float[ndarray, " dimensions"]
    ) -> Float[ndarray, " runs"]:
        """log of the t with ν-d+1 degrees, location m, scale Ψ(κ+1)/(κ(ν-d+1)), in nats."""
        found, d = self._named(parameters), self.dimensions
        degrees = found.degrees - d + 1
        scale = found.scatter * ((found.rows + 1) / found.rows)[:, None, None]
        apart = row - found.mean
        squared = np.einsum("ri,ri->r", apart, np.linalg.solve(scale, apart[..., None])[..., 0])
        return (
            gammaln((degrees + d) / 2)
            - gammaln(degrees / 2)
            - 0.5 * d * math.log(math.pi)
            - 0.5 * np.linalg.slogdet(scale)[1]
            - (degrees + d) / 2 * np.log1p(squared)
        )

    def updated(
        self, parameters: Float[ndarray, "runs parameters"], row: Float[ndarray, " dimensions"]
    ) -> Float[ndarray, "runs parameters"]:
        """m + (y-m)/(κ+1), κ+1, ν+1, Ψ + κ(y-m)(y-m)ᵀ/(κ+1)."""
        found = self._named(parameters)
        apart = row - found.mean
        outer = apart[:, :, None] * apart[:, None, :]
        scatter = found.scatter + (found.rows / (found.rows + 1))[:, None, None] * outer
        mean = found.mean + apart / (found.rows + 1)[:, None]
        others = np.stack([found.rows + 1, found.degrees + 1], axis=1)
        return np.concatenate([mean, others, scatter.reshape(len(mean), -1)], axis=1)

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs parameters"], fewer: Float[ndarray, "runs parameters"]
    ) -> Float[ndarray, " runs"]:
        """As of `NormalInverseGamma`: the ratio is highest at Σ = S/k, S the scatter of k rows."""
        one, other, d = self._named(parameters), self._named(fewer), self.dimensions
        k = one.degrees - other.degrees
        with np.errstate(divide="ignore", invalid="ignore"):
            share = one.rows * other.rows / (one.rows - other.rows)
            apart = one.mean - other.mean
            between = share[:, None, None] * apart[:, :, None] * apart[:, None, :]
            traces = np.trace(one.scatter + between, axis1=1, axis2=2)
            finite = (k > 0) & np.isfinite(traces)
            within = np.where(finite[:, None, None], one.scatter - other.scatter - between, np.eye(d))
            values = np.linalg.eigvalsh(within) - ROUNDING * traces[:, None]
            finite &= values[:, 0] > SINGULAR * values[:, -1]
            highest = 0.5 * k * (d * np.log(k) - np.log(values).sum(1) - d)
        return np.where(finite, _log_normaliser(other, d) - _log_normaliser(one, d) + highest, np.inf)

    def _named(self, parameters: ndarray) -> _Wishart:
        d = self.dimensions
        scatter = parameters[:, d + 2 :].reshape(len(parameters), d, d)
        return _Wishart(parameters[:, :d], parameters[:, d], parameters[:, d + 1], scatter)


@dataclass(frozen=True)
class ConjugateRegression:
    """A number that depends linearly on others, with unknown weights and variance.

    Rows hold the features x and then the target y = xᵀβ + N(0, σ²), with 1/σ² ~ Gamma(shape,
    rate=scale) and β ~ N(0, σ² spread² I); an intercept is a feature of ones. With the row before
    as a feature, this is an autoregression. Parameters: mean and covariance/σ² of β, a and b.

    Attributes:
        num_features: length of x.
        spread: prior standard deviation of each weight, in units of σ.
        shape: of the prior of 1/σ² (a).
        scale: of the same (b), in squared units of y.

    Raises:
        ConfigurationError: a field is not positive.

    Example:
        >>> model = ev.monitor.ConjugateRegression(num_features=2)
        >>> y = np.array([0.1, 0.3, 0.2])  # an autoregression: ones, the row before, the row
        >>> model.rows(np.stack([np.ones(2), y[:-1], y[1:]], axis=1))
        array([[1. , 0.1, 0.3],
               [1. , 0.3, 0.2]])
    """

    num_features: int
    spread: float = 3.0
    shape: float = 1.0
    scale: float = 1.0

    def __post_init__(self):
        check_count("num_features", self.num_features, 1)
        for field in ("spread", "shape", "scale"):
            check_positive(field, getattr(self, field))

    @property
    def prior(self) -> Float[ndarray, " parameters"]:
        """Mean, covariance / σ², a and b, in one vector."""
        p = self.num_features
        return np.concatenate([np.zeros(p), (self.spread**2 * np.eye(p)).ravel(), [self.shape, self.scale]])

    def rows(self, batch: Any) -> Float[ndarray, "rows columns"]:
        """The batch as float64; DataError unless it is (rows, num_features + 1) finite numbers."""
        what = f"an array (rows, {self.num_features + 1}): {self.num_features} features, then the target"
        return vectors(batch, self.num_features + 1, what)

    def log_predictive(
        self, parameters: Float[ndarray, "runs parameters"], row: Float[ndarray, " columns"]
    ) -> Float[ndarray, " runs"]:
        """log St(y; 2a, xᵀm, b(1 + xᵀVx)/a), in nats."""
        found = self._named(parameters)
        _, width, residual = _gain(found, row)
        spread = 2 * found.scale * width
        return (
            gammaln(found.shape + 0.5)
            - gammaln(found.shape)
            - 0.5 * np.log(math.pi * spread)
            - (found.shape + 0.5) * np.log1p(residual**2 / spread)
        )

    def updated(
        self, parameters: Float[ndarray, "runs parameters"], row: Float[ndarray, " columns"]
    ) -> Float[ndarray, "runs parameters"]:
        """Recursive least squares: the gain is Vx / (1 + xᵀVx)."""
        found = self._named(parameters)
        towards, width, residual = _gain(found, row)
        weights = found.weights + towards * (residual / width)[:, None]
        covariance = found.covariance - towards[:, :, None] * (towards / width[:, None])[:, None, :]
        others = np.stack([found.shape + 0.5, found.scale + 0.5 * residual**2 / width], axis=1)
        return np.concatenate([weights, covariance.reshape(len(weights), -1), others], axis=1)

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs parameters"], fewer: Float[ndarray, "runs parameters"]
    ) -> Float[ndarray, " runs"]:
        """As of `NormalInverseGamma`, with the residuals of least squares on the k more rows."""
        one, other = self._named(parameters), self._named(fewer)
        precision, lower = np.linalg.inv(one.covariance), np.linalg.inv(other.covariance)
        values, vectors_ = np.linalg.eigh(precision - lower)
        finite = values[:, 0] > SINGULAR * np.linalg.norm(precision, axis=(1, 2))
        apart = one.weights - other.weights
        pull = np.einsum("rij,rj->ri", lower, apart)
        turned = np.einsum("rij,ri->rj", vectors_, pull)
        with np.errstate(divide="ignore", invalid="ignore"):
            between = 0.5 * (np.einsum("ri,ri->r", pull, apart) + (turned**2 / values).sum(1))
            within = one.scale - other.scale - between - ROUNDING * (one.scale + between)
            half = one.shape - other.shape
            highest = half * (np.log(half / within) - 1)
        constants = (
            0.5 * (np.linalg.slogdet(precision)[1] - np.linalg.slogdet(lower)[1])
            + one.shape * np.log(one.scale)
            - gammaln(one.shape)
            - other.shape * np.log(other.scale)
            + gammaln(other.shape)
        )
        return np.where(finite & (within > 0), constants + highest, np.inf)

    def _named(self, parameters: ndarray) -> _Linear:
        p = self.num_features
        covariance = parameters[:, p:-2].reshape(len(parameters), p, p)
        return _Linear(parameters[:, :p], covariance, parameters[:, -2], parameters[:, -1])


def _gain(found: _Linear, row: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """V x, 1 + xᵀVx and y - xᵀm of each run."""
    x, y = row[:-1], row[-1]
    towards = found.covariance @ x
    return towards, 1 + towards @ x, y - found.weights @ x


def _log_normaliser(found: _Wishart, d: int) -> Float[ndarray, " runs"]:
    """Of the density of μ and Σ⁻¹, without factors that all runs share."""
    return (
        0.5 * found.degrees * (d * math.log(2) - np.linalg.slogdet(found.scatter)[1])
        + gammaln((found.degrees[:, None] - np.arange(d)) / 2).sum(1)
        - 0.5 * d * np.log(found.rows)
    )
