"""The factors of terms, computed of a table, for Formulaic to code and to multiply.

Formulaic is given the values of all factors under their texts; it evaluates no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from evidentia.data.digits import check_float64
from evidentia.errors import ConfigurationError, check_memory
from evidentia.regression.arithmetic import State, numbers_in, values_of
from evidentia.regression.expressions import (
    calculated_columns,
    columns_of,
    is_learnt,
    num_learnt_columns,
    tree_of,
)
from evidentia.regression.quoting import decoded, name_of
from evidentia.regression.streamed import Streamed

if TYPE_CHECKING:
    from formulaic.parser.types import Factor, Term
    from pandas import DataFrame

MOST_COLUMNS = 5000  # whose correlations take minutes
MOST_CATEGORICAL = 8  # factors with categories in an interaction, whose codings are combined in 2⁸ ways


def with_lookups(formula: Iterable[Term]) -> Any:
    """The formula whose expressions are names of values."""
    from formulaic import Formula
    from formulaic.parser.types import Factor, Term

    def looked_up(factor: Factor) -> Factor:
        return factor if factor.eval_method.value == "literal" else Factor(factor.expr, eval_method="lookup")

    terms: list[Any] = [Term([looked_up(factor) for factor in term.factors]) for term in formula]
    return Formula(terms)  # pyright: ignore[reportAbstractUsage]


def state_of(formula: Iterable[Term], table: DataFrame | Streamed) -> State:
    """What expressions take of all rows: means, deviations, and knots.

    Raises:
        ConfigurationError: the memory of the machine is too small.
    """
    state: State = {}
    num_rows = table.num_rows if isinstance(table, Streamed) else len(table)
    for text in _expressions_in(formula):
        tree = tree_of(text)
        if is_learnt(tree):
            num_bytes = 16 * num_rows * num_learnt_columns(tree)
            check_memory(f"{decoded(text)} on {num_rows:,} rows", "what it learns", num_bytes)
            names = list(dict.fromkeys(columns_of(tree)))
            values_of(tree, table.all_rows_of(names) if isinstance(table, Streamed) else table, state)
    return state


def check_digits(formula: Iterable[Term], table: DataFrame) -> None:
    """Check the integers that terms calculate with, in float64; see `check_float64`."""
    from pandas.api import types

    for text in {factor.expr for factor in _factors_in(formula)}:
        for name in calculated_columns(text):
            column: Any = table[name]
            if types.is_integer_dtype(column):
                check_float64([int(column.min()), int(column.max())], f"column {name!r}")


def values_in(formula: Iterable[Term], table: DataFrame, state: State) -> dict[str, Any]:
    """The values of all factors for the rows of a table, by their texts.

    Raises:
        DataError: text in arithmetic.
    """
    from pandas.api import types

    found, expressions = {}, set(_expressions_in(formula))
    for text in expressions:
        found[text] = values_of(tree_of(text), table, state)
    for text in {factor.expr for factor in _factors_in(formula)} - expressions:
        name = name_of(text)
        found[text] = numbers_in(table, name) if types.is_numeric_dtype(table[name]) else table[name]
    return found


def check_size(formula: Iterable[Term], values: dict[str, Any]) -> None:
    """Raise ConfigurationError for more columns than there can be."""
    widths = {text: _width(value) for text, value in values.items()}
    num_columns = 0
    for term in formula:
        own = [widths[factor.expr] for factor in term.factors if factor.expr in widths]
        num_columns += prod(width for width, _ in own)
        if sum(is_categorical for _, is_categorical in own) > MOST_CATEGORICAL:
            raise ConfigurationError(
                f"an interaction has more than {MOST_CATEGORICAL} factors with categories."
            )
        if num_columns > MOST_COLUMNS:
            raise ConfigurationError(
                f"its terms have more than {MOST_COLUMNS:,} columns. Group the categories, leave interactions of them out, or let "
                "effects vary by group: (1 | g)."
            )


def _width(value: Any) -> tuple[int, bool]:
    """The number of columns of a factor, and whether it has categories."""
    from pandas import Series
    from pandas.api import types

    metadata = getattr(value, "__formulaic_metadata__", None)
    if (metadata is not None and metadata.kind.value == "categorical") or not hasattr(value, "dtype"):
        given = getattr(value, "__wrapped__", value)
        return (len(given), False) if isinstance(given, dict) else (Series(given).nunique(), True)
    if not types.is_numeric_dtype(value.dtype):
        return Series(value).nunique(), True
    return (1 if np.ndim(value) == 1 else value.shape[1]), False


def _factors_in(formula: Iterable[Term]) -> Iterator[Factor]:
    return (factor for term in formula for factor in term.factors if factor.eval_method.value != "literal")


def _expressions_in(formula: Iterable[Term]) -> list[str]:
    """The texts of the factors that are computed."""
    return sorted({one.expr for one in _factors_in(formula) if one.eval_method.value == "python"})
