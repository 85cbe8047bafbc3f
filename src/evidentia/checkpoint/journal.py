"""One line of JSON per batch in a file, each batch exactly once whatever happens on the way."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from evidentia.errors import CheckpointError


class Journal:
    """A file of lines of JSON that goes on, after a crash, from where a checkpoint knows it to
    have been.

    Lines that cannot be written, as on a full disk, are kept and tried again with the next ones.

    Args:
        path: the file.
        lengths: what `commit` returned at the checkpoint: the bytes of this file then, and of
            others that the runs before wrote, each by the SHA-256 of its first line. The file is
            cut to its own. If none were written, it begins anew.

    Raises:
        CheckpointError: the file cannot be written to, or is none of those.

    Example:
        >>> journal = Journal(path)  # doctest: +SKIP
        >>> journal.append({"num_observations": 500})  # doctest: +SKIP
        >>> lengths = journal.commit()  # doctest: +SKIP
    """

    def __init__(self, path: Path, lengths: Mapping[str, int] | None = None):
        self.path = path
        self._lengths = dict(lengths or {})
        self._length = 0
        self._pending = b""
        self._name = ""  # of this file among the lengths, once it has a line
        try:
            with path.open("a+b") as file:
                if self._lengths and (first := _first_line(file)):
                    self._name = _name(first)
                    self._length = self._lengths.get(self._name, 0)
                    if not _ends_a_line(file, self._length):
                        raise CheckpointError(
                            f"{path} is not the file of the run that wrote the checkpoint, or was cut. Put that back, move "
                            "this one away, or give another folder."
                        )
                file.truncate(self._length)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line, where that is possible now."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        self._name = self._name or _name(line)
        self._pending += line
        with suppress(CheckpointError):
            self._write()

    def commit(self) -> dict[str, int]:
        """See to it that all lines are on the disk; the lengths, for a checkpoint. Raises
        CheckpointError.
        """
        self._write(sync=True)
        if self._name:
            self._lengths[self._name] = self._length
        return dict(self._lengths)

    def _write(self, sync: bool = False) -> None:
        try:
            with self.path.open("r+b") as file:
                file.truncate(self._length)  # what an earlier attempt left
                file.seek(self._length)
                file.write(self._pending)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from error
        self._length += len(self._pending)
        self._pending = b""

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"{self.path} cannot be written: {error.strerror or error}.")


def _first_line(file: BinaryIO) -> bytes:
    """Empty if there is no whole one."""
    file.seek(0)
    line = file.readline()
    return line if line.endswith(b"\n") else b""


def _name(first_line: bytes) -> str:
    """By which a journal is known again in any folder; the seconds of a batch tell apart even runs
    that are alike.
    """
    return hashlib.sha256(first_line).hexdigest()


def _ends_a_line(file: BinaryIO, length: int) -> bool:
    if not length:
        return False
    file.seek(length - 1)
    return file.read(1) == b"\n"
