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
FEW = 1000  # rows that show what a formula takes of a table
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
        matrix = _computed(self.spec, table)
        start = 1 if INTERCEPT in matrix.columns else 0
        return _finite(np.asarray(matrix, np.float64)[:, start:], self.names, table)


def learn(formula: Formula, terms: tuple[str, ...], table: DataFrame) -> Design:
    """The design of some terms of a formula, with the categories, knots and means of a table.

    Raises:
        ConfigurationError: a term cannot be computed, such as one with an unknown function.
    """
    spec = _learnt(formula.right_hand_side(terms), table, formula)
    first = 1 if formula.has_intercept else 0
    slices = {
        str(term): slice(place.start - first, place.stop - first)
        for term, place in spec.term_slices.items()
        if str(term) != "1"
    }
    return Design(spec, tuple(map(str, spec.column_names))[first:], slices)


@dataclass(frozen=True)
class Expression:
    """A response, trials or an offset, learnt on one table and computed of any other."""

    text: str
    spec: ModelSpec | None  # of anything but a column as it is

    def values(self, table: DataFrame) -> Series:
        """For the rows of a table: a column as it is, or numbers.

        Raises:
            DataError: there is no finite value in some rows.
        """
        from pandas import Series

        if self.spec is None:
            return Series(table[self.text.strip("`")])
        matrix = np.asarray(_computed(self.spec, table), np.float64)
        return Series(_finite(matrix, (self.text,), table)[:, 0])


def learn_expression(text: str, table: DataFrame, formula: Formula) -> Expression:
    """An expression of a formula, with the means and deviations of a table if it uses them.

    Raises:
        ConfigurationError: it cannot be computed, or has several columns.
    """
    if text.strip("`") in table.columns:
        return Expression(text, None)
    spec = _learnt(f"0 + {text}", table, formula)
    if len(spec.column_names) != 1:
        raise ConfigurationError(f"{text} in formula {formula.text!r} must be one column of numbers.")
    return Expression(text, spec)


def evaluate(text: str, table: DataFrame, formula: Formula) -> Series:
    """The values of an expression, learnt on the same table.

    Raises:
        ConfigurationError, DataError: as raised by `learn_expression` and `Expression.values`.
    """
    return learn_expression(text, table, formula).values(table)


def _learnt(expression: str, table: DataFrame, formula: Formula) -> ModelSpec:
    """Formulaic's specification; few rows suffice if it takes only the columns' types."""
    from formulaic.errors import FormulaicError

    def learnt(rows: DataFrame) -> ModelSpec:
        return (
            _formulaic(expression)
            .get_model_matrix(rows, context={}, na_action="ignore", output="sparse")
            .model_spec
        )

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec = learnt(table.iloc[:FEW])
            return learnt(table) if len(table) > FEW and _depends_on_rows(spec, table) else spec
    except (FormulaicError, SyntaxError, TypeError, ValueError, AttributeError) as error:
        problem = " ".join(_COLOUR.sub("", str(error)).split())
        raise ConfigurationError(f"formula {formula.text!r} cannot be computed: {problem}") from None


def _depends_on_rows(spec: ModelSpec, table: DataFrame) -> bool:
    """Whether a specification has means, knots, or categories that no column's type declares."""
    from pandas import CategoricalDtype

    declared = {name for name in table.columns if isinstance(table[name].dtype, CategoricalDtype)}
    return bool(spec.transform_state) or any(
        "categories" in state and str(factor).strip("`") not in declared
        for factor, (_, state) in spec.encoder_state.items()
    )


def _computed(spec: ModelSpec, table: DataFrame) -> Any:
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            matrix = spec.get_model_matrix(table, context={}, na_action="ignore", output="pandas")
    except (FormulaicError, ValueError) as error:
        problem = " ".join(_COLOUR.sub("", str(error)).split())
        raise DataError(f"{spec.formula} cannot be computed of the table: {problem}") from None
    for message in (str(one.message) for one in caught):
        if unseen := re.search(r"outside of the nominated levels.*?: \{(.*)\}", message):
            listed = re.sub(r"np\.\w+\(([^)]*)\)", r"\1", unseen[1])
            raise DataError(
                f"{_with_unseen(spec, table)} has the categories {{{listed}}}, which the rows that the formula was learnt on "
                "did not have. Leave such rows out, or give a table in which every category occurs; of files, all "
                "categories are found that are written as text."
            )
    return matrix


def _with_unseen(spec: ModelSpec, table: DataFrame) -> str:
    """The factor of a specification for which a table has a category that it did not have."""
    categorical = {
        str(factor): state["categories"] for factor, (_, state) in spec.encoder_state.items() if state
    }
    for factor, known in categorical.items():
        for name in _columns_in(_formulaic(f"0 + {factor}")):
            if not set(table[name].unique()) <= set(known):
                return factor
    return " or ".join(categorical)


def _finite(
    values: Float[ndarray, "rows columns"], names: tuple[str, ...], table: DataFrame
) -> Float[ndarray, "rows columns"]:
    bad = ~np.isfinite(values)
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        rows = bad[:, column]
        raise DataError(
            f"{names[column]} is not finite in {rows.sum():,} of {len(values):,} rows (the first is row "
            f"{table.index[rows.argmax()]}). "
            "Transform the column in another way, or leave these rows out."
        )
    return values
