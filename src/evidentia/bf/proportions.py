"""Proportions: one against a value, or whether those of several groups are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray
from scipy import stats
from scipy.special import betaln, gammaln, log_expit, logit

from evidentia.bf.asked import Question, answer
from evidentia.bf.effect import LOGIT, Effect
from evidentia.bf.hypotheses import interval_of
from evidentia.bf.prior import SHARES, Prior, law_of, of_law, scale_of
from evidentia.bf.result import Again, BayesFactor
from evidentia.bf.samples import check_sum, outcomes_of
from evidentia.errors import ConfigurationError, DataError, is_one_of

SCALES = {"medium": 0.5, "wide": np.sqrt(0.5), "ultrawide": 1.0}
BOUNDS = (0.0, 1.0)
FAR = -30.0  # log odds, below which 1 - p is one
EQUAL = "equal"


def proportion(
    successes: Any,
    trials: Any = None,
    null: float | tuple[float, float] | str = 0.5,
    scale: str | float = "medium",
    alternative: str = "two-sided",
    prior: Any = None,
) -> BayesFactor:
    """The Bayes factor of a proportion against a value, or of equal proportions in several groups.

    Under H₁, log odds have a logistic prior about those of the null value (about 0 if that is an
    interval), as in BayesFactor, or the proportion a beta prior of your own. Several counts are of
    one common proportion, unless null is "equal": then each group has a proportion of its own
    under H₁, and all share one under H₀, with the same beta prior.

    Args:
        successes: a count, or one for each group. Without trials, a column of zeros and ones in
            their order: `sequential` adds them. For equal proportions a column for each group, of
            which it takes equal shares.
        trials: how many of each could have been one.
        null: the proportion under H₀; an interval (low, high), which H₁ leaves out; or "equal".
        scale: of the logistic prior: "medium" (1/2), "wide" (√2/2), "ultrawide" (1) or a number.
        alternative: "two-sided", "greater" or "less"; one-sided priors are renormalised.
        prior: of the proportion: `dist.Beta(a, b)`; for equal proportions beta(1, 1) if not given.

    Raises:
        ConfigurationError: an argument of another kind, or out of its range.
        DataError: counts that are no whole numbers, or more successes than trials.

    Example:
        >>> round(ev.bf.proportion(15, 25).bf10, 6)
        0.659872

    Source: Morey and Rouder, BayesFactor (proportionBF); Kass and Raftery (1995) for groups.
    """
    if is_one_of(null, (EQUAL,)):
        groups, notes = _groups(successes) if trials is None else (None, ())
        counts, totals = _counts(successes, trials) if groups is None else _of_first(groups, 1.0)
        found = _equal(counts, totals, prior, alternative, groups)
        return replace(found, notes=notes)
    if trials is None:  # outcomes one by one
        outcomes, notes = outcomes_of("successes", successes)
        batches = outcomes, np.ones_like(outcomes)
    else:
        batches, notes = _counts(successes, trials), ()
    interval = interval_of(null, "the proportion", BOUNDS)
    value = 0.5 if interval else float(null)  # type: ignore[arg-type]
    if not 0 < value < 1:
        raise ConfigurationError(f"null must lie between 0 and 1; got {null!r}.")
    steps = np.cumsum(batches, axis=1).astype(int)
    k, n = map(int, steps[:, -1])
    question = Question(
        test="proportion",
        effect_of=partial(effect_of, k, n, value),
        prior=None if prior is None else beta_prior(*_shapes(prior)),
        scale=scale_of(scale, SCALES),
        scales=SCALES,
        law=lambda width: of_law(
            stats.logistic(logit(value), width), f"logistic({logit(value):.4g}, {width:.4g}) log odds"
        ),
        num_observations=n,
        statistics={"successes": k, "trials": n},
        first=None if len(steps[0]) == 1 else lambda count: partial(effect_of, *steps[:, count - 1], value),
        least=1,
        num_steps=len(steps[0]),
        notes=notes,
    )
    return answer(question, alternative, interval)


def effect_of(successes: int, trials: int, null: float, prior: Prior) -> Effect:
    """The proportion behind a binomial count."""
    failures = trials - successes
    at_null = successes * np.log(null) + failures * np.log1p(-null)

    def log_likelihood(log_odds: ndarray) -> ndarray:
        return successes * log_expit(log_odds) + failures * log_expit(-log_odds) - at_null

    return Effect(
        name="proportion p",
        log_prior=prior.log_density,
        log_likelihood=log_likelihood,
        prior_edges=prior.edges,
        peak=float(np.log((successes + 0.5) / (failures + 0.5))),
        width=float(np.sqrt(1 / (successes + 0.5) + 1 / (failures + 0.5))),
        null=null,
        scale=LOGIT,
        bounds=BOUNDS,
    )


def beta_prior(a: float, b: float) -> Prior:
    """beta(a, b) of a proportion, as a density of its log odds."""
    edges = np.concatenate([_log_odds(a, b), -_log_odds(b, a)])
    return Prior(
        lambda log_odds: a * log_expit(log_odds) + b * log_expit(-log_odds) - betaln(a, b),
        np.unique(edges[np.isfinite(edges)]),
        f"beta({a:.4g}, {b:.4g})",
    )


def _log_odds(a: float, b: float) -> ndarray:
    """Log odds of small quantiles of beta(a, b), also of those that are no floats."""
    far = (np.log(SHARES) + np.log(a) + betaln(a, b)) / a  # where the density is that of p^(a-1)
    with np.errstate(divide="ignore"):
        near = logit(stats.beta(a, b).ppf(SHARES))
    return np.where(far < FAR, far, near)


def _equal(
    counts: ndarray, totals: ndarray, prior: Any, alternative: str, groups: list[ndarray] | None
) -> BayesFactor:
    if alternative != "two-sided":
        raise ConfigurationError(
            f"alternative must be 'two-sided' with null='equal'; got {alternative!r}. For orders of proportions see ev.bf.order."
        )
    if len(counts) < 2:
        raise ConfigurationError("null='equal' compares groups: give successes and trials of two or more.")
    a, b = (1.0, 1.0) if prior is None else _shapes(prior)

    def log_bf10(width: float, counts: ndarray, totals: ndarray) -> float:
        failures = totals - counts
        own = betaln(a * width + counts, b * width + failures) - betaln(a * width, b * width)
        common = betaln(a * width + counts.sum(), b * width + failures.sum()) - betaln(a * width, b * width)
        return float(own.sum() - common)

    return BayesFactor(
        test=f"proportions of {len(counts)} groups",
        log_bf10=log_bf10(1.0, counts, totals),
        error=float(np.finfo(float).eps * gammaln(totals.sum() + 1)),
        claim="the groups differ in their proportions",
        null_claim="all groups have the same proportion",
        prior=f"each p ~ beta({a:.4g}, {b:.4g})",
        num_observations=int(totals.sum()),
        statistics={f"p{place + 1}": float(share) for place, share in enumerate(counts / totals)},
        again=Again(
            "concentration of the prior",
            1.0,
            {},
            lambda width: log_bf10(width, counts, totals),
            of_first=None
            if groups is None
            else lambda count: log_bf10(1.0, *_of_first(groups, count / totals.sum())),
            least=1,
            num_steps=int(totals.sum()),
        ),
    )


def _groups(successes: Any) -> tuple[list[ndarray], tuple[str, ...]]:
    """The outcomes of each group, and notes."""
    if not isinstance(successes, Mapping | Sequence | ndarray) or isinstance(successes, str):
        raise DataError(
            f"successes without trials must be columns of zeros and ones, by group; got {successes!r}."
        )
    named = successes if isinstance(successes, Mapping) else dict(enumerate(successes, 1))
    found = [outcomes_of(f"successes of group {name}", column) for name, column in named.items()]
    return [group for group, _ in found], tuple(note for _, notes in found for note in notes)


def _of_first(groups: list[ndarray], share: float) -> tuple[ndarray, ndarray]:
    """Successes and trials of the first outcomes; groups grow in proportion."""
    first = [group[: round(share * len(group))] for group in groups]
    return np.array([group.sum() for group in first]), np.array([float(len(group)) for group in first])


def _shapes(prior: Any) -> tuple[float, float]:
    """a and b of a beta distribution of a proportion."""
    law, _ = law_of(prior)
    shapes, *_ = law.dist._parse_args(*law.args, **law.kwds)
    if law.support() == BOUNDS and law.dist.name == "uniform":
        return 1.0, 1.0
    if law.support() != BOUNDS or law.dist.name != "beta":
        raise ConfigurationError(
            f"prior of a proportion must be a beta distribution, such as dist.Beta(1, 1); got {prior!r}."
        )
    return float(shapes[0]), float(shapes[1])


def _counts(successes: Any, trials: Any) -> tuple[ndarray, ndarray]:
    try:
        counts, totals = (np.atleast_1d(np.asarray(given, float)) for given in (successes, trials))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"successes and trials must be counts; got {successes!r} and {trials!r}.") from error
    if counts.shape != totals.shape or counts.ndim != 1:
        raise DataError(
            f"successes and trials must have the same length; got shapes {counts.shape} and {totals.shape}."
        )
    whole = (
        np.isfinite(counts)
        & np.isfinite(totals)
        & (counts == np.floor(counts))
        & (totals == np.floor(totals))
    )
    if not np.all(whole & (counts >= 0) & (counts <= totals) & (totals > 0)):
        raise DataError(
            f"successes must be whole numbers from 0 to trials, which must be positive; got {successes!r} of {trials!r}."
        )
    check_sum("trials", totals)
    return counts, totals
