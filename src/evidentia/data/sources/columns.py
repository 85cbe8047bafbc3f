"""Conversion of table columns to model arrays: selection, dtypes and missing values."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from evidentia.data.batches import Batch
from evidentia.data.digits import LOOKED_AT, Digits
from evidentia.data.files import check_names, type_problem
from evidentia.data.numbers import narrowed
from evidentia.data.records import half_line
from evidentia.data.source import Missing, too_short
from evidentia.data.sources.named import Columns, Types, arrays_named, called, check_types
from evidentia.errors import DataError

# What to do about text in another encoding, such as that of spreadsheet programs in Europe.
NOT_UTF_8 = 'If it is Latin-1, pass encoding="latin-1" (--encoding latin-1)'


class Piece(NamedTuple):
    """Rows of a table, with the name of their file and the number of rows before them.

    The last line of a file that has no line end is a piece of its own, which `may_grow`.
    """

    table: pa.RecordBatch
    where: str
    first_row: int
    may_grow: bool = False


@dataclass(frozen=True)
class Selection:
    """The columns and dtypes of each array.

    Attributes:
        arrays: maps each array to its column (a vector) or its columns (a matrix).
        integers: names of the integer columns; all others are real.
        unusable: why the columns cannot be read as numbers; "" if they can.
    """

    arrays: dict[str, str | tuple[str, ...]]
    integers: frozenset[str]
    unusable: str = ""

    def check(self) -> None:
        """Raise DataError unless all columns are numeric."""
        if self.unusable:
            raise DataError(self.unusable)

    @property
    def names(self) -> list[str]:
        """The columns to read, each once."""
        chosen = [name for columns in self.arrays.values() for name in _as_tuple(columns)]
        return list(dict.fromkeys(chosen))

    def values(self, piece: Piece, missing: Missing) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        """Columns of a piece by name, at the file's precision, and indices of the kept rows.

        The indices are None if all rows are kept. Raises DataError for missing values unless they
        are dropped, for infinite values, and for fractions in an integer column.
        """
        values = {name: _numbers(piece.table.column(name)) for name in self.names}
        gaps = {
            name: np.isnan(column)
            for name, column in values.items()
            if column.dtype.kind == "f" and not np.isfinite(column).all()
        }
        lost = np.zeros(piece.table.num_rows, bool)
        for gap in gaps.values():
            lost |= gap
        indices = None
        if lost.any():
            if missing == "error":
                raise _has_missing(piece, lost, [name for name, gap in gaps.items() if gap.any()])
            indices = np.flatnonzero(~lost)
            values = {name: column[indices] for name, column in values.items()}
        for name in gaps:
            _check_finite(piece, name, values[name], indices)
        for name in self.integers:
            _check_whole(piece, name, values[name], indices)
        return values, indices

    def to_batch(self, piece: Piece, missing: Missing, digits: Digits) -> Batch:
        """Arrays of a piece. Raises DataError like `values`, and for numbers beyond 32 bits."""
        values, indices = self.values(piece, missing)
        for name, column in values.items():
            exact = _exact(piece.table.column(name), indices)
            digits.check(name, column if exact is None else exact, f"{piece.where}: column {name!r}")
        num_read = piece.table.num_rows
        num_rows = num_read if indices is None else len(indices)
        arrays = {
            array: self._array(columns, values, num_rows, piece) for array, columns in self.arrays.items()
        }
        return Batch(arrays, num_read, indices, piece.may_grow)

    def _array(self, columns: str | tuple[str, ...], values: dict, num_rows: int, piece: Piece) -> np.ndarray:
        dtype = np.int32 if self.integers.issuperset(_as_tuple(columns)) else np.float32
        if isinstance(columns, str):
            return narrowed(values[columns], dtype, f"{piece.where}: column {columns!r}")
        matrix = np.empty((num_rows, len(columns)), dtype)
        for index, name in enumerate(columns):
            matrix[:, index] = narrowed(values[name], dtype, f"{piece.where}: column {name!r}")
        return matrix


def select(
    columns: Columns,
    tables: Sequence[tuple[str, pa.Schema]],
    types: Types = None,
    first_rows: pa.Table | None = None,
) -> Selection:
    """Select columns and check them against the schemas of all tables, given with file names.

    A column is integer if it is integer or boolean in every table, unless `types` overrides it.
    Errors quote text from `first_rows`. If no columns are named, those without numbers are an
    error of `Selection.check` only: a regression by formula reads other columns than these.

    Raises:
        ConfigurationError: invalid columns or types.
        DataError: a column that is missing from a table or, if columns are named, holds no
            numbers.
    """
    first = tables[0][1].names
    arrays = arrays_named(called("columns", columns, first), first)
    selection = Selection(arrays, frozenset())
    names = selection.names
    declared: Any = {} if types is None else called("types", types, first)
    check_types(declared, first)
    integers = set(names)
    for where, schema in tables:
        check_unique(where, names, schema.names)
        check_names(where, names, schema.names)
        kinds = {name: _value_type(schema.field(name).type) for name in names}
        problems = [problem for name, kind in kinds.items() if (problem := _problem(name, kind, first_rows))]
        if problems:
            selection = Selection(
                arrays,
                frozenset(),
                f"{where} has columns that cannot be used: {'; '.join(problems)}. Encode text as numbers, or leave these "
                "columns out of columns=.",
            )
            if columns is not None:
                selection.check()
            return selection
        integers -= {
            name
            for name, kind in kinds.items()
            if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind))
        }
    integers = {name for name in names if declared.get(name, int if name in integers else float) is int}
    return Selection(arrays, frozenset(integers))


def check_unique(where: Any, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise DataError if a file has several columns with one of these names."""
    counts = Counter(known)
    if twice := [name for name in dict.fromkeys(names) if counts[name] > 1]:
        listed = ", ".join(f"{counts[name]} columns named {name!r}" for name in twice[:5])
        more = f" (and {len(twice) - 5} more such names)" if len(twice) > 5 else ""
        raise DataError(f"{where} has {listed}{more}; give each its own name, or leave them out.")


def converted(
    pieces: Generator[Piece, None, None],
    selection: Selection,
    missing: Missing,
    skip: int = 0,
    may_stop: bool = False,
) -> Iterator[Batch]:
    """Convert pieces to batches, skipping rows; DataError if too few, unless `may_stop`."""
    passed, digits = 0, Digits()
    with closing(pieces):  # and their file, also if a row cannot be converted
        for piece in pieces:
            left = min(skip - passed, piece.table.num_rows)
            passed += left
            if left:
                piece = piece._replace(table=piece.table.slice(left), first_row=piece.first_row + left)
            if piece.table.num_rows:
                with half_line(piece.may_grow):
                    batch = selection.to_batch(piece, missing, digits)
                yield batch
    if passed < skip and not may_stop:
        raise too_short(skip, passed)


def gathered(pieces: Iterable[Piece], selection: Selection, missing: Missing) -> dict[str, np.ndarray]:
    """Read the selected columns into memory, at the files' precision; empty without rows."""
    parts = [selection.values(piece, missing)[0] for piece in pieces]
    return {name: np.concatenate([part[name] for part in parts]) for name in selection.names if parts}


def _as_tuple(columns: str | tuple[str, ...]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _problem(name: str, kind: pa.DataType, first_rows: pa.Table | None) -> str:
    """Describe why a column is not numeric; PyArrow's CSV reader calls undecodable text binary."""
    if first_rows is not None and pa.types.is_binary(kind):
        return f"{name!r} holds text that is not UTF-8. {NOT_UTF_8}"
    return type_problem(name, kind, first_rows)


def _numbers(column: pa.Array) -> np.ndarray:
    """Convert a column to NumPy, with NaN for missing values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _exact(column: pa.Array, indices: np.ndarray | None) -> np.ndarray | None:
    """Some of the kept values, if float64 may round them: decimals, and integers with gaps."""
    if not pa.types.is_decimal(column.type) and not (pa.types.is_integer(column.type) and column.null_count):
        return None
    rows = np.arange(len(column)) if indices is None else indices
    return column.take(pa.array(rows[:: -(-len(rows) // LOOKED_AT) or 1])).to_numpy(zero_copy_only=False)


def _has_missing(piece: Piece, lost: np.ndarray, names: Sequence[str]) -> DataError:
    listed = ", ".join(map(repr, names))
    return DataError(
        f"{piece.where} has missing values in {lost.sum():,} of the {len(lost):,} rows from data row "
        f"{piece.first_row + 1:,} on (the first is data row {piece.first_row + lost.argmax() + 1:,}), in {listed}. Fill "
        "them in, leave these columns out, or drop such rows with missing='drop' (--missing drop)."
    )


def _check_finite(piece: Piece, name: str, values: np.ndarray, indices: np.ndarray | None) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        raise DataError(
            f"{piece.where} has infinite values of {name!r} in {infinite.sum():,} rows (the first is data row "
            f"{_row(piece, infinite, indices):,}). Drop these rows or fill them in."
        )


def _check_whole(piece: Piece, name: str, values: np.ndarray, indices: np.ndarray | None) -> None:
    """Raise DataError for fractions; integers with gaps or from text are read as real numbers."""
    if values.dtype.kind != "f":
        return
    broken = values != np.floor(values)
    if broken.any():
        raise DataError(
            f"{piece.where}: column {name!r} holds integers, according to its first rows or types; data row "
            f"{_row(piece, broken, indices):,} has {values[broken.argmax()]:g}. If its values are real numbers, pass "
            f"types={{{name!r}: float}}."
        )


def _row(piece: Piece, mask: np.ndarray, indices: np.ndarray | None) -> int:
    """File row, counted from 1, of the first True in a mask of the kept rows."""
    first = mask.argmax()
    return piece.first_row + int(first if indices is None else indices[first]) + 1
