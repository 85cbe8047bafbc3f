"""Cutting CSV text into whole records: a line end inside quotes does not end one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from evidentia.errors import DataError, HalfLineError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
QUOTE, COMMA, RETURN, NEWLINE = b'",\r\n'
REMEDY = 'Close it, or leave it out; a quote that belongs to a quoted text is written twice ("").'
BLOCK_SIZE = 1 << 22  # bytes of text read at a time, and of the longest record
HEADER_BYTES = 1 << 16  # read at a time until the header is whole


@lru_cache
def _ends_value(separator: int) -> Bool[np.ndarray, "256"]:
    """Whether a value may end before a byte."""
    return np.isin(np.arange(256), [separator, RETURN, NEWLINE])


@lru_cache
def _quoted_value(separator: int) -> re.Pattern[bytes]:
    """A value is quoted if it begins with a quote; other quotes are characters like the rest."""
    before = re.escape(bytes([separator, RETURN, NEWLINE]))
    return re.compile(rb"(?<![^" + before + rb'])"(?:[^"]++|"")*+(?P<close>"?)')


class Quoted(NamedTuple):
    """The quoted values of a text that begins with a record.

    Attributes:
        starts: the offsets of their opening quotes.
        stops: the offsets after their closing quotes; the text's length if there is none.
        is_open: whether the last value is not closed.
    """

    starts: Int[np.ndarray, " values"]
    stops: Int[np.ndarray, " values"]
    is_open: bool


def quoted(text: bytes, separator: int = COMMA) -> Quoted:
    """Find the quoted values; `separator` is the byte between values.

    Example:
        >>> quoted(b'1,"a,b",2')
        Quoted(starts=array([2]), stops=array([7]), is_open=False)
    """
    codes = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(codes == QUOTE)
    is_open = len(quotes) % 2 == 1
    starts, stops = quotes[::2], np.append(quotes[1::2] + 1, [len(text)] * is_open).astype(int)
    is_apart = starts[1:] != stops[:-1]  # else a doubled quote, which belongs to the text
    starts, stops = (
        np.append(starts[:1], starts[1:][is_apart]),
        np.append(stops[:-1][is_apart], stops[-1:]),
    )
    ends_value = _ends_value(separator)
    if ends_value[codes[starts[starts > 0] - 1]].all():
        closed = stops[: len(stops) - is_open]
        if ends_value[codes[closed[closed < len(text)]]].all():
            return Quoted(starts, stops, is_open)
    return _quoted_one_by_one(text, separator)


def _quoted_one_by_one(text: bytes, separator: int = COMMA) -> Quoted:
    """As `quoted`, for text with quotes inside values that are not quoted, which is slower."""
    found = list(_quoted_value(separator).finditer(text))
    starts, stops = np.array([value.span() for value in found], int).reshape(-1, 2).T
    return Quoted(starts, stops, bool(found) and not found[-1]["close"])


def record_ends(text: bytes, values: Quoted) -> Int[np.ndarray, " records"]:
    """The offsets after the line ends outside quotes: LF, CR LF, or CR before something else."""
    codes = np.frombuffer(text, np.uint8)
    is_end = codes == NEWLINE
    is_end[:-1] |= (codes[:-1] == RETURN) & (codes[1:] != NEWLINE)
    ends = np.flatnonzero(is_end)
    num_begun, num_closed = (np.searchsorted(edges, ends, side="right") for edges in values[:2])
    return ends[num_begun == num_closed] + 1


@runtime_checkable
class Readable(Protocol):
    """What text is read from: a file, or a followed one."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes; nothing at the end."""
        ...


class Records:
    """Whole records from the text of a file, which is given in parts of any size.

    Args:
        path: the name of the file in errors.
        limit: bytes of the longest record.
        separator: the byte between values.
    """

    def __init__(self, path: Path, limit: int = BLOCK_SIZE, separator: int = COMMA):
        self._path, self._limit, self._separator = path, limit, separator
        self._rest, self._line = b"", 1  # the text after the last whole record, and its first line

    def header(self, file: Readable) -> bytes:
        """Read the first record that is not empty, with its line end if it has one.

        Raises:
            DataError: it has quotes that are not balanced, or is too long.
        """
        size = min(HEADER_BYTES, self._limit)
        self._rest = file.read(size)
        mark = BYTE_ORDER_MARK if self._rest.startswith(BYTE_ORDER_MARK) else b""
        self._rest = self._rest[len(mark) :]
        while True:
            header = self._cut(which=0)
            if not header:
                if read := file.read(size):
                    self._rest += read
                    continue
                return mark + self.last()
            if header.strip(b"\r\n"):  # a line of spaces is a header, as for Arrow
                return mark + header

    def take(self, text: bytes) -> bytes:
        """Add text, and return the whole records that have not been returned yet.

        Raises:
            DataError: they have quotes that are not balanced, or one is too long.
        """
        self._rest += text
        return self._cut(which=-1)

    def last(self) -> bytes:
        """Return the text after the last whole record, at the end of the file.

        Raises:
            DataError: a quote in it is not closed (HalfLineError if it is the last line).
        """
        values = quoted(self._rest, self._separator)
        self._check(values)
        if values.is_open:
            with half_line(not _num_line_ends(self._rest)):
                raise self._not_closed(values, "never closed")
        rest, self._rest = self._rest, b""
        return rest

    def _cut(self, which: int) -> bytes:
        """The records up to the first (0) or the last (-1) one that is whole."""
        if QUOTE not in self._rest:
            values, end = None, self._plain_end(which)
        else:
            values = quoted(self._rest, self._separator)
            self._check(values)
            ends = record_ends(self._rest, values)
            end = int(ends[which]) if len(ends) else 0
        if not end and len(self._rest) >= self._limit:
            if values is not None and values.is_open:
                raise self._not_closed(values, f"not closed within {self._limit:,} bytes")
            raise DataError(f"{self._path} has a line of more than {self._limit:,} bytes; is it CSV text?")
        whole, self._rest = self._rest[:end], self._rest[end:]
        self._line += _num_line_ends(whole)
        return whole

    def _plain_end(self, which: int) -> int:
        """The end of the first or the last whole record of text without quotes."""
        if which == 0:
            found = re.search(rb"\r?\n|\r(?=[^\n])", self._rest)
            return found.end() if found else 0
        last_return = self._rest.rfind(b"\r", 0, len(self._rest) - 1)
        return max(self._rest.rfind(b"\n"), last_return) + 1

    def _check(self, values: Quoted) -> None:
        """Raise DataError if a closing quote stands before other text."""
        closed = values.stops[: len(values.stops) - values.is_open]
        following = np.frombuffer(self._rest, np.uint8)[closed[closed < len(self._rest)]]
        is_wrong = ~_ends_value(self._separator)[following]
        if is_wrong.any():
            first = int(is_wrong.argmax())
            opened, closes = self._line_at(values.starts[first]), self._line_at(closed[first])
            raise DataError(
                f"{self._path} has an unbalanced quote in line {opened:,}: the value that it opens is closed in line {closes:,}, "
                f"before {self._following(closed[first])}. {REMEDY}"
            )

    def _following(self, offset: int) -> str:
        return repr(self._rest[offset : offset + 20].splitlines()[0].decode(errors="replace"))

    def _not_closed(self, values: Quoted, how: str) -> DataError:
        line = self._line_at(values.starts[-1])
        return DataError(f"{self._path} has an unbalanced quote: the one in line {line:,} is {how}. {REMEDY}")

    def _line_at(self, offset: int) -> int:
        return self._line + _num_line_ends(self._rest[:offset])


def checked_text(file: Readable, records: Records) -> pa.Buffer:
    """The text of a CSV file, whose quotes are checked as it is read.

    In memory of Arrow's own: one of its threads may release it last, as the interpreter ends, and
    would abort the process if it had to ask Python for that.

    Raises DataError, like `Records`.
    """
    text, header = pa.BufferOutputStream(), records.header(file)
    text.write(header if header.endswith((b"\n", b"\r")) else header + b"\n")
    while read := file.read(BLOCK_SIZE):
        text.write(records.take(read))
    text.write(records.last())
    return text.getvalue()


@contextmanager
def half_line(may_grow: bool) -> Iterator[None]:
    """Turn an error in a line without line end, which may grow, into HalfLineError."""
    try:
        yield
    except DataError as error:
        if not may_grow:
            raise
        raise HalfLineError(f"{error} The line has no line end: it may be half written.") from error


def _num_line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
