"""Meta-analysis of effects with standard errors, averaged over what is not known about them.

Study i has the effect yᵢ ~ N(δ + tᵢ, sᵢ²) with tᵢ ~ N(0, τ²). Is there an effect (δ = 0 or a
prior)? Is there heterogeneity (τ = 0 or a prior)? Four models; each question is answered over both
answers of the other (Gronau, Heck, Berkhout, Haaf and Wagenmakers 2021).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy import stats

from evidentia.bf import curves
from evidentia.bf.asked import Question, answer
from evidentia.bf.effect import AROUND, Effect
from evidentia.bf.meta_result import MetaAnalysis
from evidentia.bf.posterior import EffectPosterior
from evidentia.bf.prior import Prior, law_of, of_law, scale_of
from evidentia.bf.result import BayesFactor
from evidentia.bf.samples import numbers_of
from evidentia.bf.t_tests import SCALES, cauchy
from evidentia.errors import ConfigurationError, DataError
from evidentia.weights import log_sum_exp, normalise

HETEROGENEITY = stats.invgamma(1, scale=0.15)
LEAST_SHARE = 1e-10  # of the prior of τ beyond the nodes
ORDERS = 6, 8  # of the rule, whose difference is the error
MOST_VALUES = 2**15  # of the mixture, held at once: what a cache has room for
NEGLIGIBLE = 35.0  # nats below the largest term of a sum


class Studies(NamedTuple):
    """Effects with their standard errors."""

    effects: Float[ndarray, " studies"]
    errors: Float[ndarray, " studies"]


class Heterogeneity(NamedTuple):
    """Deviations τ with log weights under their prior; a single 0 if there is none."""

    deviations: Float[ndarray, " nodes"]
    log_weights: Float[ndarray, " nodes"]


NONE = Heterogeneity(np.zeros(1), np.zeros(1))


def meta_analysis(
    effects: Any,
    standard_errors: Any,
    scale: str | float = "medium",
    alternative: str = "two-sided",
    prior: Any = None,
    heterogeneity: Any = None,
) -> MetaAnalysis:
    """Bayes factors of an effect and of heterogeneity, from effects with standard errors.

    Args:
        effects: of the studies, such as Cohen's d or log odds ratios.
        standard_errors: of the effects.
        scale: of the Cauchy prior of the common effect: "medium" (√2/2), "wide" (1), "ultrawide"
            (√2) or a number, in units of the effects.
        alternative: "two-sided", "greater" or "less".
        prior: of the common effect, in place of the Cauchy.
        heterogeneity: prior of the deviation of studies; InverseGamma(1, 0.15) if not given.

    Raises:
        ConfigurationError: an argument of another kind.
        DataError: unequal lengths, missing numbers, or errors that are not positive.

    Example:
        >>> found = ev.bf.meta_analysis([0.4, 0.2, 0.5], [0.15, 0.1, 0.2])
        >>> round(found.fixed.bf10, 2)
        127.41

    Source: Gronau, Heck, Berkhout, Haaf, Wagenmakers (2021), whose priors these are.
    """
    studies = _studies(effects, standard_errors)
    law = HETEROGENEITY if heterogeneity is None else law_of(heterogeneity)[0]
    if law.support()[0] < 0:
        raise ConfigurationError(
            f"heterogeneity must be a distribution of positive numbers, such as dist.HalfNormal(0.5); got {heterogeneity!r}."
        )
    own = None if prior is None else of_law(*law_of(prior))
    return _analysed(Asked(law, own, scale_of(scale, SCALES), alternative), studies)


class Asked(NamedTuple):
    """An analysis of any studies: the arguments of `meta_analysis`, checked."""

    heterogeneity: Any
    prior: Prior | None
    scale: float
    alternative: str


def _analysed(asked: Asked, studies: Studies) -> MetaAnalysis:
    edges = _panels(asked.heterogeneity, studies)
    rough, fine = (_nodes(asked.heterogeneity, edges, order) for order in ORDERS)
    fixed = _test(studies, NONE, "fixed", asked)
    random = _test(studies, fine, "random", asked)
    base, spread, other = (float(marginal_of(studies, nodes)(np.zeros(()))) for nodes in (NONE, fine, rough))
    log_evidence = {
        "neither": 0.0,
        "effect": fixed.log_bf10,
        "heterogeneity": spread - base,
        "both": spread - base + random.log_bf10,
    }

    def log_ratio(one: tuple[str, str], zero: tuple[str, str]) -> float:
        above, below = (
            log_sum_exp(np.array([log_evidence[name] for name in names])) for names in (one, zero)
        )
        return above - below

    return MetaAnalysis(
        log_evidence=log_evidence,
        log_bf_effect=log_ratio(("effect", "both"), ("neither", "heterogeneity")),
        log_bf_heterogeneity=log_ratio(("heterogeneity", "both"), ("neither", "effect")),
        fixed=fixed,
        random=random,
        claim=fixed.claim,
        num_studies=len(studies.effects),
        error=max(abs(spread - other), random.error, _change(random, marginal_of(studies, rough), other)),
        again=_repeats(asked, studies),
    )


def _change(random: BayesFactor, rough: Marginal, at_zero: float) -> float:
    """How far another rule over τ moves the log Bayes factor of an effect."""
    assert isinstance(random.posterior, EffectPosterior)
    grid = random.posterior.grid
    seen = grid.log_joint > grid.log_joint.max() - NEGLIGIBLE
    other = grid.log_prior[seen] + rough(grid.nodes[seen]) - at_zero
    return abs(log_sum_exp(other) - log_sum_exp(grid.log_joint[seen]))


def _repeats(asked: Asked, studies: Studies) -> curves.Repeats:
    def of_scale(scale: float) -> dict[str, float]:
        return _analysed(asked._replace(scale=scale), studies).log_bf_by_question

    def of_first(count: int) -> tuple[int, dict[str, float]]:
        first = Studies(studies.effects[:count], studies.errors[:count])
        return count, _analysed(asked, first).log_bf_by_question

    varies = of_scale if asked.prior is None else None
    return curves.Repeats(asked.scale, SCALES, varies, of_first, len(studies.effects))


class Marginal(NamedTuple):
    """The likelihood of the effect, with the deviation of studies integrated out.

    A mixture of normal densities, one for each node of τ, without those that are nothing.

    Attributes:
        log_weights: of the components, with the maxima of their densities.
        precision, mean: of the components; means are about the centre.
        centre: of them.
    """

    log_weights: Float[ndarray, " nodes"]
    precision: Float[ndarray, " nodes"]
    mean: Float[ndarray, " nodes"]
    centre: float

    def __call__(self, effect: ndarray) -> ndarray:
        """log p(y | δ), of effects of any shape."""
        places = np.ravel(np.asarray(effect, float)) - self.centre
        parts = np.array_split(places, -(-places.size * len(self.mean) // MOST_VALUES))
        return np.concatenate([self._summed(part) for part in parts]).reshape(np.shape(effect))

    def _summed(self, places: Float[ndarray, " effects"]) -> Float[ndarray, " effects"]:
        """At neighbouring places, by the components that are not negligible there."""
        nearest = np.clip(self.mean, places.min(), places.max()) - self.mean
        farthest = np.maximum(np.abs(places.min() - self.mean), np.abs(places.max() - self.mean))
        highest, lowest = (
            self.log_weights - 0.5 * self.precision * distance**2 for distance in (nearest, farthest)
        )
        kept = highest > lowest.max() - NEGLIGIBLE
        terms = places[:, None] - self.mean[kept]
        np.square(terms, out=terms)
        terms *= -0.5 * self.precision[kept]
        terms += self.log_weights[kept]
        top = terms.max(1)
        terms -= top[:, None]
        return top + np.log(np.exp(terms, out=terms).sum(1))


def marginal_of(studies: Studies, spread: Heterogeneity) -> Marginal:
    """Of studies, under a prior of the deviation."""
    variances = studies.errors**2 + spread.deviations[:, None] ** 2  # (nodes, studies)
    precision = (1 / variances).sum(1)
    mean = (studies.effects / variances).sum(1) / precision
    squares = ((studies.effects - mean[:, None]) ** 2 / variances).sum(1)
    log_weights = -0.5 * (np.log(2 * np.pi * variances).sum(1) + squares) + spread.log_weights
    at_zero = log_weights - 0.5 * precision * mean**2  # where a contradicted side is decided
    kept = np.any([one > one.max() - NEGLIGIBLE for one in (log_weights, at_zero)], axis=0)
    centre = float(mean[log_weights.argmax()])
    return Marginal(log_weights[kept], precision[kept], mean[kept] - centre, centre)


def _effect(studies: Studies, marginal: Marginal, prior: Prior) -> Effect:
    at_zero = marginal(np.zeros(()))
    precision = 1 / studies.errors**2
    return Effect(
        name="effect δ",
        log_prior=prior.log_density,
        log_likelihood=lambda effect: marginal(effect) - at_zero,
        prior_edges=prior.edges,
        peak=float(precision @ studies.effects / precision.sum()),
        width=float(precision.sum() ** -0.5),
    )


def _test(studies: Studies, spread: Heterogeneity, name: str, asked: Asked) -> BayesFactor:
    def effect_of(count: int) -> partial[Effect]:
        first = Studies(studies.effects[:count], studies.errors[:count])
        return partial(_effect, first, marginal_of(first, spread))

    count = len(studies.effects)
    question = Question(
        test=f"meta-analysis, {name} effects",
        effect_of=effect_of(count),
        prior=asked.prior,
        scale=asked.scale,
        scales=SCALES,
        law=cauchy,
        num_observations=count,
        statistics={"studies": count},
        first=effect_of,
        least=1,
    )
    return answer(question, asked.alternative, None)


def _panels(law: Any, studies: Studies) -> Float[ndarray, " edges"]:
    """log τ between which neither prior nor likelihood changes much."""
    tails = np.geomspace(LEAST_SHARE, 0.1, 19)
    with np.errstate(divide="ignore"):
        prior = np.log(np.concatenate([law.ppf(tails), law.ppf(np.linspace(0.15, 0.85, 8)), law.isf(tails)]))
    prior = prior[np.isfinite(prior)]
    return np.unique(np.concatenate([prior, _edges_of(studies, prior.min(), prior.max())]))


def _nodes(law: Any, edges: Float[ndarray, " edges"], order: int) -> Heterogeneity:
    """Nodes of Gauss-Legendre's rule for log τ on panels."""
    points, weights = np.polynomial.legendre.leggauss(order)
    half = np.diff(edges)[:, None] / 2
    log_deviation = ((edges[:-1, None] + edges[1:, None]) / 2 + half * points).ravel()
    log_weights = law.logpdf(np.exp(log_deviation)) + log_deviation + np.log((half * weights).ravel())
    return Heterogeneity(np.exp(log_deviation), normalise(log_weights))


def _edges_of(studies: Studies, low: float, high: float) -> ndarray:
    """log τ about the best one, in steps of the likelihood's width, 1 / √(2 k)."""
    grid = np.linspace(low, high, 400)
    variances = studies.errors**2 + np.exp(2 * grid)[:, None]
    precision = (1 / variances).sum(1)
    mean = (studies.effects / variances).sum(1) / precision
    squares = (studies.effects - mean[:, None]) ** 2 / variances + np.log(variances)
    width = 1 / np.sqrt(2 * len(studies.effects))
    found = grid[np.argmin(squares.sum(1))] + width * AROUND
    return found[(found > low) & (found < high)]


def _studies(effects: Any, standard_errors: Any) -> Studies:
    found = Studies(numbers_of("effects", effects), numbers_of("standard_errors", standard_errors))
    if len(found.effects) != len(found.errors) or not len(found.effects):
        raise DataError(
            f"effects and standard_errors must have one number for each study; got {len(found.effects)} and {len(found.errors)}."
        )
    if np.isnan(found.effects).any() or not (found.errors > 0).all():
        raise DataError(
            "effects must be numbers, and standard_errors positive; leave studies without them out."
        )
    return found
