"""Evaluations on disk, from which an interrupted run goes on.

A run with the same seed asks for the same points in the same order. So the values at these points
are all that a checkpoint needs: a run that is started again replays them, and evaluates only what
is new. Entries are appended, each of the same length and with a checksum of its own; what a killed
process or a power failure left of the last ones is dropped, and evaluated again.
"""

import hashlib
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt64

from evidentia.errors import CheckpointError
from evidentia.model.outside.function import Points
from evidentia.system import checked_json
from evidentia.system.locking import FolderLock
from evidentia.system.storage import replace

VALUES = "evaluations.bin"  # float64: the coordinates of a point, its value; then the checksum
ABOUT = "evaluations.json"
Entries = Float[np.ndarray, "points numbers"]


class Record:
    """The evaluations in a folder, of points with some coordinates.

    Raises:
        CheckpointError: the folder cannot be written to, is in use, or holds damaged evaluations,
            or those of points with other names.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]):
        self._path, self._size = folder / VALUES, len(names)
        self._lock = FolderLock(folder, "checkpoint", name="evaluations.lock")
        try:
            self._lock.__enter__()
        except OSError as error:
            raise self._failed(error) from error
        try:
            self._check_names(folder / ABOUT, list(names))
            self._entries = self._whole_entries()
            self._file = self._path.open("r+b" if self._path.exists() else "xb")
            self._file.seek(8 * (self._size + 2) * len(self._entries))
            self._file.truncate()
        except BaseException as error:
            self._lock.__exit__()
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise

    def read(self) -> tuple[Points, Float[np.ndarray, " points"]]:
        """All points recorded when the folder was opened, and their values."""
        return self._entries[:, :-1], self._entries[:, -1]

    def append(self, points: Points, values: Float[np.ndarray, " points"]) -> None:
        """Record points and their values. Raises CheckpointError if that fails."""
        entries = np.column_stack([points, values]).astype(np.float64)
        checked = np.column_stack([entries, _checksums(entries).view(np.float64)])
        try:
            self._file.write(checked.tobytes())
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file, and let other runs use the folder."""
        self._file.close()
        self._lock.__exit__()

    def _whole_entries(self) -> Entries:
        """The entries up to the first one that was not written whole.

        Raises CheckpointError if whole ones follow it: then the file is damaged.
        """
        width = self._size + 2
        if self._path.is_symlink():
            raise CheckpointError(
                f"{self._path} is a link, which evidentia did not make. Name another folder."
            )
        found = np.fromfile(self._path, np.float64) if self._path.exists() else np.empty(0)
        found = found[: len(found) // width * width].reshape(-1, width)
        entries, checksums = found[:, :-1].copy(), found[:, -1].copy().view(np.uint64)
        is_whole = checksums == _checksums(entries)
        count = len(found) if is_whole.all() else int(np.argmin(is_whole))
        if is_whole[count:].any():
            raise CheckpointError(
                f"checkpoint {self._path.parent}: evaluation {count + 1:,} of {self._path.name} is damaged. Remove the files "
                "evaluations.* to evaluate all points anew, or name another folder."
            )
        return entries[:count]

    def _check_names(self, path: Path, names: list[str]) -> None:
        if not path.exists() and not self._path.exists():
            replace(path, checked_json.encode({"coordinates": names}))
        try:
            known = checked_json.decode(path.read_bytes())["coordinates"]
            listed = ", ".join(known)
        except (FileNotFoundError, ValueError, LookupError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {path.parent}: {path.name} is missing or damaged. Name another folder."
            ) from error
        if known != names:
            raise CheckpointError(
                f"checkpoint {path.parent} holds evaluations of a model with the parameters {listed}; this one has "
                f"{', '.join(names)}. Name another folder."
            )

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"checkpoint {self._path.parent}: {error.strerror or error}.")


def _checksums(entries: Entries) -> UInt64[np.ndarray, " points"]:
    """Of each entry by itself: 64 bits of BLAKE2b of its bytes."""
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in entries]
    return np.frombuffer(b"".join(digests), np.uint64)
