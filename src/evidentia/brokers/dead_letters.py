"""The file of messages that hold no rows, each with the reason: nothing is dropped unseen."""

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from evidentia.brokers.message import Message, Position
from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.system.storage import local_path

BEGINNING = b'{"source": '  # of each line


class DeadLetters:
    """A file of JSON lines: "source", "reason", "position", "key", "payload" in base64.

    It is only appended to. A message that is read again after a crash is recognised by its
    position and payload among the last letters, and stays in the file once. A line that was half
    written is removed when the file is opened.

    Attributes:
        path: the file.
        count: letters in the file.

    Args:
        path: the file; it need not exist.
        most_remembered: the number of last letters among which one that comes again is recognised.

    Raises:
        ConfigurationError: not a path on this machine, or a file of somebody else.
        CheckpointError: the file cannot be written to.

    Example:
        >>> letters = DeadLetters("letters.jsonl")  # doctest: +SKIP
        >>> letters.append("redis://host/readings", message, {"id": "1-0"}, "it has no y")
    """

    def __init__(self, path: str | Path, *, most_remembered: int = 100_000):
        self.path: Path = local_path("dead_letters", path, "file")
        self._known: dict[str, None] = {}
        self._most_remembered = most_remembered
        self.count: int = 0
        try:
            with self.path.open("a+b") as file:
                self._read(file)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, source: str, message: Message, place: Position, reason: str) -> None:
        """Write a message and sync it to disk, unless the file has it.

        Args:
            source: the name of the subscription.
            message: the message.
            place: the part of its position that identifies it (`place_of`).
            reason: why it holds no rows.

        Raises:
            CheckpointError: it cannot be written. Nothing of it is left in the file.
        """
        letter = {
            "source": source,
            "reason": reason,
            "position": place,
            "key": message.key,
            "payload": base64.b64encode(message.payload).decode(),
        }
        if _identity(letter) in self._known:
            return
        line = json.dumps(letter).encode() + b"\n"
        try:
            with self.path.open("ab", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    if file.write(line) < len(line):
                        raise OSError("the disk is full")
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(end)
                    raise
        except OSError as error:
            raise self._failed(error) from error
        self._remember(letter)

    def _read(self, file: Any) -> None:
        file.seek(0)
        first = file.read(len(BEGINNING))
        if first != BEGINNING[: len(first)]:
            raise ConfigurationError(
                f"dead_letters must be a file of evidentia's or a new one; {self.path} was not written by evidentia."
            )
        file.seek(0)
        end = 0
        for line in file:
            if not line.endswith(b"\n"):
                break
            end += len(line)
            try:
                self._remember(json.loads(line))
            except (ValueError, TypeError, LookupError):
                continue  # damaged: it stays
        file.truncate(end)

    def _remember(self, letter: Any) -> None:
        self._known[_identity(letter)] = None
        self.count += 1
        if len(self._known) > self._most_remembered:
            del self._known[next(iter(self._known))]

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"{self.path} cannot be written: {error.strerror or error}.")


def _identity(letter: Any) -> str:
    parts = [letter["source"], json.dumps(letter["position"], sort_keys=True), letter["payload"]]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
