"""Formulas: what of a table is the response, and what predicts it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from evidentia.errors import ConfigurationError

INTERCEPT = "Intercept"
_WORDS = {
    r"name '(\w+)' is not defined": "there is no function {}. A logarithm is log(x), a spline bs(x, df=4).",
    r"The `\.` operator": "'.' for all other columns is not supported. Name them.",
    r"context was closed\. Expected: (\S)": "a closing {} is missing.",
}
_VARYING = re.compile(r"\+?\s*\(([^()|]*(?:\([^()]*\)[^()|]*)*)\|([^()|]*)\)")
_COLOUR = re.compile(r"\x1b\[[\d;]*m|[⧛⧚]")


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
        return f"({' + '.join([str(int(self.has_intercept)), *self.terms])} | {self.name})"

    def formula(self, whole: Formula) -> Formula:
        """The formula of its terms alone."""
        return replace(whole, terms=self.terms, has_intercept=self.has_intercept, offsets=(), varying=())


@dataclass(frozen=True)
class Formula:
    """A formula in parts.

    Attributes:
        text: as it was given.
        response: the expression left of "~", without trials.
        trials: the expression after "|" left of "~": the number of trials of a binomial; None if
            there is none.
        terms: the terms right of "~" without the intercept and offsets, as expressions.
        offsets: the expressions within `offset(...)`, whose sum is added to the predictor.
        has_intercept: False if the formula has `-1` or `+ 0`.
        varying: the effects that vary by group.
    """

    text: str
    response: str
    trials: str | None
    terms: tuple[str, ...]
    offsets: tuple[str, ...]
    has_intercept: bool
    varying: tuple[Varying, ...] = ()

    @property
    def response_variables(self) -> list[str]:
        """The columns of a table that are left of "~"."""
        given = [self.response, *([self.trials] if self.trials else [])]
        return list(dict.fromkeys(name for one in given for name in columns_in(formulaic_of(f"0 + {one}"))))

    @property
    def variables(self) -> list[str]:
        """The columns of a table that the formula uses."""
        expressions = [f"0 + {one}" for one in self.terms] + [f"0 + I({one})" for one in self.offsets]
        expressions += [f"0 + {term}" for one in self.varying for term in one.terms]
        others = [name for one in expressions for name in columns_in(formulaic_of(one))]
        others += [column for one in self.varying for column in one.columns]
        return list(dict.fromkeys([*self.response_variables, *others]))

    def with_terms(self, terms: tuple[str, ...]) -> str:
        """The formula with some of its terms, as text."""
        left = self.text.split("~")[0].strip()
        offsets = tuple(f"offset({one})" for one in self.offsets)
        return f"{left} ~ {self.right_hand_side((*terms, *offsets, *map(str, self.varying)))}"

    def without_each_term(self) -> dict[str, str]:
        """The formulas without one term, for each term that is no part of an interaction."""
        parts = {term: frozenset(term.split(":")) for term in self.terms}
        free = [term for term in self.terms if not any(parts[term] < part for part in parts.values())]
        return {term: self.with_terms(tuple(one for one in self.terms if one != term)) for term in free}

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
    if not isinstance(text, str) or text.count("~") != 1 or not all(side.strip() for side in text.split("~")):
        raise ConfigurationError(f"formula must read 'response ~ terms', as in 'y ~ x + z'; got {text!r}.")
    left, right = (side.strip() for side in text.split("~"))
    response, *trials = (part.strip() for part in left.split("|"))
    if len(trials) > 1:
        raise ConfigurationError(
            f"formula {text!r} must have at most one | left of ~, as in 'successes | trials ~ x'."
        )
    for expression in (response, *trials):
        if len(_parsed(f"0 + {expression}", text)) != 1:
            raise ConfigurationError(
                f"formula {text!r} must have one response; got {expression!r}. Write arithmetic as I(a + b)."
            )
    right, varying = _without_varying(right, text)
    terms = [str(term) for term in _parsed(right, text)]
    offsets = [term for term in terms if term.startswith("offset(")]
    others = [term for term in terms if term not in offsets and term != "1"]
    inner = tuple(term.removeprefix("offset(")[:-1] for term in offsets)
    return Formula(text, response, trials[0] if trials else None, tuple(others), inner, "1" in terms, varying)


def _without_varying(right: str, text: str) -> tuple[str, tuple[Varying, ...]]:
    """The right side of a formula without effects that vary by group, and these."""
    found = [one for match in _VARYING.finditer(right) for one in _varying(match[1], match[2], text)]
    rest = _VARYING.sub("", right).strip().removeprefix("+") or "1"
    if "|" in rest:
        raise ConfigurationError(
            f"formula {text!r} has | right of ~ outside of parentheses: write (1 | group) or (1 + x | group)."
        )
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f"formula {text!r} has two terms by {twice[0]}; write them as one, such as (1 + x | {twice[0]})."
        )
    return rest, tuple(found)


def _varying(effects: str, group: str, text: str) -> Iterator[Varying]:
    """The parts of (effects | group); a/b is a and a:b."""
    terms = [str(term) for term in _parsed(effects, text)]
    others = tuple(term for term in terms if term != "1")
    factors = [part.strip() for part in group.split("/")]
    nested = [":".join(factors[: depth + 1]) for depth in range(len(factors))]
    for name in nested:
        columns = tuple(part.strip().strip("`") for part in name.split(":"))
        if not all(re.fullmatch(r"[^()+*|]+", column) for column in columns) or not (others or "1" in terms):
            raise ConfigurationError(
                f"formula {text!r} has ({effects.strip()} | {group.strip()}); needed are effects and columns, as in (1 + x | g), "
                "(1 | a:b) or (1 | a/b)."
            )
        yield Varying(":".join(columns), columns, others, "1" in terms)


def columns_in(terms: Any) -> Iterator[str]:
    """The columns that terms use: in expressions, all names but those of called functions."""
    from formulaic.transforms import TRANSFORMS

    for factor in (factor for term in terms for factor in term.factors):
        if factor.eval_method.value == "lookup":
            yield str(factor.expr)
        elif factor.eval_method.value == "python":
            text = str(factor.expr)
            quoted = re.findall(r"`([^`]+)`", text)
            tree = ast.parse(re.sub(r"`[^`]+`", "0", text), mode="eval")
            called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            modules = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            yield from quoted
            for node in (node for node in ast.walk(tree) if isinstance(node, ast.Name)):
                is_module = id(node) in modules and node.id in TRANSFORMS  # such as np, contr
                if id(node) not in called and not is_module:
                    yield node.id


def formulaic_of(expression: str) -> Any:
    """Formulaic's own formula of an expression."""
    import formulaic

    return formulaic.Formula(expression)  # pyright: ignore[reportAbstractUsage]


def _parsed(expression: str, text: str) -> list[Any]:
    from formulaic.errors import FormulaicError

    try:
        return list(formulaic_of(expression or "?"))
    except (FormulaicError, SyntaxError) as error:
        raise ConfigurationError(f"formula {text!r} cannot be read: {problem_of(error)}") from None


def problem_of(error: Exception) -> str:
    """What Formulaic says on one line, or plainer words for common mistakes."""
    said = " ".join(_COLOUR.sub("", str(error)).split())
    for pattern, words in _WORDS.items():
        if found := re.search(pattern, said):
            return words.format(*found.groups())
    return said
