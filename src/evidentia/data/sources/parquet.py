"""Parquet files and partitioned datasets, read by row group on a thread."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pyarrow.parquet as arrow_parquet

from evidentia.data.arrivals import read_ahead
from evidentia.data.batches import Batch
from evidentia.data.files import check_content, check_names, is_folder, reading
from evidentia.data.source import Missing, check_missing, too_short
from evidentia.data.sources.columns import (
    Columns,
    Piece,
    Selection,
    Types,
    check_unique,
    converted,
    select,
)
from evidentia.data.sources.paths import Paths, expanded
from evidentia.errors import DataError, check_count
from evidentia.system.storage import for_arrow

BUFFER_SIZE = 1 << 20  # bytes of a column read at a time; a row group may exceed memory


@dataclass(frozen=True)
class Part:
    """A file of a dataset: its number of rows, and columns from folder names (`year=2024/`)."""

    path: Path
    num_rows: int
    folders: tuple[tuple[str, pa.Scalar], ...] = ()


@dataclass(frozen=True)
class ParquetSource:
    """The source that `read_parquet` returns: files and the selected columns.

    A batch has about `values_at_once` values: a few megabytes for any number of columns.
    """

    parts: tuple[Part, ...]
    selection: Selection
    missing: Missing
    values_at_once: int = 1 << 20

    @property
    def num_rows(self) -> int:
        """Number of rows of all files, from their footers."""
        return sum(part.num_rows for part in self.parts)

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows after the first `skip`, without reading the row groups before them.

        Raises like `Source`.
        """
        check_count("skip", skip, 0)
        self.selection.check()
        if skip > self.num_rows:
            raise too_short(skip, self.num_rows)
        return read_ahead(converted(self.pieces(skip), self.selection, self.missing))

    def pieces(self, skip: int = 0) -> Generator[Piece, None, None]:
        """Yield the rows after the first `skip` as Arrow tables."""
        return self.pieces_of(self.selection.names, skip)

    def pieces_of(self, names: Sequence[str], skip: int = 0) -> Generator[Piece, None, None]:
        """Yield these columns of the rows after the first `skip`, of text as well as of numbers.

        Raises:
            DataError: a file without one of the columns, or as raised by `batches`.
        """
        for part in self.parts:
            if skip < part.num_rows:
                with reading(part.path, ".parquet"):
                    yield from self._pieces_of(part, names, skip)
            skip = max(0, skip - part.num_rows)

    def _pieces_of(self, part: Part, names: Sequence[str], skip: int) -> Iterator[Piece]:
        constant = {name: value for name, value in part.folders if name in names}
        stored = [name for name in names if name not in constant]
        with arrow_parquet.ParquetFile(for_arrow(part.path), buffer_size=BUFFER_SIZE) as file:
            if file.metadata.num_rows != part.num_rows:
                raise DataError(
                    f"{part.path} has {file.metadata.num_rows:,} rows but had {part.num_rows:,} when the source was "
                    "created. Create the source again."
                )
            known = [*file.schema_arrow.names, *(name for name, _ in part.folders)]
            check_unique(part.path, names, known)
            check_names(part.path, names, known)
            group, row = 0, 0
            while row + file.metadata.row_group(group).num_rows <= skip:
                row += file.metadata.row_group(group).num_rows
                group += 1
            groups = range(group, file.num_row_groups)
            size = max(1024, self.values_at_once // max(1, len(stored)))
            for table in file.iter_batches(size, row_groups=groups, columns=stored, use_threads=False):
                first = max(row, skip)
                if first < row + table.num_rows:
                    yield Piece(_with_constants(table.slice(first - row), constant), str(part.path), first)
                row += table.num_rows


def read_parquet(
    paths: Paths, columns: Columns = None, *, missing: Missing = "error", types: Types = None
) -> ParquetSource:
    """Read Parquet files as a source of observations, which may exceed memory.

    Only the files' footers are read immediately. Files come as listed, or sorted by name for a
    pattern or folder (as text: part-02 before part-10); rows keep their order in the file. A
    thread reads ahead a few batches of about a million values.

    Args:
        paths: a file, a pattern such as `"parts/*.parquet"`, a folder, their URLs (`s3://…`), or a
            list of these. All `.parquet` files in a folder and its subfolders are read, except
            names that begin with `_` or `.`; folders named like `year=2024` (Hive partitioning)
            add a column `year`.
        columns: the columns to read. A mapping from the names of the model's arrays to a column
            name, for a vector (rows,), or to a list of names, for a matrix (rows, columns). A
            sequence of names gives one vector each; all columns if not given. Or a function of the
            list of all names that returns one of these. A `Regression` needs none of this: it
            reads the columns that its formula names, of text as well.
        missing: what to do with rows that have a missing value (null or NaN) in one of these
            columns: "error", or "drop" to drop and count them (`Batch.num_dropped`).
        types: `int` or `float` by name, for columns whose stored type is wrong, such as labels
            stored as 0.0 and 1.0; or a function of the list of all names that returns them.

    Returns:
        A source: `source.batches(skip=0)` reads, `source.num_rows` counts rows. Vectors and
        matrices of columns that are integer or boolean in every file are int32; all others are
        float32.

    Raises:
        DataError: a file that is missing or not Parquet, or a column that is missing or not
            numeric (if no columns are named, when reading begins). While reading: missing values
            (how many, the first row), infinite values, values beyond 32 bits, or with more digits
            than float32 holds; a file that becomes unreadable.
        ConfigurationError: an invalid argument.

    Example:
        >>> columns = {"x": ["f0", "f1"], "y": "label"}
        >>> source = ev.read_parquet("parts/*.parquet", columns)  # doctest: +SKIP
        >>> next(source.batches()).arrays["x"].shape  # doctest: +SKIP
        (349525, 2)
    """
    check_missing(missing)
    parts, tables = [], []
    for path in expanded(paths):
        for file, folders in _dataset(path) if is_folder(path) else [(path, ())]:
            _check_name(file)
            check_content(file, ".parquet")
            with reading(file, ".parquet"):
                metadata = arrow_parquet.read_metadata(for_arrow(file))
                schema = metadata.schema.to_arrow_schema()
            folders = tuple((name, value) for name, value in folders if name not in schema.names)
            for name, value in folders:
                schema = schema.append(pa.field(name, value.type))
            parts.append(Part(file, metadata.num_rows, folders))
            tables.append((str(file), schema))
    return ParquetSource(tuple(parts), select(columns, tables, types), missing)


def _dataset(folder: Path) -> list[tuple[Path, tuple[tuple[str, pa.Scalar], ...]]]:
    """Find the files in a folder and below, each with the columns from its folder names."""
    with reading(folder, ".parquet"):
        files = [
            file
            for file in sorted(folder.rglob("*.parquet"))
            if file.is_file()
            and not any(name.startswith(("_", ".")) for name in file.relative_to(folder).parts)
        ]
    if not files:
        raise DataError(f"{folder} is a folder without .parquet files.")
    for file in files:
        _check_name(file)
    names = {_name(file): file for file in files}
    check_content(files[0], ".parquet")
    with reading(files[0], ".parquet"):
        dataset = arrow_dataset.dataset(
            list(names),
            format="parquet",
            partitioning="hive",
            partition_base_dir=_name(folder),
            filesystem=getattr(folder, "fs", None),
        )
    found = {}
    for fragment in dataset.get_fragments():
        keys = arrow_dataset.get_partition_keys(fragment.partition_expression)
        found[names[fragment.path]] = tuple(
            (name, pa.scalar(value, dataset.schema.field(name).type)) for name, value in keys.items()
        )
    return [(file, found[file]) for file in files]


def _check_name(path: Path) -> None:
    """Raise DataError for a name that PyArrow cannot open."""
    shown = str(path).encode(errors="surrogateescape").decode(errors="replace")
    if shown != str(path):
        raise DataError(
            f"{shown}: a Parquet file needs a name that is UTF-8 text. Rename the file or its folder."
        )


def _name(path: Path) -> str:
    """The name of a file or folder in its file system."""
    return getattr(path, "path", None) or str(path)


def _with_constants(table: pa.RecordBatch, constants: dict[str, pa.Scalar]) -> pa.RecordBatch:
    for name, value in constants.items():
        table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table
