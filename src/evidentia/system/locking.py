"""One user of a folder at a time, among all threads and processes of a machine."""

import os
import re
import socket
import stat
from contextlib import suppress
from pathlib import Path

import filelock

from evidentia.errors import CheckpointError
from evidentia.system.storage import is_remote

LOCK = "lock"  # empty; the file with the same name and this ending says who holds it
HOLDER = ".holder"
# Where files cannot be locked, filelock writes process and machine into the first one.
OURS = re.compile(rb"(\d+\n\S+\n.*|process \d+ on [^\n]*\n?)?")


class FolderLock:
    """Context manager that holds a local folder, which it makes if it does not exist.

    An object store has neither folders nor locks: there it does nothing.

    Args:
        folder: the folder.
        what: what the folder is, for messages.
        name: of the file that is locked.
        patience: seconds to wait for another thread or process.
        is_kept: whether the lock's file stays in the folder.

    Raises:
        CheckpointError: another one, which the message names, holds the folder; or the files of
            the lock are somebody else's.
        OSError: the folder cannot be made or written to.
    """

    def __init__(
        self, folder: Path, what: str, *, name: str = LOCK, patience: float = 0.0, is_kept: bool = True
    ):
        self._folder, self._what, self._is_kept = folder, what, is_kept
        self._path, self._holder = folder / name, folder / f"{name}{HOLDER}"
        self._lock: filelock.BaseFileLock | None = None
        if not is_remote(folder):
            # Generators that hold a folder may be closed in another thread.
            self._lock = filelock.FileLock(self._path, timeout=patience, thread_local=False)

    def __enter__(self) -> "FolderLock":
        if self._lock is None:
            return self
        self._folder.mkdir(parents=True, exist_ok=True)
        if foreign := next((path for path in (self._path, self._holder) if not is_of_a_lock(path)), None):
            raise CheckpointError(
                f"{foreign} was not written by evidentia. Name another folder, or move the file."
            )
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise CheckpointError(
                f"{self._what} {self._folder} is in use by {self._known_holder()}. Wait for it to end, or name another folder."
            ) from None
        with suppress(OSError):  # the holder's name is optional
            self._holder.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is None:
            return
        with suppress(OSError):
            self._holder.unlink()
        if not self._is_kept:
            with suppress(OSError):  # removed while it is held: one who waits makes a new one
                self._path.unlink()
        self._lock.release()

    def _known_holder(self) -> str:
        try:
            return self._holder.read_text().strip() or "another process"
        except (OSError, ValueError):
            return "another process"


def is_of_a_lock(path: Path) -> bool:
    """Whether a path is free for a file of a lock: nothing is there, or a file of a lock.

    Example:
        >>> is_of_a_lock(Path("no such file"))
        True
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as file:
            return OURS.fullmatch(file.read(1000)) is not None
    except FileNotFoundError:
        return True
