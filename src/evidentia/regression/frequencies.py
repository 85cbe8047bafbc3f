"""Frequencies: a row with the weight k counts as k equal rows.

Rows are repeated before anything is learnt of them, so that evidences, means, knots, groups and
fingerprints are those of the table with repeated rows, for every family and prior.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from evidentia.errors import ConfigurationError, DataError, check_memory
from evidentia.regression.plain import plain

if TYPE_CHECKING:
    from pandas import DataFrame

MOST = 2**53  # whole numbers that a float64 holds


def check_weights(given: Any) -> None:
    """Raise ConfigurationError unless `weights` is None or the name of a column."""
    if given is not None and (not isinstance(given, str) or not given):
        raise ConfigurationError(
            "weights must be the name of a column of the table, whose whole numbers say how often each row "
            f"occurred, as in weights='n'; got {given!r}."
        )


def with_weights(columns: Sequence[str], weights: str | None) -> list[str]:
    """The columns of a formula, and that of the weights if there is one."""
    return list(columns) if weights is None or weights in columns else [*columns, weights]


def frequencies_of(name: str, column: Any, where: str = "", first_row: int = 0) -> Int[ndarray, " rows"]:
    """How often each row counts.

    Args:
        name: of the column.
        column: of the table, or of a piece of a file.
        where: the file, for messages.
        first_row: the number of the first row, for messages.

    Raises:
        DataError: missing, negative or fractional values, or text.
    """
    from pandas.api import types

    absent = column.isna().to_numpy()
    held = plain(name, column[~absent])
    if not types.is_numeric_dtype(held):
        raise DataError(f"{where}weights must be whole numbers; column {name!r} has {held.iloc[0]!r}.")
    values = np.full(len(column), np.nan)
    values[~absent] = held.to_numpy(np.float64)
    wrong = ~((values >= 0) & (np.floor(values) == values) & (values <= MOST))
    if wrong.any():
        first = int(wrong.argmax())
        seen = "no value" if absent[first] else f"{values[first]:g}"
        raise DataError(
            f"{where}weights are frequencies, whole numbers of at least 0; column {name!r} has others in "
            f"{wrong.sum():,} of {len(values):,} rows: the first, row {first_row + first}, has {seen}. A row with the "
            "weight 0 is left out."
        )
    return values.astype(np.int64)


def check_some(name: str, num_rows: int) -> None:
    """Raise DataError if the frequencies sum to 0."""
    if not num_rows:
        raise DataError(f"the weights in column {name!r} are 0 in all rows: nothing was observed.")


def repeated(table: DataFrame, frequencies: Int[ndarray, " rows"], name: str) -> DataFrame:
    """The table with each row as often as it counts, numbered from 0.

    Raises:
        ConfigurationError: the memory of the machine is too small.
    """
    total = int(frequencies.sum())
    check_memory(f"weights={name!r}", f"the {total:,} rows that it stands for", 8 * total * table.shape[1])
    return table.iloc[np.repeat(np.arange(len(table)), frequencies)].reset_index(drop=True)


def repeated_in_blocks(
    table: DataFrame, frequencies: Int[ndarray, " rows"], rows_at_once: int = 1 << 20
) -> Iterator[DataFrame]:
    """The same in blocks that fit memory; rows keep their numbers."""
    if (frequencies == 1).all():
        yield table
        return
    ends = np.cumsum(frequencies)
    for start in range(0, int(ends[-1]), rows_at_once):
        places = np.arange(start, min(start + rows_at_once, int(ends[-1])))
        yield table.iloc[np.searchsorted(ends, places, side="right")]
