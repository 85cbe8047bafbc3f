"""Designs: the columns of a formula's terms, learnt on one table and made of any other."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, DataError, EvidentiaError
from evidentia.regression.arithmetic import State
from evidentia.regression.coding import check_digits, check_size, state_of, values_in, with_lookups
from evidentia.regression.formula import INTERCEPT, Formula
from evidentia.regression.quoting import column_name, decoded, encoded, name_of
from evidentia.regression.streamed import Streamed
from evidentia.regression.terms import columns_in, formulaic_of, is_name, problem_of, text_of

if TYPE_CHECKING:
    from formulaic import ModelSpec
    from formulaic.parser.types import Term
    from pandas import DataFrame, Series

LARGEST = 1e100  # of a value, whose square and sums of squares a float64 holds
FEW = 1000  # rows that show what a formula takes of a table


class Coding(NamedTuple):
    """How terms become columns: what was learnt of expressions, and Formulaic's specification."""

    terms: Sequence[Term]
    spec: ModelSpec
    state: State


@dataclass(frozen=True)
class Design:
    """The columns of a formula's terms, learnt on one table and made of any other.

    Attributes:
        names: of the columns, as in R: `cut[T.Good]`, `log(carat)`.
        terms: for each term of the formula, the places of its columns.
        kept: the places of these among all columns of the terms; None if these are all.
    """

    coding: Coding
    names: tuple[str, ...]
    terms: dict[str, slice]
    kept: tuple[int, ...] | None = None

    def without(self, names: Collection[str]) -> Design:
        """The design without some columns, and without terms that have none left."""
        is_kept = np.array([name not in names for name in self.names], bool)
        before = np.append(0, np.cumsum(is_kept))
        terms = {
            term: slice(int(before[place.start]), int(before[place.stop]))
            for term, place in self.terms.items()
        }
        return replace(
            self,
            names=tuple(name for name in self.names if name not in names),
            terms={term: place for term, place in terms.items() if place.start < place.stop},
            kept=tuple(np.flatnonzero(is_kept).tolist()),
        )

    def columns(self, table: DataFrame) -> Float[ndarray, "rows columns"]:
        """The columns for the rows of a table, in float64.

        Raises:
            DataError: a category that the table of `learn` did not have, or values without a
                finite result, such as the logarithm of a negative number.
        """
        matrix = _computed(self.coding, table)
        start = 1 if INTERCEPT in matrix.columns else 0
        values = np.asarray(matrix, np.float64)[:, start:]
        return checked(values if self.kept is None else values[:, self.kept], self.names, table)


def learn(formula: Formula, terms: tuple[str, ...], table: DataFrame | Streamed) -> Design:
    """The design of some terms of a formula, with the categories, knots and means of a table.

    Raises:
        ConfigurationError: a term cannot be computed, such as one with an unknown function.
    """
    coding = _learnt(formula.right_hand_side(terms), table, formula)
    spec = coding.spec
    first = 1 if formula.has_intercept else 0
    slices = {
        text_of(term): slice(place.start - first, place.stop - first)
        for term, place in spec.term_slices.items()
        if text_of(term) != "1"
    }
    return Design(coding, tuple(column_name(str(name)) for name in spec.column_names)[first:], slices)


@dataclass(frozen=True)
class Expression:
    """A response, trials or an offset, learnt on one table and computed of any other."""

    text: str
    coding: Coding | None  # of anything but a column as it is

    def values(self, table: DataFrame) -> Series:
        """For the rows of a table: a column as it is, or numbers.

        Raises:
            DataError: there is no finite value in some rows.
        """
        from pandas import Series

        if self.coding is None:
            return Series(table[name_of(encoded(self.text))])
        matrix = np.asarray(_computed(self.coding, table), np.float64)
        return Series(checked(matrix, (self.text,), table)[:, 0], name=self.text)


def learn_expression(text: str, table: DataFrame | Streamed, formula: Formula) -> Expression:
    """An expression of a formula, with the means and deviations of a table if it uses them.

    Raises:
        ConfigurationError: it cannot be computed, or has several columns.
    """
    if is_name(encoded(text)):
        return Expression(text, None)
    coding = _learnt(f"0 + {text}", table, formula)
    if len(coding.spec.column_names) != 1:
        raise ConfigurationError(f"{text} in formula {formula.text!r} must be one column of numbers.")
    return Expression(text, coding)


def evaluate(text: str, table: DataFrame, formula: Formula) -> Series:
    """The values of an expression, learnt on the same table.

    Raises:
        ConfigurationError, DataError: as raised by `learn_expression` and `Expression.values`.
    """
    return learn_expression(text, table, formula).values(table)


def _learnt(expression: str, table: DataFrame | Streamed, formula: Formula) -> Coding:
    """Formulaic's specification; of the columns, few rows show their types."""
    from formulaic.errors import FormulaicError

    known = table.sample if isinstance(table, Streamed) else table
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms = formulaic_of(expression)
            check_digits(terms, known)
            state = state_of(terms, table)
            coding = _coded(terms, known.iloc[:FEW], state)
            is_partial = len(known) > FEW and _has_categories(coding.spec, known)
            return _coded(terms, known, state) if is_partial else coding
    except (FormulaicError, EvidentiaError, SyntaxError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"formula {formula.text!r} cannot be computed: {problem_of(error)}"
        ) from None


def _coded(terms: Sequence[Term], table: DataFrame, state: State) -> Coding:
    from pandas import DataFrame

    values = values_in(terms, table, state)
    check_size(terms, values)
    matrix: Any = with_lookups(terms).get_model_matrix(
        DataFrame(index=table.index), context=values, na_action="ignore", output="sparse"
    )
    return Coding(terms, matrix.model_spec, state)


def _has_categories(spec: ModelSpec, table: DataFrame) -> bool:
    """Whether a specification has categories that no column's type declares."""
    from pandas import CategoricalDtype

    declared = {name for name in table.columns if isinstance(table[name].dtype, CategoricalDtype)}
    return any(
        "categories" in state and name_of(str(factor)) not in declared
        for factor, (_, state) in spec.encoder_state.items()
    )


def _computed(coding: Coding, table: DataFrame) -> Any:
    from formulaic.errors import FormulaicError
    from pandas import DataFrame

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = values_in(coding.terms, table, coding.state)
            matrix = coding.spec.get_model_matrix(
                DataFrame(index=table.index), context=values, na_action="ignore", output="pandas"
            )
    except (FormulaicError, DataError, TypeError, ValueError) as error:
        text = " + ".join(map(text_of, coding.terms))
        raise DataError(f"{text} cannot be computed of the table: {problem_of(error)}") from None
    for message in (str(one.message) for one in caught):
        if unseen := re.search(r"outside of the nominated levels.*?: \{(.*)\}", message):
            listed = re.sub(r"np\.\w+\(([^)]*)\)", r"\1", unseen[1])
            raise DataError(
                f"{_with_unseen(coding.spec, table)} has the categories {{{listed}}}, which the rows that the formula was learnt on "
                "did not have. Leave such rows out, or give a table in which every category occurs; of files, all "
                "categories are found that are written as text."
            )
    return matrix


def _with_unseen(spec: ModelSpec, table: DataFrame) -> str:
    """The factor of a specification for which a table has a category that it did not have."""
    categorical = {
        decoded(str(factor)): state["categories"]
        for factor, (_, state) in spec.encoder_state.items()
        if state
    }
    for factor, known in categorical.items():
        for name in columns_in(factor):
            if not set(table[name].unique()) <= set(known):
                return factor
    return " or ".join(categorical)


def checked(
    values: Float[ndarray, "rows columns"], names: tuple[str, ...], table: DataFrame
) -> Float[ndarray, "rows columns"]:
    """The values of columns, if they are finite and their squares are.

    Raises:
        DataError: others, with the name of the column and the first row.
    """
    bad = ~(np.abs(values) <= LARGEST)  # NaN is not
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        rows, given = bad[:, column], values[:, column]
        problem = "finite" if not np.isfinite(given[rows]).all() else f"within {LARGEST:g} of zero"
        raise DataError(
            f"{names[column]} is not {problem} in {rows.sum():,} of {len(values):,} rows (the first is row "
            f"{table.index[rows.argmax()]}). "
            "Transform the column in another way, or leave these rows out."
        )
    return values
