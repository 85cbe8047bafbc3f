"""Tables larger than memory: complete rows of files in blocks, after one look through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from evidentia.cluster.engine import Engine, Made
from evidentia.cluster.finding import engine_of, is_far
from evidentia.cluster.over_executor import OverExecutor
from evidentia.data.batches import Batch
from evidentia.data.source import check_missing
from evidentia.data.sources import CsvSource, ParquetSource
from evidentia.data.sources.table import TableSource
from evidentia.errors import ConfigurationError, DataError, check_memory, memory, warn
from evidentia.regression.frequencies import check_some, repeated_in_blocks, with_weights
from evidentia.regression.look import Look, look_at
from evidentia.regression.partitions import Partition, Partitions, parts_of
from evidentia.regression.pieces import PieceSource, counted, with_types
from evidentia.regression.table import as_table

if TYPE_CHECKING:
    from pandas import DataFrame


SHARE = 1 / 4  # of the memory, for the columns; their design and a copy on the device take as much


@dataclass(frozen=True)
class Streamed:
    """The columns of files that a formula uses, without rows that have missing values in them.

    Attributes:
        source: the files, or partitions on a cluster.
        columns: the names of the columns.
        types: of the columns with categories, and of whole numbers in CSV files.
        num_rows: the number of complete rows.
        sample: up to 131,072 of them, evenly spread, and beyond these the rows with the smallest
            and largest values. They show the types of expressions and the categories of numbers.
        weights: the column that says how often each row counts; `num_rows` and `blocks` have rows
            as often.
    """

    source: PieceSource
    columns: tuple[str, ...]
    types: dict[str, Any]
    num_rows: int
    sample: DataFrame = field(repr=False)
    weights: str | None = None

    def blocks(self) -> Iterator[DataFrame]:
        """The rows, from the files.

        Raises:
            DataError: the files have changed since they were looked through, or as raised by them.
        """
        count = 0
        for block in blocks_from(self.source, self.columns, self.types, self.weights):
            count += len(block)
            yield block
        if count != self.num_rows:
            raise DataError(
                f"the files have changed while they were read: {count:,} complete rows instead of {self.num_rows:,}."
            )

    def in_memory(self) -> DataFrame:
        """All rows: numbers as the files have them, categories as integer codes.

        Raises:
            ConfigurationError: the memory of the machine is too small.
        """
        return self._gathered(
            list(self.columns),
            "the columns of the formula, which effects by group, g='per-term' and select_terms hold in memory,",
        )

    def held(self) -> DataFrame | Streamed:
        """All rows of files in memory, if it is large enough; else these, where they are."""
        is_far = isinstance(self.source, Partitions)
        size = 8 * self.num_rows * len(self.columns)
        return self if is_far or size > SHARE * memory() else self.in_memory()

    def spread(self, make: Callable[[DataFrame], dict[str, ndarray]], size: int) -> Engine:
        """The arrays that a model takes of the rows, made where they are, `size` rows at once."""
        made = partial(
            Arrays, columns=self.columns, types=self.types, weights=self.weights, make=make, size=size
        )
        if isinstance(self.source, Partitions):
            return Made(self.source.engine, partial(_arrays_of_partition, made))
        return OverExecutor(ThreadPoolExecutor(1), [made(self.source)])

    def mapped(self, function: Callable[[DataFrame], Any], size: int) -> Iterator[Any]:
        """What a function makes of the rows, in blocks of at most `size`.

        Where the rows are on a cluster, it is called there.
        """
        if isinstance(self.source, Partitions):
            own = self.columns, self.types, self.weights
            found = self.source.looks(partial(_of_blocks, own=own, function=function, size=size))
            return (one for each in found for one in each)
        return (function(part) for block in self.blocks() for part in parts_of(block, size))

    def all_rows_of(self, names: list[str]) -> DataFrame:
        """Some columns of all rows, of which a formula takes means or knots.

        Raises:
            ConfigurationError: the memory of the machine is too small.
        """
        if len(self.sample) == self.num_rows:
            return self.sample
        return self._gathered(names, f"{', '.join(names)}, of which the formula takes means or knots,")

    def _gathered(self, names: list[str], what: str) -> DataFrame:
        from pandas import DataFrame, concat

        check_memory(f"a table of {self.num_rows:,} rows", what, 8 * self.num_rows * len(names))
        return concat([DataFrame(block[names]) for block in self.blocks()], ignore_index=True)


@dataclass(frozen=True, eq=False)
class Arrays:
    """The arrays that a model takes of the rows of some pieces (`data.source.Source`)."""

    source: PieceSource
    columns: tuple[str, ...]
    types: dict[str, Any]
    weights: str | None
    make: Callable[[DataFrame], dict[str, ndarray]]
    size: int

    @property
    def num_rows(self) -> None:
        """Not known before reading."""
        return None

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows after the first `skip`. Raises as `blocks_from`."""
        for block in blocks_from(self.source, self.columns, self.types, self.weights):
            for part in parts_of(block, self.size):
                rows = part.iloc[min(skip, len(part)) :]
                skip -= len(part) - len(rows)
                if len(rows):
                    yield Batch(self.make(rows), len(rows))


def _arrays_of_partition(made: Callable[[PieceSource], Arrays], rows: Any) -> Arrays:
    return made(Partition(rows))


def look_through(
    source: ParquetSource | CsvSource, columns: Sequence[str], missing: str, weights: str | None = None
) -> Streamed:
    """Find the categories of a source's columns, its missing values, and rows to learn on.

    Raises:
        DataError: columns that cannot be used; missing values, with the first row, if `missing` is
            "error"; no rows; weights that are no frequencies.
        ConfigurationError: an invalid `missing`, or a followed file.
    """
    check_missing(missing)
    if isinstance(source, CsvSource) and source.follow:
        raise ConfigurationError("a regression by formula needs a file that ends; leave follow= out.")
    return streamed_of(source, tuple(columns), look_at(source, columns, missing, weights), weights)


def streamed_of(source: PieceSource, columns: tuple[str, ...], found: Look, weights: str | None) -> Streamed:
    """The columns of a source, of what a look at all its rows has found.

    Raises:
        DataError: no rows.
    """
    if found.num_absent:
        listed = ", ".join(f"{name} {count:,}" for name, count in found.gaps.items())
        warn(
            [
                f"{found.num_absent:,} of {found.num_read:,} rows have missing values ({listed}) and were left out."
            ]
        )
    if weights is not None and found.num_absent < found.num_read:
        check_some(weights, found.num_rows)
    if not found.num_rows:
        raise DataError("the table has no rows without missing values in the columns used.")
    types = {**found.levels.types(), **dict.fromkeys(sorted(found.whole), "int64")}
    sample = with_types(found.sample.rows(), types)
    return Streamed(source, columns, types, found.num_rows, sample, weights)


def blocks_from(
    source: PieceSource, columns: Sequence[str], types: dict[str, Any], weights: str | None
) -> Iterator[DataFrame]:
    """The complete rows of a source, each as often as it counts.

    Raises:
        DataError: categories that `types` lacks, or as raised by the source.
    """
    first = 0
    for piece in source.pieces_of(with_weights(columns, weights)):
        rows, counts = counted(piece, first, columns, weights)
        table = with_types(rows, types)
        if table.isna().to_numpy().any():
            raise DataError(f"{piece.where} has changed while it was read: it has new categories.")
        first += len(table)
        yield from repeated_in_blocks(table, counts)


def rows_of(
    data: Any, columns: Sequence[str], missing: str, weights: str | None = None
) -> DataFrame | Streamed:
    """The columns of files or of a table in memory, as `look_through` and `as_table` give them."""
    if isinstance(data, Streamed):  # looked through, for these columns and others
        return data
    if is_far(data):
        engine = engine_of(data, None)
        assert engine is not None
        return spread(engine, columns, missing, weights)
    if isinstance(data, TableSource):
        data = data.whole()
    if isinstance(data, ParquetSource | CsvSource):
        return look_through(data, columns, missing, weights)
    return as_table(data, list(columns), missing, weights)


def spread(engine: Engine, columns: Sequence[str], missing: str, weights: str | None) -> Streamed:
    """The columns of a Dask data frame or Ray dataset, whose rows stay where they are.

    Raises:
        DataError, ConfigurationError: as `look_through`.
    """
    check_missing(missing)
    source, found = Partitions(engine), Look(set(columns))
    look = partial(look_at, columns=tuple(columns), missing=missing, weights=weights)
    for one in source.looks(look):
        found.add(one)
    return streamed_of(source, tuple(columns), found, weights)


def _of_blocks(
    source: PieceSource, own: tuple[Any, Any, Any], function: Callable[[DataFrame], Any], size: int
) -> list[Any]:
    return [function(part) for block in blocks_from(source, *own) for part in parts_of(block, size)]
