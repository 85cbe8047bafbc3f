"""Counts, and rows of 0 and 1.

Source: Gelman et al. (2013), "Bayesian data analysis", third edition, sections 2.4 and 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import betaln, gammaln, xlogy

from evidentia.errors import DataError, check_positive
from evidentia.monitor.conjugate.protocol import numbers


@dataclass(frozen=True)
class GammaPoisson:
    """Counts from a Poisson of unknown rate, with a Gamma(shape, rate) prior of its own.

    The predictive distribution is negative binomial. Parameters: shape a and rate b.

    Attributes:
        shape: of the prior.
        rate: of the prior; the prior mean is shape / rate.

    Raises:
        ConfigurationError: a field is not positive.

    Example:
        >>> model = ev.monitor.GammaPoisson(shape=1.0, rate=1.0)
        >>> model.log_predictive(model.prior[None], 2).round(4)  # log 1/8
        array([-2.0794])
    """

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self):
        check_positive("shape", self.shape)
        check_positive("rate", self.rate)

    @property
    def prior(self) -> Float[ndarray, " 2"]:
        """a and b."""
        return np.array([self.shape, self.rate], np.float64)

    def rows(self, batch: Any) -> Float[ndarray, " rows"]:
        """The batch as float64; DataError unless it is (rows,) whole numbers, not negative."""
        return whole(batch, np.inf, "an array (rows,) of counts, whole numbers of at least 0")

    def log_predictive(self, parameters: Float[ndarray, "runs 2"], row: float) -> Float[ndarray, " runs"]:
        """log of the negative binomial with a and b, in nats."""
        a, b = parameters.T
        return gammaln(a + row) - gammaln(a) - gammaln(row + 1) - a * np.log1p(1 / b) - row * np.log1p(b)

    def updated(self, parameters: Float[ndarray, "runs 2"], row: float) -> Float[ndarray, "runs 2"]:
        """a + y and b + 1."""
        return parameters + np.array([row, 1.0])

    def moments(
        self, parameters: Float[ndarray, "runs 2"]
    ) -> tuple[Float[ndarray, " runs"], Float[ndarray, " runs"]]:
        """a/b and a(b+1)/b²."""
        a, b = parameters.T
        return a / b, a * (b + 1) / b**2

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs 2"], fewer: Float[ndarray, "runs 2"]
    ) -> Float[ndarray, " runs"]:
        """The ratio is proportional to λ^s exp(-kλ), for a sum s of k rows: highest at s/k."""
        (a, b), (c, d) = parameters.T, fewer.T
        total, rows = a - c, np.maximum(b - d, 1.0)
        constants = a * np.log(b) - gammaln(a) - c * np.log(d) + gammaln(c)
        return np.where(b > d, constants + xlogy(total, total / rows) - total, np.inf)


@dataclass(frozen=True)
class BetaBernoulli:
    """Rows of 0 and 1 with an unknown probability of 1, which has a Beta(ones, zeros) prior.

    Parameters: ones and zeros, the prior's included.

    Attributes:
        ones: first parameter of the Beta.
        zeros: second parameter of the Beta.

    Raises:
        ConfigurationError: a field is not positive.

    Example:
        >>> model = ev.monitor.BetaBernoulli(ones=1.0, zeros=1.0)
        >>> model.log_predictive(model.prior[None], 1).round(4)
        array([-0.6931])
    """

    ones: float = 1.0
    zeros: float = 1.0

    def __post_init__(self):
        check_positive("ones", self.ones)
        check_positive("zeros", self.zeros)

    @property
    def prior(self) -> Float[ndarray, " 2"]:
        """Ones and zeros."""
        return np.array([self.ones, self.zeros], np.float64)

    def rows(self, batch: Any) -> Float[ndarray, " rows"]:
        """The batch as float64; DataError unless it is (rows,) of 0 and 1."""
        return whole(batch, 1, "an array (rows,) of 0 and 1")

    def log_predictive(self, parameters: Float[ndarray, "runs 2"], row: float) -> Float[ndarray, " runs"]:
        """log of the share of ones, or of zeros, in nats."""
        return np.log(parameters[:, 0 if row else 1]) - np.log(parameters.sum(1))

    def updated(self, parameters: Float[ndarray, "runs 2"], row: float) -> Float[ndarray, "runs 2"]:
        """One more of the ones or zeros."""
        return parameters + np.array([row, 1 - row])

    def moments(
        self, parameters: Float[ndarray, "runs 2"]
    ) -> tuple[Float[ndarray, " runs"], Float[ndarray, " runs"]]:
        """The share p of ones, and p(1-p)."""
        share = parameters[:, 0] / parameters.sum(1)
        return share, share * (1 - share)

    def log_ratio_bound(
        self, parameters: Float[ndarray, "runs 2"], fewer: Float[ndarray, "runs 2"]
    ) -> Float[ndarray, " runs"]:
        """The ratio is proportional to p^i (1-p)^j: highest at i / (i + j)."""
        (a, b), (c, d) = parameters.T, fewer.T
        ones, zeros = a - c, b - d
        rows = np.maximum(ones + zeros, 1.0)
        highest = xlogy(ones, ones / rows) + xlogy(zeros, zeros / rows)
        return betaln(c, d) - betaln(a, b) + highest


def whole(batch: Any, most: float, what: str) -> Float[ndarray, " rows"]:
    """A batch of whole numbers from 0 to `most`.

    Raises DataError that names the first row that is none.
    """
    rows = numbers(batch, 1, what)
    bad = np.flatnonzero((rows < 0) | (rows > most) | (rows != np.floor(rows)))
    if len(bad):
        raise DataError(f"batch must be {what}; row {bad[0]:,} of the batch is {rows[bad[0]]}.")
    return rows
