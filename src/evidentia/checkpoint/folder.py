"""Checkpoints: a folder that always holds a whole state, whatever happens while a newer one is
written.

A checkpoint is one file: a line of JSON (format, versions, SHA-256 of what follows, a few words
for people) and the arrays and their skeleton (`packing`) in NumPy's format. It is written beside
the present one, synced to the disk, and renamed; the one before stays as `checkpoint.previous`.
"""

import hashlib
import io
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import numpy as np

from evidentia.checkpoint.packing import UnknownRecordError, pack, unpack
from evidentia.errors import CheckpointError

FORMAT = 1
MAGIC = "evidentia checkpoint"
CURRENT, PREVIOUS, WRITTEN, LOCK = "checkpoint", "checkpoint.previous", "checkpoint.new", "lock"


class Header(NamedTuple):
    """The first line of a checkpoint. `summary` is for people, and for messages about the file."""

    format: int
    evidentia: str
    sha256: str
    summary: dict[str, Any]


class CheckpointFolder:
    """A folder of checkpoints that this process alone writes to, as a context.

    Raises:
        CheckpointError: another process holds the folder, which the message names; the folder
            cannot be made or written to.

    Example:
        >>> with CheckpointFolder("run") as folder:  # doctest: +SKIP
        ...     folder.write({"position": 500}, {"num_observations": 500})
        >>> read("run")[0]  # doctest: +SKIP
        {'position': 500}
    """

    def __init__(self, path: str | Path):
        self.path = Path(path).expanduser()
        self._lock = filelock.FileLock(self.path / LOCK)

    def __enter__(self) -> "CheckpointFolder":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            raise CheckpointError(
                f"the checkpoint folder {self.path} is in use by {self._holder()}. Wait for it to end, or give another folder."
            ) from None
        except OSError as error:
            raise CheckpointError(f"no checkpoints can be kept in {self.path}: {_reason(error)}.") from error
        with suppress(OSError):  # who holds it is a courtesy
            self._holder_file.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._holder_file.unlink()
        self._lock.release()

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return any((self.path / name).exists() for name in (CURRENT, PREVIOUS))

    def write(self, content: Any, summary: Mapping[str, Any]) -> None:
        """Make `content` the present checkpoint. `summary` is a few words and numbers about it.

        Raises CheckpointError if that fails, for example on a full disk: then the one before is
            still there, and read.
        """
        data = _encoded(content, dict(summary))
        new = self.path / WRITTEN
        try:
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if (self.path / CURRENT).exists():
                os.replace(self.path / CURRENT, self.path / PREVIOUS)
            os.replace(new, self.path / CURRENT)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise CheckpointError(
                f"the checkpoint in {self.path} could not be written: {_reason(error)}. {self._what_stands()}"
            ) from error
        try:
            _sync_folder(self.path)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint in {self.path} was written, but the folder could not be synced to the disk: {_reason(error)}. "
                "A loss of power could bring back the one before."
            ) from error

    def _what_stands(self) -> str:
        """What there is to go on from after a checkpoint that could not be written."""
        # Of a disk that is gone, os.path says that nothing is there; a Path raises.
        if os.path.exists(self.path / CURRENT):
            return "The one before is as it was."
        if os.path.exists(self.path / PREVIOUS):  # it had made room for the new one
            return f"The one before is named {PREVIOUS} now, and is read under that name."
        return "The folder holds no other."

    @property
    def _holder_file(self) -> Path:
        return self.path / "lock.holder"

    def _holder(self) -> str:
        try:
            return self._holder_file.read_text().strip() or "another process"
        except OSError:
            return "another process"


def read(folder: str | Path, records: Mapping[str, type] | None = None) -> tuple[Any, Header]:
    """The content of the newest checkpoint of a folder, and its header.

    Raises:
        CheckpointError: there is none, it is damaged, or of a newer format. The message says
            whether the one before is whole.
    """
    folder = Path(folder).expanduser()
    # Between two renames the newest is the previous one.
    path = next((folder / name for name in (CURRENT, PREVIOUS) if (folder / name).exists()), None)
    if path is None:
        raise CheckpointError(f"{folder} holds no checkpoint. Check the path.")
    try:
        return _decoded(path, records or {})
    except UnknownRecordError as error:
        raise CheckpointError(f"{path} is a checkpoint of something else: {error}.") from error
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise CheckpointError(
            f"{path} is damaged: {_reason(error)}. {_about_previous(folder, path)}"
        ) from error


def _encoded(content: Any, summary: dict[str, Any]) -> bytes:
    arrays: list[np.ndarray] = []
    skeleton = json.dumps(pack(content, arrays))
    buffer = io.BytesIO()
    np.savez(buffer, *arrays, skeleton=np.frombuffer(skeleton.encode(), np.uint8))
    payload = buffer.getvalue()
    header = Header(FORMAT, version("evidentia"), hashlib.sha256(payload).hexdigest(), summary)
    return f"{json.dumps({'file': MAGIC, **header._asdict()})}\n".encode() + payload


def _decoded(path: Path, records: Mapping[str, type]) -> tuple[Any, Header]:
    header, payload = _opened(path)
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        skeleton = json.loads(archive["skeleton"].tobytes())
        arrays = [archive[f"arr_{index}"] for index in range(len(archive.files) - 1)]
    return unpack(skeleton, arrays, records), header


def _opened(path: Path) -> tuple[Header, bytes]:
    first, _, payload = path.read_bytes().partition(b"\n")
    try:
        fields = json.loads(first)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or fields.pop("file", None) != MAGIC:
        raise ValueError("it does not begin as a checkpoint does")
    if fields["format"] > FORMAT:
        raise CheckpointError(
            f"{path} was written by evidentia {fields['evidentia']} in format {fields['format']}; this version reads up to "
            f"format {FORMAT}. Install the newer version."
        )
    header = Header(**fields)
    if hashlib.sha256(payload).hexdigest() != header.sha256:
        raise ValueError("its content is not what was written")
    return header, payload


def _about_previous(folder: Path, damaged: Path) -> str:
    previous = folder / PREVIOUS
    if damaged.name == PREVIOUS or not previous.exists():
        return "There is no other."
    try:
        summary = _opened(previous)[0].summary
    except (OSError, ValueError, KeyError, TypeError):
        return f"The one before, {previous}, is damaged too."
    said = ", ".join(f"{key}: {value}" for key, value in summary.items())
    return f"The one before, {previous} ({said}), is whole: remove the damaged file to go on from there."


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere folders cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).rstrip(".")
