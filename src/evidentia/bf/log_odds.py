"""The log odds ratio of a 2 by 2 table under dependence, by its characteristic function.

Cells are gamma variables of shape αᵢⱼ = a + yᵢⱼ up to factors of rows and columns, whatever the
design fixes. The log odds ratio ψ = log(G₁₁ G₂₂ / (G₁₂ G₂₁)) is free of such factors, so

    φ(s) = E e^{isψ} = Π Γ(αᵢⱼ ± i s) / Γ(αᵢⱼ),    + on the diagonal, - off it.

The integrals that give density and distribution function from φ (Gil-Pelaez) are sums in even
steps: ψ then repeats itself outside of a range, here one that leaves out a share of 10⁻¹⁵.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import brentq
from scipy.special import loggamma, polygamma, psi

from evidentia.bf.posterior import Quantiles, check_share

LOWEST = -40.0  # log |φ| up to which it is summed
LEAST_SHAPE = 1e-3  # below, tails reach over 10⁵ and the sum has as many terms
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])


class Law(NamedTuple):
    """The law of ψ, from its characteristic function at even steps.

    Attributes:
        mean: of ψ.
        reach: outside of mean ± reach lies a share of about 10⁻¹⁵.
        points: s, at half-integer steps.
        values: φ(s) e^{-is mean}.
    """

    mean: float
    reach: float
    points: Float[ndarray, " points"]
    values: Float[ndarray, " points"]

    def density(self, places: ndarray) -> ndarray:
        """Of log odds ratios."""
        step = 2 * self.points[0]
        waves = np.exp(-1j * np.multiply.outer(places - self.mean, self.points))
        inside = np.abs(places - self.mean) < self.reach
        return np.where(inside, np.maximum(np.real(waves @ self.values) * step / np.pi, 0.0), 0.0)

    def below(self, place: float) -> float:
        """The share below a log odds ratio."""
        step = 2 * self.points[0]
        waves = np.exp(-1j * (place - self.mean) * self.points) * self.values
        return float(0.5 - (np.imag(waves) / self.points).sum() * step / np.pi)


def law_of_shapes(shapes: Float[ndarray, "4"]) -> Law:
    """The law of ψ of cells with gamma shapes, row by row."""
    mean = float(SIGNS @ psi(shapes))
    deviation = float(np.sqrt(polygamma(1, shapes).sum()))
    reach = 10 * deviation + 40 / float(shapes.min())  # its tails are exponential at that rate

    def log_value(points: ndarray) -> ndarray:
        tilted = loggamma(shapes + 1j * SIGNS * points[:, None]) - loggamma(shapes)
        return tilted.sum(1) - 1j * points * mean

    end = 1 / deviation
    while np.real(log_value(np.array([end])))[0] > LOWEST:
        end *= 1.5
    step = np.pi / reach
    points = step * (np.arange(int(end / step) + 2) + 0.5)
    return Law(mean, reach, points, np.exp(log_value(points)))


class LogOdds(Quantiles):
    """The log odds ratio of a 2 by 2 table under H₁, positive where the diagonal prevails.

    It has the attributes of an `EffectPosterior`: `median`, `interval`, `quantile`, `density`.

    Example:
        >>> found = ev.bf.contingency([[50, 48], [21, 41]]).posterior
        >>> round(found.median, 4), [round(end, 4) for end in found.interval]
        (0.6956, [0.0514, 1.3582])
    """

    name = "log odds ratio"
    null: float = 0.0
    bounds: tuple[float, float] = (-np.inf, np.inf)
    tells_ratio = False  # H₀ conditions on another coordinate (Gunel and Dickey 1974)

    def __init__(self, counts: ndarray, concentration: float) -> None:
        self._prior = law_of_shapes(np.full(4, float(concentration)))
        self._posterior = law_of_shapes(counts.ravel() + concentration)

    def quantile(self, share: float) -> float:
        """The log odds ratio below which the posterior has this share, between 0 and 1.

        Raises:
            ConfigurationError: another share.
        """
        check_share(share)
        law = self._posterior
        ends = law.mean - law.reach, law.mean + law.reach
        return brentq(lambda place: law.below(place) - share, ends[0], ends[1], xtol=1e-12)  # pyright: ignore[reportReturnType]

    def prior_density(self, values: ndarray) -> ndarray:
        """Under H₁, of log odds ratios."""
        return self._prior.density(np.atleast_1d(np.asarray(values, float)))

    def density(self, values: ndarray) -> ndarray:
        """Of the posterior under H₁, of log odds ratios."""
        return self._posterior.density(np.atleast_1d(np.asarray(values, float)))
