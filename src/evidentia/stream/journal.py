"""One line of JSON per batch in a file, each batch exactly once whatever happens on the way."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evidentia.errors import CheckpointError


class Journal:
    """A file of lines of JSON that goes on, after a crash, from where a checkpoint knows it to have been.

    Lines that cannot be written, as on a full disk, are kept and tried again with the next ones.

    Args:
        path: the file.
        length: its bytes at the checkpoint; those behind are cut off. 0 begins the file anew, as where there is none.

    Raises:
        CheckpointError: the file cannot be written to, or is not the one of the checkpoint.

    Example:
        >>> journal = Journal(path)  # doctest: +SKIP
        >>> journal.append({"num_observations": 500})  # doctest: +SKIP
        >>> length = journal.commit()  # doctest: +SKIP
    """

    def __init__(self, path: Path, length: int = 0):
        self.path = path
        self._length = length
        self._pending = b""
        if not path.exists():
            self._length = 0
        elif length and not _ends_a_line(path, length):
            raise CheckpointError(
                f"{path} is not the file of the run that wrote the checkpoint: that had {length:,} bytes then. Put it back, or "
                "give another folder."
            )
        try:
            with path.open("ab") as file:
                file.truncate(self._length)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line, where that is possible now."""
        self._pending += json.dumps(record, allow_nan=False).encode() + b"\n"
        with suppress(CheckpointError):
            self._write()

    def commit(self) -> int:
        """See to it that all lines are on the disk; the length of the file, for a checkpoint. Raises CheckpointError."""
        self._write(sync=True)
        return self._length

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


def _ends_a_line(path: Path, length: int) -> bool:
    with path.open("rb") as file:
        file.seek(length - 1)
        return file.read(1) == b"\n"
