"""Formulas: what of a table is the response, and what predicts it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evidentia.errors import ConfigurationError

INTERCEPT = "Intercept"
_WORDS = {
    r"name '(\w+)' is not defined": "there is no function {}. A logarithm is log(x), a spline bs(x, df=4).",
    r"The `\.` operator": "'.' for all other columns is not supported. Name them.",
    r"context was closed\. Expected: (\S)": "a closing {} is missing.",
}
_COLOUR = re.compile(r"\x1b\[[\d;]*m|[⧛⧚]")


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
    """

    text: str
    response: str
    trials: str | None
    terms: tuple[str, ...]
    offsets: tuple[str, ...]
    has_intercept: bool

    @property
    def response_variables(self) -> list[str]:
        """The columns of a table that are left of "~"."""
        given = [self.response, *([self.trials] if self.trials else [])]
        return list(dict.fromkeys(name for one in given for name in columns_in(formulaic_of(f"0 + {one}"))))

    @property
    def variables(self) -> list[str]:
        """The columns of a table that the formula uses."""
        expressions = [f"0 + {one}" for one in self.terms] + [f"0 + I({one})" for one in self.offsets]
        others = [name for one in expressions for name in columns_in(formulaic_of(one))]
        return list(dict.fromkeys([*self.response_variables, *others]))

    def with_terms(self, terms: tuple[str, ...]) -> str:
        """The formula with some of its terms, as text."""
        left = self.text.split("~")[0].strip()
        offsets = tuple(f"offset({one})" for one in self.offsets)
        return f"{left} ~ {self.right_hand_side((*terms, *offsets))}"

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
    if "|" in right:
        raise ConfigurationError(
            f"formula {text!r} has | right of ~; random effects such as (1 | group) are not supported yet."
        )
    terms = [str(term) for term in _parsed(right, text)]
    offsets = [term for term in terms if term.startswith("offset(")]
    others = [term for term in terms if term not in offsets and term != "1"]
    inner = tuple(term.removeprefix("offset(")[:-1] for term in offsets)
    return Formula(text, response, trials[0] if trials else None, tuple(others), inner, "1" in terms)


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
