"""Pieces of files as pandas data frames: complete rows, text as categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int
from numpy import ndarray

from evidentia.data.files import type_problem
from evidentia.data.sources.columns import Piece
from evidentia.errors import DataError
from evidentia.regression.frequencies import frequencies_of
from evidentia.regression.text_columns import check_commas, check_mixed, check_text

if TYPE_CHECKING:
    from pandas import CategoricalDtype, DataFrame

MOST_CATEGORIES = 10_000


class PieceSource(Protocol):
    """What yields columns of all rows piece by piece: files, or partitions."""

    def pieces_of(self, names: Sequence[str]) -> Iterator[Piece]:
        """Yield these columns."""
        ...


def absent_from(piece: Piece) -> dict[str, Bool[ndarray, " rows"]]:
    """Which rows have no value (null or NaN), for each column that lacks some."""
    found = {}
    for name, column in zip(piece.table.schema.names, piece.table.columns, strict=True):
        absent = column.is_null(nan_is_null=pa.types.is_floating(column.type))
        absent = absent.to_numpy(zero_copy_only=False)
        if absent.any():
            found[name] = absent
    return found


def completed(piece: Piece, first_row: int) -> DataFrame:
    """The rows without missing values, numbered from `first_row`; text is a pandas Categorical."""
    from pandas import DataFrame, RangeIndex

    table = piece.table
    if absent := absent_from(piece):
        table = table.filter(pa.array(~np.any(list(absent.values()), axis=0)))
    columns = {
        name: _converted(name, column, piece.where).to_pandas()
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
    return DataFrame(columns).set_axis(RangeIndex(first_row, first_row + table.num_rows), axis=0)


def counted(
    piece: Piece, first_row: int, columns: Sequence[str], weights: str | None
) -> tuple[DataFrame, Int[ndarray, " rows"]]:
    """The complete rows of a piece that count, numbered from `first_row`, and how often."""
    table = completed(piece, first_row)
    if weights is None:
        return table, np.ones(len(table), int)
    counts = frequencies_of(weights, table[weights])
    kept = table.loc[counts > 0, list(columns)].reset_index(drop=True)
    return kept.set_axis(kept.index + first_row, axis=0), counts[counts > 0]


def _converted(name: str, column: pa.Array, where: str) -> pa.Array:
    kinds = pa.types
    if kinds.is_dictionary(column.type):
        return column
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        return column.dictionary_encode()
    if kinds.is_decimal(column.type) or kinds.is_null(column.type):
        return column.cast(pa.float64())
    if problem := type_problem(name, column.type, None):
        raise DataError(f"{where}: column {problem}. Make numbers or text of it first.")
    return column


def with_types(table: DataFrame, types: Mapping[str, Any]) -> DataFrame:
    """The same rows with all categories, in their order; NaN for a value that is none of them."""
    from pandas import CategoricalDtype

    found = table.astype(dict(types))
    for name, kind in types.items():
        if isinstance(kind, CategoricalDtype):  # astype leaves the same categories in another order
            found[name] = found[name].cat.set_categories(kind.categories)
    return found


def whole_numbers(table: DataFrame) -> set[str]:
    """The columns of real numbers that hold integers only; in CSV files, types are not written."""
    numbers = table.select_dtypes("float")
    are_whole = ((numbers % 1 == 0) & (numbers.abs() < 2**53)).all()
    return {str(name) for name in numbers.columns[are_whole]}


class Levels:
    """The categories that occur in pieces: of text sorted, of dictionaries in their order."""

    def __init__(self) -> None:
        self._is_used: dict[str, dict[Any, bool]] = {}
        self._is_ordered: dict[str, bool] = {}  # of dictionaries
        self._are_categories: dict[str, bool] = {}

    def add(self, table: DataFrame, piece: Piece) -> None:
        """Note the categories of a piece's complete rows.

        Raises:
            DataError: text after numbers, text that looks like numbers, too many categories.
        """
        from pandas import CategoricalDtype, Series

        for name, column in table.items():
            name, are_categories = str(name), isinstance(column.dtype, CategoricalDtype)
            if self._are_categories.setdefault(name, are_categories) != are_categories:
                raise DataError(
                    f"column {name!r} holds {'text' if are_categories else 'numbers'} in {piece.where}, unlike before it. "
                    "Give all files the same types."
                )
            if not are_categories:
                continue
            categories = column.cat.categories
            if pa.types.is_dictionary(piece.table.schema.field(name).type):
                self._is_ordered[name] = column.cat.ordered
            else:
                given = piece.table.column(name).to_pandas()
                check_commas(name, given)
                check_mixed(name, given, piece.where, piece.first_row)
                check_text(name, Series(categories))
            is_used = self._is_used.setdefault(name, {})
            for category in categories:
                is_used.setdefault(category, False)
            is_used.update(dict.fromkeys(categories[np.unique(column.cat.codes)], True))
            if len(is_used) > MOST_CATEGORIES:
                raise DataError(
                    f"column {name!r} has more than {MOST_CATEGORIES:,} categories. Leave it out of the formula, or group them."
                )

    def merge(self, other: Levels) -> None:
        """Take in the categories of the rows that follow.

        Raises:
            DataError: a column that holds text in one part, and numbers in the other.
        """
        for name, are_categories in other._are_categories.items():
            if self._are_categories.setdefault(name, are_categories) != are_categories:
                raise DataError(f"column {name!r} holds text in some partitions, and numbers in others.")
        self._is_ordered.update(other._is_ordered)
        for name, own in other._is_used.items():
            known = self._is_used.setdefault(name, {})
            for category, is_used in own.items():
                known[category] = known.get(category, False) or is_used

    def types(self) -> dict[str, CategoricalDtype]:
        """The types of the columns with categories."""
        from pandas import CategoricalDtype

        used = {name: [one for one, is_in in each.items() if is_in] for name, each in self._is_used.items()}
        return {
            name: CategoricalDtype(
                categories if name in self._is_ordered else sorted(categories),
                self._is_ordered.get(name, False),
            )
            for name, categories in used.items()
        }
