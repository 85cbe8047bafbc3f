"""Where the messages of a stream come from: a broker, or a growing file of JSON lines."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from evidentia.brokers.message import Message, Position, Subscription
from evidentia.errors import DataError
from evidentia.system.storage import is_url

TICK = 0.2  # seconds between looks at a file that has not grown
HEAD = 4096  # bytes that identify a file


class FollowedFile:
    """A file of JSON lines to which lines are being added, as a subscription.

    A line counts once it has its line end. The position is the number of bytes read, with the
    SHA-256 of the file's beginning, so that another file under the same name is not mistaken for
    it.

    Attributes:
        path: where it is.
        name: as it was given.

    Raises:
        DataError: from `messages`: the file was truncated, replaced, or cannot be read.
    """

    def __init__(self, path: Path, name: str | None = None):
        self.path, self.name = path, name or str(path)

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """As `Subscription.messages`; waits for the file if it does not exist yet."""
        while not self.path.exists():
            yield None
            time.sleep(TICK)
        try:
            with self.path.open("rb") as file:
                yield from self._lines(file, position)
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror or error}.") from error

    def acknowledge(self, position: Position) -> None:
        """Nothing: a file keeps its lines."""

    def close(self) -> None:
        """Nothing: `messages` closes the file."""

    def _lines(self, file: BinaryIO, position: Position | None) -> Iterator[Message | None]:
        offset, length, digest = 0, 0, ""
        if position is not None:
            offset, length, digest = (position[name] for name in ("offset", "head", "sha256"))
            if self._size() < offset or _digest(file, length) != digest:
                raise DataError(
                    f"{self.path} was truncated or replaced since byte {offset:,} was read: its rows can no longer be matched "
                    "with those that were counted. Restore the file, or begin with another folder of checkpoints."
                )
            file.seek(offset)
        part = b""
        while True:
            line = file.readline()
            if not line:
                if self._size() < offset:
                    raise DataError(f"{self.path} was truncated: it had {offset:,} bytes that were read.")
                yield None
                time.sleep(TICK)
                continue
            part += line
            if not part.endswith(b"\n"):
                continue
            offset += len(part)
            if length < HEAD:  # the beginning grows with the file
                length = min(offset, HEAD)
                digest = _digest(file, length)
                file.seek(offset)
            if part.strip():
                yield Message(part, {"offset": offset, "head": length, "sha256": digest})
            part = b""

    def _size(self) -> int:
        return self.path.stat().st_size


def open_source(source: str, options: Mapping[str, Any], folder: Path) -> Subscription:
    """The subscription that a stream's `source` names; relative paths are those of `folder`.

    Raises ConfigurationError for an address that no broker has, and options that it does not know.
    """
    if not is_url(source) or source.startswith("file://"):
        return FollowedFile(folder / Path(source.removeprefix("file://")).expanduser(), source)
    from evidentia.brokers.addresses import subscribe

    return subscribe(source, **options)


def _digest(file: BinaryIO, length: int) -> str:
    file.seek(0)
    return hashlib.sha256(file.read(length)).hexdigest()
