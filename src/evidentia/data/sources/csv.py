"""CSV files, read in blocks of lines, optionally following a growing file."""

import codecs
import io
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from evidentia.data.batches import Batch
from evidentia.data.files import check_content, check_names, reading
from evidentia.data.read_ahead import read_ahead
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
from evidentia.data.sources.paths import Paths, expanded
from evidentia.errors import ConfigurationError, DataError, check_count
from evidentia.storage import is_remote, opened

BLOCK_SIZE = 1 << 22  # bytes of text read at a time, and the longest line
POLL_SECONDS = 0.2  # between polls of a followed file
UTF_8 = "utf-8"


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

        A column holds text if it does in the first four megabytes of the first file; an empty
        field or NA is a missing value in it.

        Raises:
            DataError: a file without one of the columns, or as raised by `pieces`.
        """
        path = self.paths[0]
        schema = _first_rows(path, self.encoding).schema
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
                lines = _Lines(path, _header(file), self.encoding)
                check_names(path, list(types), lines.parsed().column_names)
                for block in self._blocks(path, file):
                    for batch in lines.parsed(block, types, row).to_batches():
                        yield Piece(batch, str(path), row)
                        row += batch.num_rows

    def _blocks(self, path: Path, file: IO[bytes]) -> Iterator[bytes]:
        """Yield text in whole lines; an incomplete last line waits for its end."""
        rest = b""
        while not (self.follow and self.stop is not None and self.stop()):
            read = file.read(BLOCK_SIZE)
            rest += read
            if end := rest.rfind(b"\n") + 1:
                yield rest[:end]
                rest = rest[end:]
            elif len(rest) >= BLOCK_SIZE:
                raise DataError(f"{path} has a line of more than {BLOCK_SIZE:,} bytes; is it CSV text?")
            elif not read and self.follow:
                _check_same(path, file)
                time.sleep(POLL_SECONDS)
            elif not read:
                if rest:
                    yield rest
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
) -> CsvSource:
    """Read CSV files with a header line as a source of observations, which may exceed memory.

    Only the first lines of each file are read immediately. Rows come in file order (as listed, or
    sorted by name for a pattern) and line order. A thread reads ahead a few megabytes of text at a
    time. Blank lines are ignored.

    Column types are fixed at the start: a column is integer if the first four megabytes of the
    first file hold only integers (or true and false). A later real number in it is an error that
    names its row, unless `types={"price": float}` declares the column real.

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

    Returns:
        A source: `source.batches(skip=0)` reads. Vectors and matrices of integer columns are
        int32; all others are float32.

    Raises:
        DataError: a file that is missing or not CSV text, or a column that is missing or not
            numeric. While reading: invalid lines, text, missing values (how many, the first row),
            infinite values, values beyond 32 bits; a file that becomes unreadable, or a followed
            file that was replaced or truncated.
        ConfigurationError: an invalid argument, or more than one file to follow.

    Example:
        >>> source = ev.read_csv("days/*.csv", {"x": ["f0", "f1"], "y": "label"})  # doctest: +SKIP
        >>> next(source.batches()).arrays["y"].dtype  # doctest: +SKIP
        dtype('int32')
    """
    check_missing(missing)
    encoding = checked_encoding(encoding)
    found = expanded(paths)
    if follow and len(found) > 1:
        raise ConfigurationError(f"only one file can be followed; got {len(found)} paths.")
    if follow and is_remote(found[0]):
        raise ConfigurationError(f"only a local file can be followed; got {found[0]}.")
    if stop is not None and not (follow and callable(stop)):
        raise ConfigurationError(
            f"stop needs follow=True, and must be a function without arguments; got {stop!r}."
        )
    for path in found:
        check_content(path, ".csv")
    table = _first_rows(found[0], encoding, follow)
    selection = select(columns, [(str(found[0]), table.schema)], types, first_rows=table)
    booleans = [name for name in selection.names if pa.types.is_boolean(table.schema.field(name).type)]
    for path in found[1:]:
        with reading(path, ".csv"), opened(path) as file:
            check_names(path, selection.names, _Lines(path, _header(file), encoding).parsed().column_names)
    return CsvSource(tuple(found), selection, missing, frozenset(booleans), follow, stop, encoding)


def _first_rows(path: Path, encoding: str, follow: bool = False) -> pa.Table:
    """The first four megabytes of lines, with the types that they suggest."""
    with reading(path, ".csv"), opened(path) as file:
        header, block = _header(file), file.read(BLOCK_SIZE)
    if follow or len(block) == BLOCK_SIZE:  # the block may end with an incomplete line
        block = block[: block.rfind(b"\n") + 1]
    return _Lines(path, header, encoding).parsed(block)


def _header(file: IO[bytes]) -> bytes:
    """Read the first non-blank line."""
    line = file.readline(BLOCK_SIZE)
    while line.isspace():
        line = file.readline(BLOCK_SIZE)
    return line if line.endswith(b"\n") else line + b"\n"


def checked_encoding(encoding: str) -> str:
    """The encoding's usual name. Raises ConfigurationError unless lines can be cut in it."""
    try:
        name = codecs.lookup(encoding).name
        name = UTF_8 if name == "utf-8-sig" else name  # PyArrow skips the byte order mark
        cuts_lines = "0,\n".encode(name) == b"0,\n"
    except (LookupError, TypeError, ValueError):
        raise ConfigurationError(
            f"encoding must be the name of a text encoding, such as utf-8, latin-1 or cp1252; got {encoding!r}."
        ) from None
    if not cuts_lines:
        raise ConfigurationError(
            "encoding must be one in which ASCII characters are single bytes, such as utf-8, latin-1 or cp1252; got "
            f"{encoding!r}. Save the file as UTF-8 instead."
        )
    return name


@dataclass(frozen=True)
class _Lines:
    """A parser of the lines of a file, after its header line, in an encoding."""

    path: Path
    header: bytes
    encoding: str

    def parsed(
        self, block: bytes = b"", types: dict[str, pa.DataType] | None = None, row: int = 0
    ) -> pa.Table:
        """Parse a block after `row` rows: the columns in `types`, or all, with inferred types."""
        text = self._in_utf_8(block)
        # Use one thread, so that errors give the row.
        read = arrow_csv.ReadOptions(use_threads=False, block_size=len(text) + 1)
        convert = arrow_csv.ConvertOptions(
            include_columns=list(types or ()), column_types=types, strings_can_be_null=True
        )
        try:
            table = arrow_csv.read_csv(io.BytesIO(text), read_options=read, convert_options=convert)
            list(table.column_names)  # decodes them
            return table
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error
        except pa.ArrowException as error:
            raise self._unreadable(row, error) from error

    def _in_utf_8(self, block: bytes) -> bytes:
        """The header and a block; as in UTF-8, only columns in use need valid characters."""
        if self.encoding == UTF_8:
            return self.header + block
        if self.header.startswith(codecs.BOM_UTF8):
            raise DataError(
                f"{self.path} begins with the byte order mark of UTF-8, but encoding={self.encoding!r} was given. Leave "
                "encoding= (--encoding) out."
            )
        try:
            header = self.header.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error
        return (header + block.decode(self.encoding, errors="replace")).encode(UTF_8)

    def _undecodable(self, error: UnicodeDecodeError) -> DataError:
        byte = error.object[error.start]
        if self.encoding != UTF_8:
            return DataError(
                f"{self.path}: the header has the byte {byte:#x}, which is not text in the encoding {self.encoding!r}. "
                "Give another encoding= (--encoding)."
            )
        return DataError(
            f"{self.path} is not UTF-8 text: its header has the byte {byte:#x}, as in Latin-1 or Windows-1252. {NOT_UTF_8}, or save "
            "the file as UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8."
        )

    def _unreadable(self, row: int, error: Exception) -> DataError:
        message = str(error).splitlines()[0]
        counted = re.search(r"Row #(\d+): ", message)  # counted from 1, the header
        where = f"data row {row + int(counted[1]) - 1:,}" if counted else f"the rows after data row {row:,}"
        if value := re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", message):
            name = self.parsed().column_names[int(value[1])]
            remedy = "Encode text as numbers, or leave this column out of columns=."
            if "\ufffd" in value[2]:  # stands for bytes that are not text
                remedy = (
                    f"It is not text in the encoding {self.encoding!r}. {NOT_UTF_8}, for example. {remedy}"
                )
            return DataError(
                f"{self.path}: column {name!r} holds {value[2]!r} in {where}, which is not a number. {remedy}"
            )
        problem = re.sub(r"(CSV parse error: )?Row #\d+: ", "", message).rstrip(".")
        return DataError(f"{self.path} cannot be read as CSV text: {problem} (in {where}).")


def _check_same(path: Path, file: IO[bytes]) -> None:
    """Raise DataError if a followed file was replaced, removed or truncated."""
    opened = os.fstat(file.fileno())
    if opened.st_size < file.tell():
        raise DataError(
            f"{path} became shorter while it was followed; new rows cannot be distinguished from old ones."
        )
    try:
        same = os.path.samestat(path.stat(), opened)
    except FileNotFoundError:
        same = False
    if not same:
        raise DataError(f"{path} was removed or replaced while it was followed; all its lines were read.")
