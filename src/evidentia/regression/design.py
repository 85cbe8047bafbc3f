"""Designs: the columns of a formula's terms, learnt on one table and made of any other."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.formula import INTERCEPT, Formula, columns_in, formulaic_of, problem_of

if TYPE_CHECKING:
    from formulaic import ModelSpec
    from pandas import DataFrame, Series

FEW = 1000  # rows that show what a formula takes of a table


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
            formulaic_of(expression)
            .get_model_matrix(rows, context={}, na_action="ignore", output="sparse")
            .model_spec
        )

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec = learnt(table.iloc[:FEW])
            return learnt(table) if len(table) > FEW and _depends_on_rows(spec, table) else spec
    except (FormulaicError, SyntaxError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"formula {formula.text!r} cannot be computed: {problem_of(error)}"
        ) from None


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
        raise DataError(f"{spec.formula} cannot be computed of the table: {problem_of(error)}") from None
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
        for name in columns_in(formulaic_of(f"0 + {factor}")):
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
