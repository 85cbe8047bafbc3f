"""CSV files, read in blocks of lines, optionally following a growing file."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from evidentia.data.arrivals import read_ahead
from evidentia.data.batches import Batch
from evidentia.data.files import check_content, check_names, is_number, reading
from evidentia.data.form import UTF_8, Form
from evidentia.data.formats import is_whole
from evidentia.data.records import BLOCK_SIZE, Readable, Records, half_line
from evidentia.data.source import Missing, check_missing
from evidentia.data.sources.columns import (
    NOT_UTF_8,
    Columns,
    Piece,
    Selection,
    Types,
    check_unique,
    converted,
    select,
)
from evidentia.data.sources.followed import Followed
from evidentia.data.sources.lines import Lines
from evidentia.data.sources.paths import Paths, expanded
from evidentia.data.sources.table import TableSource, read_tables
from evidentia.errors import ConfigurationError, DataError, HalfLineError, check_count, check_flag, names_in
from evidentia.system.storage import is_remote, opened

POLL_SECONDS = 0.2  # between polls of a followed file


@dataclass(frozen=True)
class CsvSource:
    """The source that `read_csv` returns: files and the selected columns."""

    paths: tuple[Path, ...]
    selection: Selection
    missing: Missing
    booleans: frozenset[str] = frozenset()
    follow: bool = False
    stop: Callable[[], bool] | None = None
    encoding: str = UTF_8
    block_size: int = BLOCK_SIZE

    @property
    def num_rows(self) -> None:
        """Not known before the end."""
        return None

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Parse all rows and yield those after the first `skip`. Raises like `Source`."""
        check_count("skip", skip, 0)
        self.selection.check()
        rows = converted(self.pieces(), self.selection, self.missing, skip, may_stop=self.follow)
        return rows if self.follow else read_ahead(rows)  # a thread could wait for new lines forever

    def pieces(self) -> Generator[Piece, None, None]:
        """Yield all rows, block by block.

        Raises `DataError` for an invalid line, a file that lost a column, and a replaced file.
        """
        # All numbers are read as real, whatever a block suggests; integers are checked afterwards.
        types = {name: pa.bool_() if name in self.booleans else pa.float64() for name in self.selection.names}
        return self._pieces_of(types)

    def pieces_of(self, names: Sequence[str]) -> Generator[Piece, None, None]:
        """Yield these columns of all rows, of text as well as of numbers.

        A column holds text if it does in the first block of the first file; an empty field or NA
        is a missing value in it.

        Raises:
            DataError: a file without one of the columns, or as raised by `pieces`.
        """
        path = self.paths[0]
        schema = _first_rows(path, self.encoding, self.block_size).schema
        check_unique(path, names, schema.names)
        check_names(path, names, schema.names)
        found = {name: schema.field(name).type for name in names}
        if undecodable := [name for name, kind in found.items() if pa.types.is_binary(kind)]:
            raise DataError(f"{path} is not UTF-8 text in column {undecodable[0]!r}. {NOT_UTF_8}.")
        numbers = {
            name: kind for name, kind in found.items() if pa.types.is_integer(kind) or pa.types.is_null(kind)
        }
        return self._pieces_of({**found, **dict.fromkeys(numbers, pa.float64())})

    def _pieces_of(self, types: dict[str, pa.DataType]) -> Generator[Piece, None, None]:
        for path in self.paths:
            row = 0
            with reading(path, ".csv"), opened(path) as file:
                text = Followed(path, file) if self.follow else file
                records, header = _header(path, text, self.block_size, self.follow)
                lines = Lines(path, header, self.encoding)
                check_names(path, list(types), lines.parsed().column_names)
                for block, has_end in self._blocks(text, records):
                    may_grow = not has_end and path == self.paths[-1]
                    with half_line(may_grow):
                        table = lines.parsed(block, types, row)
                        lines.check_digits(block, table)
                    for batch in table.to_batches():
                        yield Piece(batch, str(path), row, may_grow)
                        row += batch.num_rows

    def _blocks(self, file: Readable, records: Records) -> Iterator[tuple[bytes, bool]]:
        """Yield text in whole records, and whether it ends with a line end.

        The last line of a file may have none; of a followed file it waits for its end.
        """
        while not (self.follow and self.stop is not None and self.stop()):
            read = file.read(self.block_size)
            if block := records.take(read):
                yield block, True
            elif not read and self.follow:
                time.sleep(POLL_SECONDS)
            elif not read:
                if last := records.last():
                    yield last, False
                return


def read_csv(
    paths: Paths,
    columns: Columns = None,
    *,
    missing: Missing = "error",
    types: Types = None,
    follow: bool = False,
    stop: Callable[[], bool] | None = None,
    encoding: str = UTF_8,
    sep: str | None = None,
    decimal: str = ".",
    na: Sequence[str] = (),
    comment: str | None = None,
    block_size: int = BLOCK_SIZE,
) -> CsvSource | TableSource:
    """Read CSV files with a header line as a source of observations, which may exceed memory.

    Only the first lines of each file are read immediately. Rows come in file order (as listed, or
    sorted by name for a pattern) and line order. A thread reads ahead a few megabytes of text at a
    time. Blank lines are ignored. Values in quotes may hold commas and line ends.

    Column types are fixed at the start: a column is integer if the first block of the first file
    holds only integers (or true and false). A later real number in it is an error that names its
    row, unless `types={"price": float}` declares the column real.

    Args:
        paths: a file, a pattern such as `"days/*.csv"`, a URL, or a list of these.
        columns: the columns to read, as for `read_parquet`.
        missing: what to do with rows that have a missing value (an empty field, NA, NaN, null) in
            one of these columns: "error", or "drop" to drop and count them (`Batch.num_dropped`).
        types: `int` or `float` by name, for columns whose first rows do not show their type.
        follow: at the end of the file, wait for new lines, like `tail -f`. A line counts once it
            is complete.
        stop: with `follow`, a function called before every read; reading ends when it returns
            True. For example, the `is_set` method of a `threading.Event`.
        encoding: the encoding of the text, such as "latin-1" or "cp1252" for files of older
            spreadsheet programs. ASCII characters must be single bytes in it, unlike in UTF-16.
        sep: what separates values, such as ";" or "tab"; by default a comma, and a tab in .tsv.
        decimal: "," for numbers with decimal commas.
        na: words that also stand for a missing value, such as ["-", "?"].
        comment: the beginning of lines that are left out, such as "#".
        block_size: the bytes of text that are read at a time, and of the longest line.

    Text of another form than the default, compressed text (.csv.gz, .bz2, .zst, .xz), Excel
    (.xlsx), Feather, JSON (lines), Stata (.dta) and SQLite are read into memory.

    Returns:
        A source: `source.batches(skip=0)` reads. Vectors and matrices of integer columns are
        int32; all others are float32.

    Raises:
        DataError: a file that is missing or not CSV text, or a column that is missing or not
            numeric. While reading: invalid lines, unbalanced quotes, text, missing values (how
            many, the first row), infinite values, values beyond 32 bits, or with more digits than
            float32 holds; a file that becomes unreadable, or a followed file that was replaced,
            truncated or rewritten.
        ConfigurationError: an invalid argument, or more than one file to follow.

    Example:
        >>> source = ev.read_csv("days/*.csv", {"x": ["f0", "f1"], "y": "label"})  # doctest: +SKIP
        >>> next(source.batches()).arrays["y"].dtype  # doctest: +SKIP
        dtype('int32')
    """
    check_missing(missing)
    check_flag("follow", follow)
    found = expanded(paths)
    if follow and len(found) > 1:
        raise ConfigurationError(f"only one file can be followed; got {len(found)} paths.")
    if follow and is_remote(found[0]):
        raise ConfigurationError(f"only a local file can be followed; got {found[0]}.")
    if stop is not None and not (follow and callable(stop)):
        raise ConfigurationError(
            f"stop needs follow=True, and must be a function without arguments; got {stop!r}."
        )
    check_count("block_size", block_size, 1)
    form = Form(sep, decimal, tuple(names_in("na", na)), comment, encoding=encoding)
    if any(is_whole(path, form) for path in found):
        if follow:
            raise ConfigurationError(
                "only a plain CSV file can be followed: with commas, and not compressed."
            )
        return read_tables(found, columns, form=form, missing=missing, types=types)
    for path in found:
        check_content(path, ".csv")
    table = _first_rows(found[0], form.codec, block_size, follow)
    selection = select(columns, [(str(found[0]), table.schema)], types, first_rows=table)
    booleans = [name for name in selection.names if pa.types.is_boolean(table.schema.field(name).type)]
    for path in found[1:]:
        check_names(path, selection.names, _names(path, form.codec, block_size))
    return CsvSource(
        tuple(found), selection, missing, frozenset(booleans), follow, stop, form.codec, block_size
    )


def _first_rows(path: Path, encoding: str, block_size: int, follow: bool = False) -> pa.Table:
    """The first block of lines, with the types that they suggest."""
    last = b""
    with reading(path, ".csv"), opened(path) as file:
        records, header = _header(path, file, block_size, follow)
        block = records.take(read := file.read(block_size))
        while read and not block:
            block = records.take(read := file.read(block_size))
        if len(read) < block_size and not follow:
            with suppress(HalfLineError):  # which the reading of the rows meets again
                last = records.last()
    return _with_last_line(Lines(path, header, encoding), block, last)


def _with_last_line(lines: Lines, block: bytes, last: bytes) -> pa.Table:
    """The rows with the last line, unless it is no row, or only half a number."""
    table = lines.parsed(block)
    if not last:
        return table
    with suppress(DataError):
        longer = lines.parsed(block + last)
        types = zip(table.schema.types, longer.schema.types, strict=True)
        if not any(is_number(before) and not is_number(after) for before, after in types):
            return longer
    return table


def _names(path: Path, encoding: str, block_size: int) -> list[str]:
    """The names of a file's columns."""
    with reading(path, ".csv"), opened(path) as file:
        return Lines(path, _header(path, file, block_size)[1], encoding).parsed().column_names


def _header(path: Path, file: Readable, block_size: int, follow: bool = False) -> tuple[Records, bytes]:
    """Read the header line; return it, after what cuts the records behind it."""
    records = Records(path, block_size)
    header = records.header(file)
    if header.endswith((b"\n", b"\r")):
        return records, header
    if follow:
        raise DataError(
            f"the header line of {path} has no line end yet; follow the file once the whole header is written."
        )
    return records, header + b"\n"
