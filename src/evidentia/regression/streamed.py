"""Tables larger than memory: complete rows of files in blocks, after one look through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evidentia.data.source import check_missing
from evidentia.data.sources import CsvSource, ParquetSource
from evidentia.errors import ConfigurationError, DataError, check_memory, warn
from evidentia.regression.pieces import Levels, absent_from, completed, whole_numbers, with_types
from evidentia.regression.sample import Sample
from evidentia.regression.table import as_table, check_column

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Streamed:
    """The columns of files that a formula uses, without rows that have missing values in them.

    Attributes:
        source: the files.
        columns: the names of the columns.
        types: of the columns with categories, and of whole numbers in CSV files.
        num_rows: the number of complete rows.
        sample: up to 131,072 of them, evenly spread, and beyond these the rows with the smallest
            and largest values, so that splines span all rows.
    """

    source: ParquetSource | CsvSource
    columns: tuple[str, ...]
    types: dict[str, Any]
    num_rows: int
    sample: DataFrame = field(repr=False)

    def blocks(self) -> Iterator[DataFrame]:
        """The rows, from the files.

        Raises:
            DataError: the files have changed since they were looked through, or as raised by them.
        """
        count = 0
        for piece in self.source.pieces_of(self.columns):
            table = with_types(completed(piece, count), self.types)
            if table.isna().to_numpy().any():
                raise DataError(f"{piece.where} has changed while it was read: it has new categories.")
            count += len(table)
            yield table
        if count != self.num_rows:
            raise DataError(
                f"the files have changed while they were read: {count:,} complete rows instead of {self.num_rows:,}."
            )

    def in_memory(self) -> DataFrame:
        """All rows: numbers as the files have them, categories as integer codes.

        Raises:
            ConfigurationError: the memory of the machine is too small.
        """
        from pandas import concat

        check_memory(
            f"a table of {self.num_rows:,} rows",
            "the columns of the formula, which all families and priors but JZS and unit-information hold in memory,",
            8 * self.num_rows * len(self.columns),
        )
        return concat(self.blocks(), ignore_index=True)


def look_through(source: ParquetSource | CsvSource, columns: Sequence[str], missing: str) -> Streamed:
    """Find the categories of a source's columns, its missing values, and rows to learn on.

    Raises:
        DataError: columns that cannot be used; missing values, with the first row, if `missing` is
            "error"; no rows.
        ConfigurationError: an invalid `missing`, or a followed file.
    """
    check_missing(missing)
    if isinstance(source, CsvSource) and source.follow:
        raise ConfigurationError("a regression by formula needs a file that ends; leave follow= out.")
    columns, num_read, num_rows = tuple(columns), 0, 0
    whole = set(columns)
    gaps, levels, sample = Counter[str](), Levels(), Sample()
    for piece in source.pieces_of(columns):
        absent = absent_from(piece)
        if absent and missing == "error":
            raise DataError(
                f"{piece.where} has missing values in {', '.join(absent)}; the first is in data row "
                f"{piece.first_row + min(rows.argmax() for rows in absent.values()) + 1:,}. Drop or impute such rows, or "
                "pass missing='drop'."
            )
        gaps.update({name: int(rows.sum()) for name, rows in absent.items()})
        num_read += piece.table.num_rows
        table = completed(piece, num_rows)
        if len(table):
            for name in columns:
                check_column(name, table[name])
            levels.add(table, piece)
            whole &= whole_numbers(table) if isinstance(source, CsvSource) else set()
            sample.add(table)
            num_rows += len(table)
    if num_rows < num_read:
        listed = ", ".join(f"{name} {count:,}" for name, count in gaps.items())
        warn(
            [
                f"{num_read - num_rows:,} of {num_read:,} rows have missing values ({listed}) and were left out."
            ]
        )
    if not num_rows:
        raise DataError("the table has no rows without missing values in the columns used.")
    types = {**levels.types(), **dict.fromkeys(sorted(whole), "int64")}
    return Streamed(source, columns, types, num_rows, with_types(sample.rows(), types))


def rows_of(data: Any, columns: Sequence[str], missing: str) -> DataFrame | Streamed:
    """The columns of files or of a table in memory, as `look_through` and `as_table` give them."""
    if isinstance(data, ParquetSource | CsvSource):
        return look_through(data, columns, missing)
    return as_table(data, list(columns), missing)
