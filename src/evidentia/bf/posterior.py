"""The posterior of an effect under H₁: density, quantiles and the Savage-Dickey ratio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from scipy.optimize import brentq

from evidentia.bf.effect import HIGH_ORDER, RULES, Effect, Grid, Hypotheses, Interval
from evidentia.errors import ConfigurationError, as_number
from evidentia.weights import log_sum_exp


def check_share(share: object) -> None:
    """Raise ConfigurationError unless a quantile can have this share below it."""
    if not 0 < as_number(share) < 1:
        raise ConfigurationError(f"share must lie between 0 and 1; got {share!r}.")


class Quantiles(ABC):
    """The median and the interval of a posterior whose quantiles are known."""

    @abstractmethod
    def quantile(self, share: float) -> float:
        """The value below which the posterior has this share, between 0 and 1."""

    @property
    def median(self) -> float:
        """The posterior median."""
        return self.quantile(0.5)

    @property
    def interval(self) -> tuple[float, float]:
        """The central interval of 95%."""
        return self.quantile(0.025), self.quantile(0.975)


@dataclass(frozen=True)
class EffectPosterior(Quantiles):
    """The effect given H₁ and the data.

    Attributes:
        effect: its prior and likelihood.
        hypotheses: H₁'s intervals.
        grid: of the integral.
    """

    effect: Effect
    hypotheses: Hypotheses
    grid: Grid

    @property
    def name(self) -> str:
        """What the effect is called."""
        return self.effect.name

    @property
    def null(self) -> float:
        """The value under H₀."""
        return self.effect.null

    @property
    def bounds(self) -> Interval:
        """The range of the effect."""
        return self.effect.bounds

    @property
    def tells_ratio(self) -> bool:
        """Whether the ratio of both densities at the null value is the two-sided Bayes factor."""
        return not self.hypotheses.zero

    def quantile(self, share: float) -> float:
        """The effect below which the posterior has this share, between 0 and 1.

        Raises:
            ConfigurationError: another share.
        """
        check_share(share)
        masses = self._masses()
        upper = np.cumsum(masses)
        panel = min(int(np.searchsorted(upper, share)), len(masses) - 1)
        before = upper[panel] - masses[panel]
        low, high = self._ends(panel)
        if not low < high:
            return float(self.effect.scale.effect(np.array(low)))

        def excess(end: float) -> float:
            return before + self._mass(low, end) - share

        if excess(high) <= 0:
            return float(self.effect.scale.effect(np.array(high)))
        return float(self.effect.scale.effect(np.array(brentq(excess, low, high, xtol=1e-12))))

    def prior_density(self, values: ndarray) -> ndarray:
        """Under H₁, of effects."""
        return self._density(values, self.grid.log_prior, has_likelihood=False)

    def density(self, values: ndarray) -> ndarray:
        """Of the posterior under H₁, of effects."""
        return self._density(values, self.grid.log_joint, has_likelihood=True)

    def _is_inside(self) -> ndarray:
        ends = [self.effect.coordinates(*interval) for interval in self.hypotheses.one]
        edges = self.grid.edges
        return np.any([(edges[:-1] >= low) & (edges[1:] <= high) for low, high in ends], axis=0)

    def _log_total(self, log_terms: ndarray) -> float:
        return log_sum_exp(log_terms[self._is_inside()])

    def _masses(self) -> ndarray:
        joint = self.grid.log_joint - self._log_total(self.grid.log_joint)
        return np.exp(np.where(self._is_inside()[:, None], joint, -np.inf)).sum(1)  # else no float, far off

    def _ends(self, panel: int) -> tuple[float, float]:
        """Of the panel, as its nodes have them: the outermost edges are infinite."""
        points = RULES[HIGH_ORDER][0]
        first, last = self.grid.nodes[panel, [0, -1]]
        half = (last - first) / (points[-1] - points[0])
        middle = (first + last) / 2
        return middle - half, middle + half

    def _mass(self, low: float, high: float) -> float:
        points, weights = RULES[HIGH_ORDER]
        nodes = (low + high) / 2 + (high - low) / 2 * points
        log_joint = self.effect.log_prior(nodes) + self.effect.log_likelihood(nodes)
        return float(np.exp(log_joint - self._log_total(self.grid.log_joint)) @ weights * (high - low) / 2)

    def _density(self, values: ndarray, log_terms: ndarray, *, has_likelihood: bool) -> ndarray:
        values = np.atleast_1d(np.asarray(values, float))
        # At the ends of a range the coordinate is infinite; the last node is as near as it gets.
        nodes = np.clip(self.effect.coordinates(*values), self.grid.nodes.min(), self.grid.nodes.max())
        log_density = self.effect.log_prior(nodes) + self.effect.scale.log_slope(nodes)
        if has_likelihood:
            log_density = log_density + self.effect.log_likelihood(nodes)
        inside = np.any([(values >= low) & (values <= high) for low, high in self.hypotheses.one], axis=0)
        return np.exp(np.where(inside, log_density - self._log_total(log_terms), -np.inf))
