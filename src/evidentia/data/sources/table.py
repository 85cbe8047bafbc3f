"""Tables that are read as a whole, such as Excel's or compressed text, as a source."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from evidentia.data.batches import Batch
from evidentia.data.files import check_names
from evidentia.data.form import Form
from evidentia.data.formats import whole_table
from evidentia.data.source import Missing, check_missing, too_short
from evidentia.data.sources.columns import Columns, Piece, Selection, Types, check_unique, converted, select
from evidentia.data.sources.paths import Paths, expanded
from evidentia.errors import DataError, check_count


@dataclass(frozen=True, eq=False)
class TableSource:
    """The source of files that are in memory: their names and tables, and the selected columns."""

    paths: tuple[Path, ...]
    tables: tuple[pa.Table, ...] = field(repr=False)
    selection: Selection
    missing: Missing

    @property
    def num_rows(self) -> int:
        """Number of rows of all files."""
        return sum(table.num_rows for table in self.tables)

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows after the first `skip`. Raises like `Source`."""
        check_count("skip", skip, 0)
        self.selection.check()
        if skip > self.num_rows:
            raise too_short(skip, self.num_rows)
        return converted(self.pieces(), self.selection, self.missing, skip)

    def pieces(self) -> Generator[Piece, None, None]:
        """Yield all rows of the selected columns as Arrow tables."""
        return self.pieces_of(self.selection.names)

    def pieces_of(self, names: Sequence[str]) -> Generator[Piece, None, None]:
        """Yield these columns of all rows, of text as well as of numbers.

        Raises:
            DataError: a file without one of the columns.
        """
        for where, table in zip(map(str, self.paths), self.tables, strict=True):
            check_unique(where, names, table.column_names)
            check_names(where, names, table.column_names)
            row = 0
            for batch in table.select(list(names)).to_batches():
                yield Piece(batch, where, row)
                row += batch.num_rows

    def whole(self) -> pa.Table:
        """All columns of all files.

        Raises:
            DataError: the files have columns of different types.
        """
        try:
            return pa.concat_tables(list(self.tables), promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"the files have columns of different types: {error}") from error


def read_tables(
    paths: Paths,
    columns: Columns = None,
    *,
    form: Form,
    missing: Missing = "error",
    types: Types = None,
) -> TableSource:
    """Read files of any known form into memory, as a source of observations.

    Raises:
        DataError, ConfigurationError: as raised by `whole_table` and `read_parquet`.
    """
    check_missing(missing)
    found = tuple(expanded(paths))
    tables = tuple(whole_table(path, form) for path in found)
    schemas = [(str(path), table.schema) for path, table in zip(found, tables, strict=True)]
    return TableSource(found, tables, select(columns, schemas, types, first_rows=tables[0]), missing)
