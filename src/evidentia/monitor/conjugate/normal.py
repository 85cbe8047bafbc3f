"""Normal rows: the mean unknown, or the mean and the variance.

Source: Murphy (2007), "Conjugate Bayesian analysis of the Gaussian distribution", sections 2 and
3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import gammaln

from evidentia.errors import check_positive
from evidentia.monitor.conjugate.protocol import ROUNDING, check_real, numbers

WHAT = "an array (rows,) of numbers"


@dataclass(frozen=True)
class NormalInverseGamma:
    """Normal rows with unknown mean and variance.

    1/σ² ~ Gamma(shape, rate=scale) and μ ~ N(mean, σ² / rows). The predictive density is a Student
    t with 2 `shape` degrees of freedom. Parameters: m, κ, a, b (Murphy, Eq. 85 to 89, 99).

    Attributes:
        mean: prior mean of μ.
        rows_of_prior: number of rows that the prior of μ counts for (κ).
        shape: of the prior of 1/σ² (a).
        scale: of the same (b), in squared units of the rows.

    Raises:
        ConfigurationError: `mean` is not finite, or another field is not positive.

    Example:
        >>> model = ev.monitor.NormalInverseGamma(mean=10.0, rows_of_prior=0.1, shape=2, scale=2)
        >>> model.log_predictive(model.prior[None], 11.2).round(4)
        array([-2.2603])
    """

    mean: float = 0.0
    rows_of_prior: float = 0.1
    shape: float = 1.0
    scale: float = 1.0

    def __post_init__(self):
        check_real("mean", self.mean)
        for field in ("rows_of_prior", "shape", "scale"):
            check_positive(field, getattr(self, field))

    @property
    def prior(self) -> Float[ndarray, " 4"]:
        """m, κ, a and b."""
        return np.array([self.mean, self.rows_of_prior, self.shape, self.scale], np.float64)

    def rows(self, batch: Any) -> Float[ndarray, " rows"]:
        """The batch as float64; DataError unless it is (rows,) finite numbers."""
        return numbers(batch, 1, WHAT)

    def log_predictive(self, parameters: Float[ndarray, "runs 4"], row: float) -> Float[ndarray, " runs"]:
        """log St(row; 2a, m, b(κ+1)/(aκ)), in nats."""
        m, k, a, b = parameters.T
        spread = 2 * b * (k + 1) / k
        return (
            gammaln(a + 0.5)
            - gammaln(a)
            - 0.5 * np.log(math.pi * spread)
            - (a + 0.5) * np.log1p((row - m) ** 2 / spread)
        )

    def updated(self, parameters: Float[ndarray, "runs 4"], row: float) -> Float[ndarray, "runs 4"]:
        """m + (y-m)/(κ+1), κ+1, a+½, b + κ(y-m)²/(2(κ+1))."""
        m, k, a, b = parameters.T
        return np.stack(
            [m + (row - m) / (k + 1), k + 1, a + 0.5, b + 0.5 * k / (k + 1) * (row - m) ** 2], axis=1
        )

    def moments(
        self, parameters: Float[ndarray, "runs 4"]
    ) -> tuple[Float[ndarray, " runs"], Float[ndarray, " runs"]]:
        """m, and b(κ+1)/((a-1)κ), which is infinite for a <= 1."""
        m, k, a, b = parameters.T
        with np.errstate(divide="ignore"):
            return m, np.where(a > 1, b * (k + 1) / (np.maximum(a - 1, 0.0) * k), np.inf)

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs 4"], fewer: Float[ndarray, "runs 4"]
    ) -> Float[ndarray, " runs"]:
        """The k more rows have the sum of squares 2c about their mean; infinite for c = 0.

        Over μ and λ = 1/σ² the ratio is proportional to λ^(k/2) exp(-λc) at best, so largest at
        λ = k/(2c).
        """
        (m, k, a, b), (n, j, c, d) = parameters.T, fewer.T
        with np.errstate(divide="ignore", invalid="ignore"):
            between = 0.5 * k * j / (k - j) * (m - n) ** 2
            within = b - d - between - ROUNDING * (b + between)
            highest = np.where(within > 0, (a - c) * (np.log((a - c) / within) - 1), np.inf)
        constants = 0.5 * np.log(k / j) + a * np.log(b) - gammaln(a) - c * np.log(d) + gammaln(c)
        return np.where(k > j, constants + highest, np.inf)


@dataclass(frozen=True)
class NormalMean:
    """Normal rows of known standard deviation, with an unknown mean μ ~ N(mean, spread²).

    Parameters: mean and variance of μ (Murphy, Eq. 20 and 24).

    Attributes:
        standard_deviation: of the rows about μ.
        mean: prior mean of μ.
        spread: prior standard deviation of μ.

    Raises:
        ConfigurationError: `mean` is not finite, or another field is not positive.

    Example:
        >>> model = ev.monitor.NormalMean(standard_deviation=1.0, spread=5.0)
        >>> model.log_predictive(model.prior[None], 0.0).round(4)
        array([-2.548])
    """

    standard_deviation: float = 1.0
    mean: float = 0.0
    spread: float = 1.0

    def __post_init__(self):
        check_real("mean", self.mean)
        check_positive("standard_deviation", self.standard_deviation)
        check_positive("spread", self.spread)

    @property
    def prior(self) -> Float[ndarray, " 2"]:
        """Mean and variance of μ."""
        return np.array([self.mean, self.spread**2], np.float64)

    def rows(self, batch: Any) -> Float[ndarray, " rows"]:
        """The batch as float64; DataError unless it is (rows,) finite numbers."""
        return numbers(batch, 1, WHAT)

    def log_predictive(self, parameters: Float[ndarray, "runs 2"], row: float) -> Float[ndarray, " runs"]:
        """log N(row; m, v + σ²), in nats."""
        m, v = parameters.T
        variance = v + self.standard_deviation**2
        return -0.5 * (np.log(2 * math.pi * variance) + (row - m) ** 2 / variance)

    def updated(self, parameters: Float[ndarray, "runs 2"], row: float) -> Float[ndarray, "runs 2"]:
        """Kalman's update of a constant: gain v / (v + σ²)."""
        m, v = parameters.T
        noise = self.standard_deviation**2
        gain = v / (v + noise)
        return np.stack([m + gain * (row - m), gain * noise], axis=1)

    def moments(
        self, parameters: Float[ndarray, "runs 2"]
    ) -> tuple[Float[ndarray, " runs"], Float[ndarray, " runs"]]:
        """The mean of μ, and its variance and that of the rows about it."""
        m, v = parameters.T
        return m, v + self.standard_deviation**2

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs 2"], fewer: Float[ndarray, "runs 2"]
    ) -> Float[ndarray, " runs"]:
        """Half of log w/v + (m-n)²/(w-v), for N(m, v) over N(n, w), v < w."""
        (m, v), (n, w) = parameters.T, fewer.T
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = 0.5 * (np.log(w / v) + (m - n) ** 2 / (w - v))
        return np.where(w > v, bound, np.inf)
