"""A parameter whose prior and posterior are known by draws: kernel densities and quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.bf.posterior import Quantiles, check_share

NUM_BINS = 4096  # that stand for the draws in a curve


class Kernel(NamedTuple):
    """The kernel estimate of a density.

    Attributes:
        values: of the draws.
        shares: of the draws; they sum to one.
        width: of the normal kernel; 0 if the draws do not vary.
    """

    values: Float[ndarray, " draws"]
    shares: Float[ndarray, " draws"]
    width: float

    def terms(self, place: float, factor: float = 1.0) -> Float[ndarray, " draws"]:
        """What each draw adds to the density at a place, with a multiple of the width."""
        return self.shares * _normal((self.values - place) / (factor * self.width)) / (factor * self.width)

    def density(self, places: Float[ndarray, " places"]) -> Float[ndarray, " places"]:
        """At many places, from a histogram of the draws."""
        shares, edges = np.histogram(self.values, NUM_BINS, weights=self.shares)
        middle = (edges[1:] + edges[:-1]) / 2
        return _normal((middle - places[:, None]) / self.width) @ shares / self.width

    def quantile(self, share: float) -> float:
        """The value below which the draws have this share."""
        order = np.argsort(self.values)
        below = np.cumsum(self.shares[order])
        return float(self.values[order][min(np.searchsorted(below, share), len(order) - 1)])


def kernel_of(values: Float[ndarray, " draws"], shares: Float[ndarray, " draws"]) -> Kernel:
    """With the width of Silverman (1986, Eq. 3.31)."""
    draws = Kernel(values, np.maximum(shares, 1e-300), 0.0)
    mean = draws.shares @ values
    quartiles = draws.quantile(0.75) - draws.quantile(0.25)
    spread = min(math.sqrt(draws.shares @ (values - mean) ** 2), quartiles / 1.349)
    ess = 1 / np.sum(draws.shares**2)
    return draws._replace(width=0.9 * spread * ess**-0.2)


@dataclass(frozen=True)
class DrawnPosterior(Quantiles):
    """A parameter given the data, with the attributes of an `EffectPosterior`.

    Attributes:
        name: of the parameter.
        null: its value under H₀.
        prior, posterior: of the draws.
    """

    name: str
    null: float
    prior: Kernel
    posterior: Kernel

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the posterior's draws and the null value, widened by a kernel's reach."""
        reach, values = 4 * self.posterior.width, self.posterior.values
        return float(min(values.min(), self.null)) - reach, float(max(values.max(), self.null)) + reach

    @property
    def tells_ratio(self) -> bool:
        """Whether the ratio of both densities at the null value is the Bayes factor."""
        return True

    def quantile(self, share: float) -> float:
        """The value below which the posterior has this share, between 0 and 1.

        Raises:
            ConfigurationError: another share.
        """
        check_share(share)
        return self.posterior.quantile(share)

    def prior_density(self, values: ndarray) -> ndarray:
        """Of the prior's draws."""
        return self.prior.density(np.atleast_1d(np.asarray(values, float)))

    def density(self, values: ndarray) -> ndarray:
        """Of the posterior's draws."""
        return self.posterior.density(np.atleast_1d(np.asarray(values, float)))


def _normal(distance: ndarray) -> ndarray:
    return np.exp(-0.5 * distance**2) / math.sqrt(2 * math.pi)
