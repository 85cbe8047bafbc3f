"""An effect of one number: the Bayes factor of hypotheses about it, by one integral.

With the likelihood relative to that of no effect, L(δ), and the prior p(δ),

    BF₁₀ = ∫_{H₁} p(δ) L(δ) dδ / ∫_{H₁} p(δ) dδ,

so that a one-sided hypothesis has its own, renormalised prior. The integral is a sum of positive
terms: the support for a direction that the data contradict keeps its digits. Panels of
Gauss-Legendre's rule follow the quantiles of the prior and the width of the likelihood. Those in
which two orders of the rule differ are halved; the difference that is left is the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from numpy import ndarray
from scipy.special import expit, logit

from evidentia.errors import ConfigurationError
from evidentia.weights import log_sum_exp

LOW_ORDER, HIGH_ORDER = 12, 16
MOST_MISSED = 1e-8  # of the prior's mass, by its quadrature
ENOUGH, HALVINGS = 1e-10, 12  # share of a panel that is halved; for light priors and likelihoods far apart
RULES = {order: np.polynomial.legendre.leggauss(order) for order in (LOW_ORDER, HIGH_ORDER)}
# The likelihood's panels in units of its width: fine where it is high, then growing.
STEPS = np.concatenate([np.arange(0.0, 10.0), np.geomspace(10, 1e4, 16)])
AROUND = np.concatenate([-STEPS[:0:-1], STEPS])
# About the ends of intervals, from which a likelihood far away may fall steeply.
NEAR = np.geomspace(1e-5, 10.0, 13)

Function = Callable[[ndarray], ndarray]
Interval = tuple[float, float]
Intervals = tuple[Interval, ...]


class Scale(NamedTuple):
    """How an effect is written as a coordinate on the whole line, on which it is integrated."""

    coordinate: Function  # of the effect
    effect: Function  # of the coordinate
    log_slope: Function  # log of d coordinate / d effect, at the coordinate


def _same(values: ndarray) -> ndarray:
    return np.asarray(values, float)


def log_cosh(z: ndarray) -> ndarray:
    """log cosh z, also where cosh z is no float."""
    return np.abs(z) + np.log1p(np.exp(-2 * np.abs(z))) - np.log(2)


IDENTITY = Scale(_same, _same, np.zeros_like)
FISHER = Scale(np.arctanh, np.tanh, lambda z: 2 * log_cosh(z))  # dz/dρ = 1/(1 - ρ²) = cosh² z
LOGIT = Scale(logit, expit, lambda x: 2 * log_cosh(x / 2) + np.log(4))  # 1 / (p (1 - p))


@dataclass(frozen=True, eq=False)
class Effect:
    """A number that is zero, or `null`, under H₀.

    Attributes:
        name: what it is called, such as "effect size δ".
        log_prior: log density of the coordinate, normalised.
        log_likelihood: log L of the coordinate, relative to that of the null value.
        prior_edges: coordinates between which the prior changes little.
        peak, width: of the likelihood, roughly, in the coordinate.
        null: the value under H₀, as an effect.
        scale: between effects and coordinates.
        bounds: the effect's range.
    """

    name: str
    log_prior: Function
    log_likelihood: Function
    prior_edges: ndarray
    peak: float
    width: float
    null: float = 0.0
    scale: Scale = IDENTITY
    bounds: Interval = (-np.inf, np.inf)

    def coordinates(self, *effects: float) -> ndarray:
        """Those of effects; infinite at the ends of a bounded range."""
        with np.errstate(divide="ignore"):
            return self.scale.coordinate(np.array(effects, float))


class Grid(NamedTuple):
    """Nodes of a rule over panels, and the logarithms of prior and joint density times weight."""

    edges: ndarray  # (panels + 1,)
    nodes: ndarray  # (panels, order)
    log_prior: ndarray
    log_joint: ndarray

    def inside(self, low: float, high: float) -> Bool[ndarray, " panels"]:
        """Which panels lie between two edges."""
        return (self.edges[:-1] >= low) & (self.edges[1:] <= high)

    def log_sums(self, low: float, high: float) -> tuple[float, float]:
        """log ∫ p and log ∫ p L between two edges."""
        inside = self.inside(low, high)
        if not inside.any():
            return -np.inf, -np.inf
        return log_sum_exp(self.log_prior[inside]), log_sum_exp(self.log_joint[inside])


class Hypotheses(NamedTuple):
    """Disjoint intervals of the effect under H₁ and under H₀; no interval stands for the point."""

    one: Intervals
    zero: Intervals = ()

    @property
    def cuts(self) -> list[float]:
        """The ends of all intervals."""
        return [end for interval in (*self.one, *self.zero) for end in interval]


class Integral(NamedTuple):
    """A log Bayes factor, the error of its quadrature, and the grid of the posterior."""

    log_bf10: float
    error: float
    grid: Grid


def integral_of(effect: Effect, hypotheses: Hypotheses) -> Integral:
    """The log Bayes factor of H₁ against H₀.

    Raises:
        ConfigurationError: the prior has no mass under one of them, or cannot be integrated.
    """
    edges = _edges_of(effect, hypotheses)
    for _ in range(HALVINGS):
        rough, fine = (_grid_of(effect, edges, order) for order in (LOW_ORDER, HIGH_ORDER))
        differ = _differing(effect, hypotheses, rough, fine)
        if not differ.any():
            break
        edges = np.insert(edges, np.flatnonzero(differ) + 1, ((edges[1:] + edges[:-1]) / 2)[differ])
    missed = abs(np.expm1(log_sum_exp(fine.log_prior)))
    if missed > MOST_MISSED:
        raise ConfigurationError(
            f"prior is too uneven to be integrated: {missed:.1g} of its mass is missed. Give one with lighter tails, and without "
            "spikes."
        )
    values = [_log_bayes_factor(effect, hypotheses, grid) for grid in (rough, fine)]
    return Integral(values[1], abs(values[1] - values[0]), fine)


def _differing(effect: Effect, hypotheses: Hypotheses, rough: Grid, fine: Grid) -> Bool[ndarray, " panels"]:
    """Panels in which the rules differ, by a share of what a hypothesis has in all."""
    found = np.zeros(len(fine.nodes), bool)
    for interval in (*hypotheses.one, *hypotheses.zero):
        inside = fine.inside(*effect.coordinates(*interval))
        for one, other in ((fine.log_prior, rough.log_prior), (fine.log_joint, rough.log_joint)):
            one, other = one[inside], other[inside]
            top = max(one.max(initial=-np.inf), other.max(initial=-np.inf))  # one rule may miss a peak
            if top > -np.inf:
                sums = np.exp(one - top).sum(1), np.exp(other - top).sum(1)
                found[inside] |= np.abs(sums[0] - sums[1]) > ENOUGH * sums[0].sum()
    return found


def _log_bayes_factor(effect: Effect, hypotheses: Hypotheses, grid: Grid) -> float:
    one = _log_mean(effect, hypotheses.one, grid)
    return one - (_log_mean(effect, hypotheses.zero, grid) if hypotheses.zero else 0.0)


def _log_mean(effect: Effect, intervals: Intervals, grid: Grid) -> float:
    """log of the mean likelihood over the prior on the intervals."""
    ends = [effect.coordinates(*interval) for interval in intervals]
    priors, joints = zip(*(grid.log_sums(low, high) for low, high in ends), strict=True)
    check_room(max(priors), effect.name, intervals)
    return log_sum_exp(np.array(joints)) - log_sum_exp(np.array(priors))


def check_room(log_share: float, name: str, intervals: Intervals) -> None:
    """Raise ConfigurationError if the prior has nothing where a hypothesis lies."""
    if log_share == -np.inf:
        where = " or ".join(f"between {low:g} and {high:g}" for low, high in intervals)
        raise ConfigurationError(
            f"prior must allow what each hypothesis says; it has no {name} {where}. Give another prior or alternative."
        )


def _edges_of(effect: Effect, hypotheses: Hypotheses) -> ndarray:
    """Of panels that follow the prior, the likelihood and the ends of the hypotheses."""
    cuts = effect.coordinates(effect.null, *hypotheses.cuts)
    around = effect.peak + effect.width * AROUND
    near = cuts[:, None] + effect.width * np.concatenate([-NEAR, [0.0], NEAR])
    finite = np.concatenate([effect.prior_edges, around, near.ravel()])
    low, high = effect.coordinates(*effect.bounds)
    return np.unique(finite[np.isfinite(finite) & (finite >= low) & (finite <= high)])


def _grid_of(effect: Effect, edges: ndarray, order: int) -> Grid:
    points, weights = RULES[order]
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + edges[1:, None]) / 2 + half * points
    log_prior = effect.log_prior(nodes) + np.log(half * weights)
    # Beyond the outermost edges the prior has a share of 10⁻¹⁵ or less.
    outer = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    return Grid(outer, nodes, log_prior, log_prior + effect.log_likelihood(nodes))
