"""From a question about an effect of one number to its Bayes factor, and to those asked again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from evidentia.bf.effect import Effect, Hypotheses, Interval, integral_of
from evidentia.bf.hypotheses import check_alternative, claims_of
from evidentia.bf.posterior import EffectPosterior
from evidentia.bf.prior import Prior
from evidentia.bf.result import Again, BayesFactor
from evidentia.errors import DataError


class Question(NamedTuple):
    """A test of an effect of one number.

    Attributes:
        test: which, in print.
        effect_of: the effect with a prior, given the data; `first` gives that of other data.
        prior: of the user; None for the default of a width.
        scale: width of the default prior.
        scales: named widths.
        law: the default prior of a width.
        num_observations: rows.
        statistics: what was computed of the data.
        first: the data's part of the effect of the first n rows; None without rows in order.
        least: rows for which the effect is defined.
        num_steps: how many there are to come one after the other, if these are not rows.
        notes: on what was done to the data.
        symbol: whose prior is printed, if it is not the effect's.
    """

    test: str
    effect_of: Callable[..., Effect]
    prior: Prior | None
    scale: float
    scales: Mapping[str, float]
    law: Callable[[float], Prior]
    num_observations: int
    statistics: Mapping[str, float]
    first: Callable[[int], Callable[[Prior], Effect]] | None = None
    least: int = 2
    num_steps: int | None = None
    notes: tuple[str, ...] = ()
    symbol: str = ""


def _restriction(hypotheses: Hypotheses, effect: Effect) -> str:
    return "" if hypotheses.one == (effect.bounds,) else ", restricted to H1"


def answer(question: Question, alternative: Any, interval: Interval | None) -> BayesFactor:
    """The Bayes factor of H₁ against H₀, with what it takes to ask again.

    Raises:
        ConfigurationError: an unknown alternative, or one for which the interval leaves no room.
    """
    check_alternative(alternative)
    used = question.prior or question.law(question.scale)
    effect = question.effect_of(used)
    claims = claims_of(effect, alternative, interval)
    found = integral_of(effect, claims.hypotheses)

    def of_effect(other: Effect) -> float:
        return integral_of(other, claims.hypotheses).log_bf10

    def of_first(count: int) -> float:
        assert question.first is not None
        try:
            return of_effect(question.first(count)(used))
        except DataError:  # such as values that are equal up to here
            return math.nan

    again = Again(
        scale=question.scale,
        scales=question.scales,
        of_scale=None
        if question.prior is not None
        else lambda scale: of_effect(question.effect_of(question.law(scale))),
        of_first=None if question.first is None else of_first,
        least=question.least,
        num_steps=question.num_steps or question.num_observations,
    )
    return BayesFactor(
        test=question.test,
        log_bf10=found.log_bf10,
        error=found.error,
        claim=claims.one,
        null_claim=claims.zero,
        prior=f"{question.symbol or effect.name.split()[-1]} ~ {used.label}{_restriction(claims.hypotheses, effect)}",
        num_observations=question.num_observations,
        statistics=question.statistics,
        posterior=EffectPosterior(effect, claims.hypotheses, found.grid),
        again=again,
        notes=question.notes,
    )
