"""Formulas: what of a table is the response, and what predicts it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from formulaic import ModelSpec
    from pandas import DataFrame, Series

INTERCEPT = "Intercept"
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
        return list(dict.fromkeys(name for one in given for name in _columns_in(_formulaic(f"0 + {one}"))))

    @property
    def variables(self) -> list[str]:
        """The columns of a table that the formula uses."""
        expressions = [f"0 + {one}" for one in self.terms] + [f"0 + I({one})" for one in self.offsets]
        others = [name for one in expressions for name in _columns_in(_formulaic(one))]
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
    if not isinstance(text, str) or text.count("~") != 1 or not text.split("~")[0].strip():
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


def _columns_in(terms: Any) -> Iterator[str]:
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


def _formulaic(expression: str) -> Any:
    import formulaic

    return formulaic.Formula(expression)  # pyright: ignore[reportAbstractUsage]


def _parsed(expression: str, text: str) -> list[Any]:
    from formulaic.errors import FormulaicError

    try:
        return list(_formulaic(expression or "?"))
    except (FormulaicError, SyntaxError) as error:
        problem = " ".join(_COLOUR.sub("", str(error)).split())
        raise ConfigurationError(f"formula {text!r} cannot be read: {problem}") from None


@dataclass(frozen=True)
class Design:
    """The columns of a formula's terms, learnt on one table and made of any other.

    Attributes:
        names: of the columns, as in R: `cut[T.Good]`, `log(carat)`.
        terms: for each term of the formula, the places of its columns.
    """

    spec: ModelSpec
    names: tuple[str, ...]
    terms: dict[str, slice]

    def columns(self, table: DataFrame) -> Float[ndarray, "rows columns"]:
        """The columns for the rows of a table, in float64.

        Raises:
            DataError: a category that the table of `learn` did not have, or values without a
                finite result, such as the logarithm of a negative number.
        """
        with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            matrix = self.spec.get_model_matrix(table, na_action="ignore")
        if unseen := next(
            (str(one.message) for one in caught if "outside of the nominated" in str(one.message)), None
        ):
            category = re.search(r"\{.*\}", unseen)
            raise DataError(
                f"the table has the categories {category[0] if category else '?'}, which the first rows did not have. "
                "Give a table in which every category occurs."
            )
        values = np.asarray(matrix, np.float64)
        start = 1 if INTERCEPT in matrix.columns else 0
        return _finite(values[:, start:], self.names)


def learn(formula: Formula, terms: tuple[str, ...], table: DataFrame) -> Design:
    """The design of some terms of a formula, with the categories, knots and means of a table.

    Raises:
        ConfigurationError: a term cannot be computed, such as one with an unknown function.
        DataError: as raised by `Design.columns`.
    """
    matrix = _evaluated(formula.right_hand_side(terms), table, formula)
    spec = matrix.model_spec
    first = 1 if formula.has_intercept else 0
    slices = {
        str(term): slice(place.start - first, place.stop - first)
        for term, place in spec.term_slices.items()
        if str(term) != "1"
    }
    names = tuple(map(str, spec.column_names))[first:]
    _finite(np.asarray(matrix, np.float64)[:, first:], names)
    return Design(spec, names, slices)


def evaluate(expression: str, table: DataFrame, formula: Formula) -> Series:
    """The values of an expression for the rows of a table: a column as it is, or numbers.

    Raises:
        ConfigurationError: it cannot be computed. DataError: it has no finite value in some rows.
    """
    from pandas import Series

    if expression.strip("`") in table.columns:
        return Series(table[expression.strip("`")])
    matrix = _evaluated(f"0 + {expression}", table, formula)
    if matrix.shape[1] != 1:
        raise ConfigurationError(f"{expression} in formula {formula.text!r} must be one column of numbers.")
    return Series(_finite(np.asarray(matrix, np.float64), (expression,))[:, 0])


def _evaluated(expression: str, table: DataFrame, formula: Formula) -> Any:
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _formulaic(expression).get_model_matrix(table, context={}, na_action="ignore")
    except (FormulaicError, SyntaxError, TypeError, ValueError, AttributeError) as error:
        problem = " ".join(_COLOUR.sub("", str(error)).split())
        raise ConfigurationError(f"formula {formula.text!r} cannot be computed: {problem}") from None


def _finite(values: Float[ndarray, "rows columns"], names: tuple[str, ...]) -> Float[ndarray, "rows columns"]:
    bad = ~np.isfinite(values)
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        rows = bad[:, column]
        raise DataError(
            f"{names[column]} is not finite in {rows.sum():,} of {len(values):,} rows (the first is row {rows.argmax()}). "
            "Transform the column in another way, or leave these rows out."
        )
    return values
