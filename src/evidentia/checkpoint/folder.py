"""Checkpoint folders, which always hold a complete state, even if a write is interrupted.

A checkpoint is one file: a line of JSON (format, versions, SHA-256 of the rest, a readable
summary), then the arrays and their skeleton (`packing`) in NumPy's format. It is written to a new
file, synced to disk, and renamed; the previous one is kept as `checkpoint.previous`. In an object
store it is one object, which the store replaces in one step; there is no lock.
"""

import hashlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidentia.checkpoint.packing import UnknownRecordError, pack, unpack
from evidentia.errors import CheckpointError
from evidentia.system.locking import FolderLock
from evidentia.system.sharing import check_not_forked
from evidentia.system.storage import content, exists, folder_of, is_remote, replace, sync_folder

FORMAT = 2
MAGIC = "evidentia checkpoint"
BEGINNING = f'{{"file": "{MAGIC}"'.encode()
CURRENT, PREVIOUS, WRITTEN = "checkpoint", "checkpoint.previous", "checkpoint.new"


class Header(NamedTuple):
    """The first line of a checkpoint. `summary` is for users and error messages."""

    format: int
    evidentia: str
    sha256: str
    summary: dict[str, Any]


class CheckpointFolder:
    """Context manager for a folder of checkpoints, locked for this process.

    Raises:
        CheckpointError: another process, which the message names, holds the lock; or the folder
            cannot be created or written to.

    Example:
        >>> with CheckpointFolder("run") as folder:  # doctest: +SKIP
        ...     folder.write({"position": 500}, {"num_observations": 500})
        >>> read("run")[0]  # doctest: +SKIP
        {'position': 500}
    """

    def __init__(self, path: str | Path):
        self.path: Path = folder_of("folder", path)
        self._lock = FolderLock(self.path, "the checkpoint folder")

    def __enter__(self) -> "CheckpointFolder":
        try:
            self._lock.__enter__()
        except OSError as error:
            raise CheckpointError(f"cannot keep checkpoints in {self.path}: {reason_of(error)}.") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)

    @property
    def has_checkpoint(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return any((self.path / name).exists() for name in (CURRENT, PREVIOUS))

    def write(self, content: Any, summary: Mapping[str, Any]) -> None:
        """Write `content` as the newest checkpoint, with a short `summary` of it.

        Raises CheckpointError if that fails, for example on a full disk; the previous checkpoint
            then stays in use.
        """
        data = _encoded(content, dict(summary))
        try:
            if foreign := self._foreign():
                raise CheckpointError(
                    f"{foreign} was not written by evidentia, or is damaged. Name another folder, or move the file."
                )
            if is_remote(self.path):
                replace(self.path / CURRENT, data)
            else:
                self._write_beside(data)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint in {self.path} could not be written: {reason_of(error)}. {self._what_stands()}"
            ) from error
        try:
            sync_folder(self.path)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint in {self.path} was written, but the folder could not be synced to disk: {reason_of(error)}. "
                "A power failure could bring back the previous one."
            ) from error

    def _write_beside(self, data: bytes) -> None:
        """Write a new file, and rename the current and the new one once it is on disk."""
        new = self.path / WRITTEN
        try:
            new.unlink(missing_ok=True)
            with new.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if (self.path / CURRENT).exists():
                os.replace(self.path / CURRENT, self.path / PREVIOUS)
            os.replace(new, self.path / CURRENT)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise

    def _what_stands(self) -> str:
        """Describe the checkpoint that remains after a failed write."""
        if is_remote(self.path):
            return "A checkpoint that was there is unchanged."
        # On a removed disk, os.path.exists returns False, but Path.exists raises.
        if os.path.exists(self.path / CURRENT):
            return "The previous checkpoint is unchanged."
        if os.path.exists(self.path / PREVIOUS):  # already renamed to make room for the new one
            return f"The previous checkpoint is now named {PREVIOUS}, and is read under that name."
        return "The folder holds no other checkpoint."

    def _foreign(self) -> Path | None:
        """A file under one of our names that does not begin like a checkpoint, if there is one."""
        names = (CURRENT,) if is_remote(self.path) else (CURRENT, PREVIOUS, WRITTEN)
        return next((path for name in names if not _is_ours(path := self.path / name)), None)


def _is_ours(path: Path) -> bool:
    """Whether a path is free, or a checkpoint, also a part of one that was being written."""
    if is_remote(path):
        return not exists(path) or content(path).startswith(BEGINNING)
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # such as a link to somewhere else
            return False
        with path.open("rb") as file:
            found = file.read(len(BEGINNING))
    except FileNotFoundError:
        return True
    return found == BEGINNING[: len(found)]


def read(folder: str | Path, records: Mapping[str, type] | None = None) -> tuple[Any, Header]:
    """Read the content and header of the newest checkpoint of a folder.

    Raises:
        CheckpointError: no checkpoint, or one that is damaged or of a newer format. The message
            says whether the previous one is intact.
        ConfigurationError: `folder` is not the name of one, or `check_not_forked`.
    """
    check_not_forked()
    folder = folder_of("folder", folder)
    # Between two renames the newest is the previous one.
    try:
        path = next((folder / name for name in (CURRENT, PREVIOUS) if exists(folder / name)), None)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {reason_of(error)}.") from error
    if path is None:
        raise CheckpointError(f"{folder} holds no checkpoint. Check the path.")
    try:
        return _decoded(path, records or {})
    except UnknownRecordError as error:
        raise CheckpointError(f"{path} is a checkpoint of something else: {error}.") from error
    except CheckpointError:
        raise
    except Exception as error:  # of any kind: the readers of formats raise what they like
        raise CheckpointError(
            f"{path} is damaged: {reason_of(error)}. {_about_previous(folder, path)}"
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
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        skeleton = json.loads(_array(archive, "skeleton").tobytes())
        arrays = [_array(archive, f"arr_{index}") for index in range(len(archive.namelist()) - 1)]
    return unpack(skeleton, arrays, records), header


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array of numbers, of the size of its bytes: memory is only taken for what is there."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    stream = io.BytesIO(archive.read(member))
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is not an array of numbers")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    rest = len(stream.getbuffer()) - stream.tell()
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != rest:
        raise ValueError(f"{name} has {rest} bytes, not those of {dtype} of shape {shape}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _opened(path: Path) -> tuple[Header, bytes]:
    first, _, payload = content(path).partition(b"\n")
    try:
        fields = json.loads(first)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or fields.pop("file", None) != MAGIC:
        raise ValueError("it does not start like a checkpoint")
    if not isinstance(fields["format"], int):
        raise ValueError("its format is not a number")
    if fields["format"] != FORMAT:
        which = "newer" if fields["format"] > FORMAT else "older"
        raise CheckpointError(
            f"{path} was written by evidentia {fields['evidentia']} in format {fields['format']}; this version reads format "
            f"{FORMAT}. Install the {which} version to continue from it, or give another folder to start again."
        )
    header = Header(**fields)
    if not isinstance(header.summary, dict):
        raise ValueError("its summary is not a mapping")
    if hashlib.sha256(payload).hexdigest() != header.sha256:
        raise ValueError("its content does not match its SHA-256")
    return header, payload


def _about_previous(folder: Path, damaged: Path) -> str:
    previous = folder / PREVIOUS
    if damaged.name == PREVIOUS or not exists(previous):
        return "There is no other checkpoint."
    try:
        summary = _opened(previous)[0].summary
    except Exception:  # as in `read`
        return f"The previous one, {previous}, is damaged too."
    said = ", ".join(f"{key}: {value}" for key, value in summary.items())
    return f"The previous one, {previous} ({said}), is intact: remove the damaged file to continue from it."


def reason_of(error: Exception) -> str:
    """What an exception says, as a part of a sentence."""
    return str(getattr(error, "strerror", None) or error).rstrip(".")
