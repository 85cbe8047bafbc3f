"""Formulas: what of a table is the response, and what predicts it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from evidentia.errors import ConfigurationError
from evidentia.regression.foreign import check_functions, translated
from evidentia.regression.left_hand_side import LeftHandSide, function_of, left_hand_side
from evidentia.regression.quoting import decoded, encoded, factors_of, name_of, quoted, shortened, unquoted
from evidentia.regression.terms import columns_in, operators_in, problem_of, terms_in

INTERCEPT = "Intercept"
_VARYING = re.compile(r"\+?\s*\(([^()|]*(?:\([^()]*\)[^()|]*)*)(\|\|?)([^()|]*)\)")
_OFFSET = re.compile(r"offset\(([^:]*)\)")


@dataclass(frozen=True)
class Varying:
    """Effects that vary by group, such as (1 + x | g).

    Attributes:
        name: of the factor, `g` or `a:b`.
        columns: of the table, whose values make a group.
        terms: those with effects that vary, without the intercept.
        has_intercept: whether the intercept varies.
    """

    name: str
    columns: tuple[str, ...]
    terms: tuple[str, ...]
    has_intercept: bool

    def __str__(self) -> str:
        return f"({' + '.join([str(int(self.has_intercept)), *self.terms])} | {':'.join(map(quoted, self.columns))})"

    @property
    def effects(self) -> tuple[str, ...]:
        """What varies: the terms and, as "1", the intercept."""
        return ("1", *self.terms) if self.has_intercept else self.terms

    def uncorrelated(self) -> Iterator[Varying]:
        """One part for each effect, as lme4's (1 + x || g) is (1 | g) + (0 + x | g)."""
        if self.has_intercept:
            yield replace(self, terms=())
        for term in self.terms:
            yield replace(self, terms=(term,), has_intercept=False)

    def formula(self, whole: Formula) -> Formula:
        """The formula of its terms alone."""
        return replace(whole, terms=self.terms, has_intercept=self.has_intercept, offsets=(), varying=())


@dataclass(frozen=True)
class Formula:
    """A formula in parts.

    Attributes:
        text: as it was given.
        left: the response, and the number of trials, the event or the standard error beside it.
        terms: the terms right of "~" without the intercept and offsets, as expressions.
        offsets: the expressions within `offset(...)`, whose sum is added to the predictor.
        has_intercept: False if the formula has `-1` or `+ 0`.
        varying: the effects that vary by group.
    """

    text: str
    left: LeftHandSide
    terms: tuple[str, ...]
    offsets: tuple[str, ...]
    has_intercept: bool
    varying: tuple[Varying, ...] = ()

    @property
    def response(self) -> str:
        """The expression of the response, without a second column."""
        return self.left.response

    @property
    def observed(self) -> str:
        """What the evidence is a density of: the response, or a time with its event."""
        return self.left_hand_side if self.left.form == "time" else self.response

    @property
    def response_variables(self) -> list[str]:
        """The columns of a table that are left of "~"."""
        given = [self.response, *([self.left.second] if self.left.second else [])]
        return list(dict.fromkeys(name for one in given for name in columns_in(one)))

    @property
    def left_hand_side(self) -> str:
        """The part left of "~"."""
        return str(self.left)

    @property
    def variables(self) -> list[str]:
        """The columns of a table that the formula uses."""
        terms = [*self.terms, *(f"offset({one})" for one in self.offsets)]
        terms += [term for one in self.varying for term in one.terms]
        others = [name for one in terms for name in columns_in(one)]
        others += [column for one in self.varying for column in one.columns]
        return list(dict.fromkeys([*self.response_variables, *others]))

    def with_terms(self, terms: tuple[str, ...]) -> str:
        """The formula with some of its terms, as text."""
        offsets = tuple(f"offset({one})" for one in self.offsets)
        return f"{self.left_hand_side} ~ {self.right_hand_side((*terms, *offsets, *map(str, self.varying)))}"

    def without_each_term(self) -> dict[str, str]:
        """The formulas without one term, for each term that is no part of an interaction.

        Effects that vary by group are terms, too: `(1 | g)`, and of nested ones the inner.
        """
        parts = {term: frozenset(factors_of(term)) for term in self.terms}
        free = [term for term in self.terms if not any(parts[term] < part for part in parts.values())]
        found = {term: self.with_terms(tuple(one for one in self.terms if one != term)) for term in free}
        columns = [set(one.columns) for one in self.varying]
        for one in self.varying:
            if not any(set(one.columns) < others for others in columns):
                rest = replace(self, varying=tuple(other for other in self.varying if other != one))
                found[str(one)] = rest.with_terms(self.terms)
        return found

    def right_hand_side(self, terms: tuple[str, ...]) -> str:
        """The part right of "~" with some of the terms, without offsets."""
        return " + ".join(terms or ("1",)) if self.has_intercept else " + ".join(["0", *terms])


def parse(text: str) -> Formula:
    """Take a formula apart.

    Raises:
        ConfigurationError: it does not parse; the message shows the place.

    Example:
        >>> parse("log(price) ~ log(carat) + cut").terms
        ('log(carat)', 'cut')
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"formula must be text, as in 'y ~ x + z'; got {text!r}.")
    return _read(translated(text))


@lru_cache(maxsize=64)  # a run asks for the parts of its formula many times
def _read(given: str) -> Formula:
    text = shortened(given)
    sides = [" ".join(side.split()) for side in _sides(encoded(given))]
    if len(sides) != 2 or not all(sides):
        raise ConfigurationError(f"formula must read 'response ~ terms', as in 'y ~ x + z'; got {text!r}.")
    written, right = sides
    left = left_hand_side(written, text)
    check_functions(given, function_of(written))
    left = left._replace(
        response=_response(left.response, text), second=left.second and _response(left.second, text)
    )
    right, varying = _without_varying(right, text)
    terms = _parsed(right, text)
    offsets = [found[1] for term in terms if (found := _OFFSET.fullmatch(encoded(term)))]
    others = [term for term in terms if term != "1" and not _OFFSET.fullmatch(encoded(term))]
    used = [*others, left.response, left.second or "", *(term for one in varying for term in one.terms)]
    if wrong := [term for term in used if re.search(r"\boffset\(", encoded(term))]:
        raise ConfigurationError(f"formula {text!r} has {wrong[0]}: an offset must be a term of its own.")
    inner = tuple(map(decoded, offsets))
    return Formula(given, left, tuple(others), inner, "1" in terms, varying)


def _sides(text: str) -> list[str]:
    """The parts of a formula between "~" outside of parentheses, where it says "not"."""
    depth, starts = 0, [0]
    for place, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "~" and depth <= 0:
            starts.append(place + 1)
    ends = [start - 1 for start in starts[1:]] + [len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _without_varying(right: str, text: str) -> tuple[str, tuple[Varying, ...]]:
    """The right side of a formula without effects that vary by group, and these."""
    found = [
        one for match in _VARYING.finditer(right) for one in _varying(match[1], match[2], match[3], text)
    ]
    rest = _VARYING.sub("", right).strip().removeprefix("+") or "1"
    if "|" in rest:
        raise ConfigurationError(
            f"formula {text!r} has | right of ~ outside of parentheses: write (1 | group) or (1 + x | group)."
        )
    counts = Counter((one.name, effect) for one in found for effect in one.effects)
    if twice := [key for key, count in counts.items() if count > 1]:
        name, effect = twice[0]
        raise ConfigurationError(
            f"formula {text!r} has two terms by {name} in which {'the intercept' if effect == '1' else effect} varies; write "
            f"them as one, such as (1 + x | {name}), or for uncorrelated effects as (1 | {name}) + (0 + x | {name})."
        )
    return rest, tuple(found)


def _varying(effects: str, bars: str, group: str, text: str) -> Iterator[Varying]:
    """The parts of (effects | group); a/b is a and a:b, and || makes a part of each effect."""
    terms = _parsed(effects, text)
    others = tuple(term for term in terms if term != "1")
    factors = [part.strip() for part in group.split("/")]
    nested = [":".join(factors[: depth + 1]) for depth in range(len(factors))]
    for name in nested:
        columns = tuple(name_of(part.strip()) for part in name.split(":"))
        if not all(re.fullmatch(r"[\w.]+", part.strip()) for part in name.split(":")) or not (
            others or "1" in terms
        ):
            raise ConfigurationError(
                f"formula {text!r} has ({decoded(effects.strip())} {bars} {decoded(group.strip())}); needed are effects and columns, as "
                "in (1 + x | g), (1 | a:b) or (1 | a/b); a name with spaces is written within backticks, (1 | `my group`)."
            )
        whole = Varying(":".join(map(unquoted, columns)), columns, others, "1" in terms)
        yield from whole.uncorrelated() if bars == "||" else [whole]


def _parsed(expression: str, text: str) -> list[str]:
    """The terms of a part of a formula, as text that gives them again."""
    from formulaic.errors import FormulaicError

    try:
        return terms_in(expression)
    except ConfigurationError as error:
        raise ConfigurationError(f"formula {text!r} cannot be computed: {error}") from None
    except (FormulaicError, SyntaxError, ValueError) as error:
        raise ConfigurationError(f"formula {text!r} cannot be read: {problem_of(error)}") from None


def _response(expression: str, text: str) -> str:
    """An expression left of "~": a column, or something that is computed of columns."""
    found = _parsed(f"0 + {expression}", text)
    if len(found) != 1 or operators_in(expression) - {":"} or not any(columns_in(found[0])):
        raise ConfigurationError(
            f"formula {text!r} must have one response, a column or computed of columns; got {decoded(expression)!r}. Write arithmetic as "
            "I(a + b)."
        )
    return found[0]
