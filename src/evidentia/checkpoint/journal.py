"""Journal with one line of JSON per batch, each written exactly once, even after a crash."""

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from evidentia.errors import CheckpointError

Ends = Mapping[str, tuple[int, str]]  # size in bytes, and SHA-256
BLOCK = 2**20  # bytes read at once


class Journal:
    """A file of JSON lines that a resumed run continues from its length at the checkpoint.

    Lines that cannot be written, for example on a full disk, are kept and retried with the next.

    Args:
        path: the file.
        ends: the value of `commit` at the checkpoint: the sizes in bytes of the journals of all
            runs so far and the SHA-256 of what they held, by the SHA-256 of their first lines. The
            file is truncated to its size; if there are no ends, it is emptied.

    Raises:
        CheckpointError: the file cannot be written to, is damaged, or is not one of the journals.

    Example:
        >>> journal = Journal(path)  # doctest: +SKIP
        >>> journal.append({"num_observations": 500})  # doctest: +SKIP
        >>> ends = journal.commit()  # doctest: +SKIP
    """

    def __init__(self, path: Path, ends: Ends | None = None):
        self.path = path
        self._ends = dict(ends or {})
        self._length, self._digest = 0, hashlib.sha256()
        self._pending = b""
        self._name = ""  # the key of this file in the lengths, once it has a line
        try:
            with path.open("a+b") as file:
                if self._ends and (first := _first_line(file)):
                    self._name = _name(first)
                    self._length, known = self._ends.get(self._name, (0, ""))
                    if not _ends_a_line(file, self._length):
                        raise CheckpointError(
                            f"{path} is not the file of the run that wrote the checkpoint, or was truncated. Restore that "
                            "file, move this one away, or give another folder."
                        )
                    self._digest = _digest_of_first(file, self._length)
                    if self._digest.hexdigest() != known:
                        raise CheckpointError(
                            f"{path} was changed or damaged after the checkpoint was written: its first {self._length:,} bytes "
                            "do not match their SHA-256. Restore that file, move this one away, or give another folder."
                        )
                file.truncate(self._length)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a line, which is retried later if it cannot be written now."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        self._name = self._name or _name(line)
        self._pending += line
        with suppress(CheckpointError):
            self._write()

    def commit(self) -> dict[str, tuple[int, str]]:
        """Sync all lines to disk and return the ends for a checkpoint.

        Raises CheckpointError.
        """
        self._write(sync=True)
        if self._name:
            self._ends[self._name] = self._length, self._digest.hexdigest()
        return dict(self._ends)

    def _write(self, sync: bool = False) -> None:
        try:
            with self.path.open("r+b", buffering=0) as file:
                file.truncate(self._length)  # remove what a failed attempt left
                file.seek(self._length)
                if file.write(self._pending) < len(self._pending):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if sync:
                    os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, self._length)  # leave no part of a line
            raise self._failed(error) from error
        self._length += len(self._pending)
        self._digest.update(self._pending)
        self._pending = b""

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"{self.path} cannot be written: {error.strerror or error}.")


def _first_line(file: BinaryIO) -> bytes:
    """Read the first line; empty if it is incomplete."""
    file.seek(0)
    line = file.readline()
    return line if line.endswith(b"\n") else b""


def _name(first_line: bytes) -> str:
    """Identify a journal in any folder; the `seconds` of a batch distinguish identical runs."""
    return hashlib.sha256(first_line).hexdigest()


def _ends_a_line(file: BinaryIO, length: int) -> bool:
    if not length:
        return False
    file.seek(length - 1)
    return file.read(1) == b"\n"


def _digest_of_first(file: BinaryIO, length: int) -> Any:
    """The SHA-256 of the first bytes of a file, to which more can be added."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (data := file.read(min(length, BLOCK))):
        digest.update(data)
        length -= len(data)
    return digest
