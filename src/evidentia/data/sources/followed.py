"""A file that another program writes to while it is read."""

import os
from pathlib import Path
from typing import IO

from evidentia.errors import DataError


class Followed:
    """Reads a growing file, and compares what it has read whenever the file changes.

    A file that was emptied and written anew may be longer than before at the next look. Up to
    twice `most_remembered` bytes, all that was read is compared; beyond, so many bytes of the
    beginning and of the end.
    """

    def __init__(self, path: Path, file: IO[bytes], most_remembered: int = 1 << 22):
        self._path, self._file = path, file
        self._beginning = self._last = b""
        self._most = most_remembered
        self._changed = self._state().st_mtime_ns
        self._has_waited = False

    def read(self, size: int) -> bytes:
        """Read what has been added, at most `size` bytes; nothing at the end of the file.

        Raises:
            DataError: the file was truncated, rewritten, replaced or removed.
        """
        read = self._file.read(size)
        self._beginning += read[: self._most - len(self._beginning)]
        self._last = (self._last + read)[-self._most :]
        state = self._state()
        if state.st_size < self._file.tell():
            raise DataError(
                f"{self._path} became shorter while it was followed; new rows cannot be distinguished from old ones."
            )
        if state.st_mtime_ns != self._changed or (read and self._has_waited):
            self._check_content()
        self._changed, self._has_waited = state.st_mtime_ns, not read
        if not read:
            self._check_name(state)
        return read

    def _state(self) -> os.stat_result:
        return os.fstat(self._file.fileno())

    def _check_content(self) -> None:
        position = self._file.tell()
        for start, known in ((0, self._beginning), (position - len(self._last), self._last)):
            self._file.seek(start)
            if self._file.read(len(known)) != known:
                raise DataError(
                    f"{self._path} was rewritten while it was followed: lines that were read have changed. Append to the file, or "
                    "give a new file to a new run."
                )
        self._file.seek(position)

    def _check_name(self, state: os.stat_result) -> None:
        try:
            is_same = os.path.samestat(self._path.stat(), state)
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise DataError(
                f"{self._path} was removed or replaced while it was followed; all its lines were read."
            )
