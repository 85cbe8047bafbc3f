"""Rows to learn a formula on: evenly spread over a table that is read once, and its extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

LEAST = 65_536  # rows of a larger table that are kept; at most twice as many


class Sample:
    """Every k-th row of a table, k doubling as it grows, and rows with extreme numbers.

    A table of up to 131,072 rows is kept as a whole. Beyond, the rows with the smallest and the
    largest value of each numeric column are added.
    """

    def __init__(self) -> None:
        self._step = 1
        self._kept: list[DataFrame] = []
        self._extremes: DataFrame | None = None

    def add(self, table: DataFrame) -> None:
        """Take rows of the next block, whose index counts the rows from 0."""
        self._kept.append(table.iloc[-table.index[0] % self._step :: self._step])
        if sum(map(len, self._kept)) > 2 * LEAST:
            self._kept = [self._joined(self._kept).iloc[::2]]
            self._step *= 2
        found = [table] if self._extremes is None else [self._extremes, _extremes(table)]
        self._extremes = _extremes(self._joined(found))

    def rows(self) -> DataFrame:
        """The rows, numbered from 0; columns of categories may have become text."""
        rows = self._joined(self._kept)
        if self._step > 1 and self._extremes is not None:
            rows = self._joined([rows, self._extremes])
        return rows.reset_index(drop=True)

    @staticmethod
    def _joined(tables: list[DataFrame]) -> DataFrame:
        from pandas import concat

        return tables[0] if len(tables) == 1 else concat(tables)


def _extremes(table: DataFrame) -> DataFrame:
    """The rows with the smallest and the largest value of each column of numbers."""
    numbers = table.select_dtypes("number").reset_index(drop=True)
    return table.iloc[sorted({*numbers.idxmin(), *numbers.idxmax()})]
