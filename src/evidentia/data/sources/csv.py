"""CSV files, read a block of lines at a time; the last lines of a file that grows, as they are
written.
"""

import io
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv

from evidentia.data.batches import Batch
from evidentia.data.files import check_content, check_names, unreadable
from evidentia.data.read_ahead import read_ahead
from evidentia.data.source import Missing, check_missing
from evidentia.data.sources.columns import Columns, Piece, Selection, Types, converted, select
from evidentia.data.sources.paths import Paths, expanded
from evidentia.errors import ConfigurationError, DataError, check_count

BLOCK_SIZE = 1 << 22  # bytes of text that are read at a time, and the longest line
POLL_SECONDS = 0.2  # between two looks at a file that is followed


@dataclass(frozen=True)
class CsvSource:
    """What `read_csv` returns: files, and what of them is read."""

    paths: tuple[Path, ...]
    selection: Selection
    missing: Missing
    booleans: frozenset[str] = frozenset()
    follow: bool = False
    stop: Callable[[], bool] | None = None

    @property
    def num_rows(self) -> None:
        """Not known before the end."""
        return None

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """The rows after the first `skip`, which are read and left out. Raises as `Source` does."""
        check_count("skip", skip, 0)
        if self.follow:  # not on a thread, which would wait for lines with nobody there to stop it
            return converted(self.pieces(), self.selection, self.missing, skip, may_stop=True)
        return read_ahead(converted(self.pieces(), self.selection, self.missing, skip))

    def pieces(self) -> Iterator[Piece]:
        """All rows as they are read, block by block.

        Raises `DataError` for a line that is no row, and for a file that has lost a column or was
        replaced.
        """
        # Numbers are read as real whatever a block alone would suggest; integers that are none are
        # found afterwards.
        types = {name: pa.bool_() if name in self.booleans else pa.float64() for name in self.selection.names}
        for path in self.paths:
            row = 0
            with _opened(path) as file:
                header = _header(file)
                check_names(path, list(types), _parsed(path, header).column_names)
                for block in self._blocks(path, file):
                    for batch in _parsed(path, header, block, types, row).to_batches():
                        yield Piece(batch, str(path), row)
                        row += batch.num_rows

    def _blocks(self, path: Path, file: io.BufferedReader) -> Iterator[bytes]:
        """Text up to the end of a line; a line that is being written is not one yet."""
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
) -> CsvSource:
    """CSV files with a header line as a source of observations, which may be larger than memory.

    Only the first lines of each file are read now. Rows come in the order of the files (a list as
    it is given, the matches of a pattern in the order of their names) and of their lines, a few
    megabytes of text at a time, which a thread reads ahead. Blank lines are no rows.

    What is an integer must not change on the way, so it is decided at the beginning: a column is
    integer if it holds nothing but integers (or true and false) in the first four megabytes of the
    first file. A real number in it further down is an error that says where; with `types={"price":
    float}` it is none.

    Args:
        paths: a file, a pattern such as `"days/*.csv"`, or a list of these.
        columns: the columns to read, as for `read_parquet`.
        missing: what to do with rows that have a missing value (an empty field, NA, NaN, null) in
            one of these columns: "error", or "drop" to leave them out and count them
            (`Batch.num_dropped`).
        types: `int` or `float` by name, for columns of which the first rows do not show what they
            are.
        follow: at the end of the file wait for lines that are added, as `tail -f` does. A line
            counts once it is complete.
        stop: with `follow`, called before every look at the file; reading ends when it returns
            True. For example the `is_set` of a `threading.Event`.

    Returns:
        A source: `source.batches(skip=0)` reads. Vectors and matrices of columns of integers are
        int32; all others are float32.

    Raises:
        DataError: no such file or not CSV text, a column that a file does not have or that holds
            no numbers. While reading: a line that is no row, text, missing values (how many, the
            first row), infinite ones, values beyond 32 bits; a file that can no longer be read, or
            is followed and was replaced or cut.
        ConfigurationError: an argument that is none; to follow more than one file.

    Example:
        >>> source = ev.read_csv("days/*.csv", {"x": ["f0", "f1"], "y": "label"})  # doctest: +SKIP
        >>> next(source.batches()).arrays["y"].dtype  # doctest: +SKIP
        dtype('int32')
    """
    check_missing(missing)
    found = expanded(paths)
    if follow and len(found) > 1:
        raise ConfigurationError(f"only one file can be followed; got {len(found)} paths.")
    if stop is not None and not (follow and callable(stop)):
        raise ConfigurationError(f"stop is for follow=True, a function without arguments; got {stop!r}.")
    for path in found:
        check_content(path, ".csv")
    with _opened(found[0]) as file:
        header, block = _header(file), file.read(BLOCK_SIZE)
    if follow or len(block) == BLOCK_SIZE:  # which may end in half a line
        block = block[: block.rfind(b"\n") + 1]
    table = _parsed(found[0], header, block)
    selection = select(columns, [(str(found[0]), table.schema)], types, first_rows=table)
    booleans = [name for name in selection.names if pa.types.is_boolean(table.schema.field(name).type)]
    for path in found[1:]:
        with _opened(path) as file:
            check_names(path, selection.names, _parsed(path, _header(file)).column_names)
    return CsvSource(tuple(found), selection, missing, frozenset(booleans), follow, stop)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """The file for reading; DataError if it cannot be opened, or read further on, as from a disk
    that was removed.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise unreadable(path, ".csv", error) from error


def _header(file: io.BufferedReader) -> bytes:
    """The first line that is not blank."""
    line = file.readline(BLOCK_SIZE)
    while line.isspace():
        line = file.readline(BLOCK_SIZE)
    return line if line.endswith(b"\n") else line + b"\n"


def _parsed(
    path: Path, header: bytes, block: bytes = b"", types: dict[str, pa.DataType] | None = None, row: int = 0
) -> pa.Table:
    """A block of lines, `row` of them before it, as a table: the columns in `types`, or all in the
    types that they seem.
    """
    text = header + block
    # One thread parses: it knows in which row an error is.
    read = arrow_csv.ReadOptions(use_threads=False, block_size=len(text) + 1)
    convert = arrow_csv.ConvertOptions(include_columns=list(types or ()), column_types=types)
    try:
        return arrow_csv.read_csv(io.BytesIO(text), read_options=read, convert_options=convert)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _unreadable(path, header, row, error) from error


def _unreadable(path: Path, header: bytes, row: int, error: Exception) -> DataError:
    message = str(error).splitlines()[0]
    counted = re.search(r"Row #(\d+): ", message)  # from 1, the header
    where = f"data row {row + int(counted[1]) - 1:,}" if counted else f"the rows after data row {row:,}"
    if value := re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", message):
        name = _parsed(path, header).column_names[int(value[1])]
        return DataError(
            f"{path}: column {name!r} holds {value[2]!r} in {where}, which is no number. Encode text as numbers, or "
            "leave this column out of columns=."
        )
    problem = re.sub(r"(CSV parse error: )?Row #\d+: ", "", message).rstrip(".")
    return DataError(f"{path} cannot be read as CSV text: {problem} (in {where}).")


def _check_same(path: Path, file: io.BufferedReader) -> None:
    """Raise DataError if the file that is followed is no longer the one at its path, or became
    shorter.
    """
    opened = os.fstat(file.fileno())
    if opened.st_size < file.tell():
        raise DataError(
            f"{path} became shorter while it was followed; rows cannot be told from those before."
        )
    try:
        same = os.path.samestat(path.stat(), opened)
    except FileNotFoundError:
        same = False
    if not same:
        raise DataError(f"{path} was removed or replaced while it was followed; its last lines are read.")
