"""Arrow IPC streams from another program, for example through a pipe."""

import io
import os
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa

from evidentia.data.batches import Batch
from evidentia.data.source import Missing, check_missing
from evidentia.data.sources.columns import Columns, Piece, Selection, Types, converted, select
from evidentia.data.sources.memory import check_unread
from evidentia.errors import ConfigurationError, DataError, UnfinishedError, check_count

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # the marker that ends an Arrow IPC stream


@dataclass(frozen=True)
class IpcSource:
    """The source that `read_ipc` returns: an open stream and the selected columns."""

    reader: Any = field(repr=False)
    stream: "_Remembering" = field(repr=False)
    name: str
    selection: Selection
    missing: Missing
    _begun: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    @property
    def num_rows(self) -> None:
        """Not known before the end."""
        return None

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows after the first `skip` as they arrive, once. Raises like `Source`."""
        check_count("skip", skip, 0)
        check_unread(self._begun, self.name)
        return converted(self._pieces(), self.selection, self.missing, skip)

    def _pieces(self) -> Generator[Piece, None, None]:
        row = 0
        try:
            for table in self.reader:
                yield Piece(table, self.name, row)
                row += table.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.name, f"after row {row:,}", error) from error
        if not self.stream.last.endswith(END):
            raise UnfinishedError(
                f"{self.name} ended after row {row:,} without Arrow's end marker: the program that writes it may have died."
            )


class _Remembering:
    """A binary stream that remembers the last bytes read from it."""

    def __init__(self, stream: IO[bytes]):
        self._stream = stream
        self.last: bytes = b""

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def read(self, size: int = -1) -> bytes:
        found = self._stream.read(size)
        self.last = (self.last + found[-len(END) :])[-len(END) :]
        return found


def read_ipc(
    stream: IO[bytes],
    columns: Columns = None,
    *,
    missing: Missing = "error",
    types: Types = None,
    name: str = "the stream",
) -> IpcSource:
    """Read an Arrow IPC stream, such as `sys.stdin.buffer`, as a source of observations.

    The schema is read immediately, the rows as they arrive, once. `columns`, `missing` and `types`
    are as for `read_parquet`.

    Args:
        stream: a binary file, pipe or socket.
        columns: the columns to read.
        missing: "error", or "drop" to drop and count rows with missing values.
        types: `int` or `float` by name, for columns whose type in the schema is wrong.
        name: the name of the stream in errors.

    Raises:
        DataError: an invalid or truncated stream, or one without the columns asked for.
        UnfinishedError: while reading, after the last row, if there is no end marker.
        ConfigurationError: an invalid argument.

    Example:
        >>> columns = {"x": ["f0", "f1"], "y": "label"}
        >>> source = read_ipc(sys.stdin.buffer, columns)  # doctest: +SKIP
    """
    check_missing(missing)
    if not hasattr(stream, "read") or isinstance(stream, io.TextIOBase):
        raise ConfigurationError(
            f"stream must be a binary file, such as sys.stdin.buffer or open(path, 'rb'); got {stream!r}."
        )
    if getattr(stream, "closed", False):
        raise DataError(f"{name} is closed; open it again.")
    try:
        reader = pa.ipc.open_stream(remembering := _Remembering(stream))
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name, "at its beginning", error) from error
    selection = select(columns, [(name, reader.schema)], types)
    selection.check()
    return IpcSource(reader, remembering, name, selection, missing)


def _unreadable(name: str, where: str, error: Exception) -> DataError:
    if isinstance(error, OSError) and error.errno:  # a system error, not Arrow's
        return DataError(f"{name} cannot be read ({where}): {os.strerror(error.errno)}.")
    return DataError(
        f"{name} cannot be read as an Arrow IPC stream ({where}): {str(error).splitlines()[0].rstrip('.')}. Write it with "
        "pyarrow.ipc.new_stream or an equivalent; CSV and Parquet are read from files."
    )
