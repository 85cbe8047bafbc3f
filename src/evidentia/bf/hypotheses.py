"""What H₁ and H₀ say: alternatives in R's words, points and intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evidentia.bf.effect import Effect, Hypotheses, Interval
from evidentia.errors import ConfigurationError, as_number, is_one_of

ALTERNATIVES = "two-sided", "greater", "less"


class Claims(NamedTuple):
    """Two hypotheses, as intervals and in words."""

    hypotheses: Hypotheses
    one: str
    zero: str


def check_alternative(alternative: Any) -> None:
    """Raise ConfigurationError unless it is one of R's three."""
    if not is_one_of(alternative, ALTERNATIVES):
        raise ConfigurationError(
            f"alternative must be 'two-sided', 'greater' or 'less'; got {alternative!r}."
        )


def interval_of(null: Any, name: str, bounds: Interval) -> Interval | None:
    """A null hypothesis that is an interval of the effect; None for a single number.

    Raises:
        ConfigurationError: no number, and no pair of numbers in order within the bounds.
    """
    if isinstance(null, tuple | list) and len(null) == 2:
        low, high = (as_number(end) for end in null)
        if bounds[0] <= low < high <= bounds[1] and (low, high) != bounds:
            return low, high
    elif np.isfinite(as_number(null)):
        return None
    raise ConfigurationError(
        f"null must be a number, or an interval (low, high) of {name}, with low < high; got {null!r}."
    )


def intervals_of(
    name: str, bounds: Interval, null: float, alternative: str, interval: Interval | None
) -> Hypotheses:
    """H₁ and H₀ of an effect as intervals: against its null value, or against an interval.

    Raises:
        ConfigurationError: nothing is left of H₁.
    """
    low, high = bounds
    start, end = interval or (null, null)
    if alternative == "two-sided" and interval is None:
        return Hypotheses((bounds,))
    sides = {"two-sided": ((low, start), (end, high)), "greater": ((end, high),), "less": ((low, start),)}
    one = tuple(side for side in sides[alternative] if side[0] < side[1])
    if not one:
        raise ConfigurationError(
            f"null must leave room for alternative={alternative!r}; got {interval} of {name}, which lies in {bounds}."
        )
    return Hypotheses(one, () if interval is None else (interval,))


def claims_of(effect: Effect, alternative: str, interval: Interval | None) -> Claims:
    """H₁ and H₀ of an effect, and what they say.

    Raises:
        ConfigurationError: nothing is left of H₁.
    """
    name = effect.name
    hypotheses = intervals_of(name, effect.bounds, effect.null, alternative, interval)
    low, high = interval or (effect.null, effect.null)
    inside = f"{effect.null:g}" if interval is None else f"between {low:g} and {high:g}"
    words = {"two-sided": f"not {inside}", "greater": f"greater than {high:g}", "less": f"less than {low:g}"}
    return Claims(hypotheses, f"{name} is {words[alternative]}", f"{name} is {inside}")
