"""Tables in partitions on a cluster: what a formula takes of them, by map and reduce.

A worker looks at its rows, and returns what does not grow with them: categories, a sample, sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evidentia.cluster.engine import Engine, results
from evidentia.data.files import check_names
from evidentia.data.sources.columns import Piece
from evidentia.errors import DataError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of one partition, as a source of pieces."""

    rows: Any

    def pieces_of(self, names: Sequence[str]) -> Iterator[Piece]:
        """Yield these columns as one piece.

        Raises:
            DataError: the partition is no table, or lacks a column.
        """
        yield Piece(_record_batch(self.rows, names), "the partition", 0)


@dataclass(frozen=True, eq=False)
class Partitions:
    """All partitions, whose rows come here only where no function can be sent to them."""

    engine: Engine

    def pieces_of(self, names: Sequence[str]) -> Iterator[Piece]:
        """Yield these columns, a partition at a time."""
        first = 0
        for batch in results(self.engine, _record_batch, tuple(names)):
            yield Piece(batch, "the data", first)
            first += batch.num_rows

    def looks(self, look: Callable[[Partition], Any]) -> Iterator[Any]:
        """What a function finds of each partition, at its worker."""
        return results(self.engine, _applied, look)


def parts_of(table: DataFrame, size: int) -> Iterator[DataFrame]:
    """The rows of a table in parts of at most `size`."""
    for start in range(0, len(table), size):
        yield table.iloc[start : start + size]


def _applied(rows: Any, function: Callable[[Partition], Any]) -> Any:
    return function(Partition(rows))


def _record_batch(rows: Any, names: Sequence[str]) -> pa.RecordBatch:
    """Some columns of a partition: of a data frame, a table of Arrow, or arrays by name."""
    if not hasattr(rows, "columns") and not isinstance(rows, Mapping):
        raise DataError(
            f"data of a formula must be a table: a Dask data frame, or a Ray dataset; a partition is of type "
            f"{type(rows).__name__}."
        )
    known = list(map(str, rows.keys() if isinstance(rows, Mapping) else rows.columns))
    check_names("the table", names, known)
    if isinstance(rows, Mapping):
        return pa.RecordBatch.from_pydict({name: pa.array(rows[name]) for name in names})
    return pa.RecordBatch.from_pandas(rows[list(names)], preserve_index=False)
