"""Evaluations on disk, from which an interrupted run goes on.

A run with the same seed asks for the same points in the same order. So the values at these points
are all that a checkpoint needs: a run that is started again replays them, and evaluates only what
is new. Entries are appended, each of the same length; what a killed process left of one is
dropped.
"""

import json
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from jaxtyping import Float

from evidentia.errors import CheckpointError
from evidentia.model.outside.function import Points

VALUES = "evaluations.bin"  # float64: the coordinates of a point, and its value
ABOUT = "evaluations.json"


class Record:
    """The evaluations in a folder, of points with some coordinates.

    Raises:
        CheckpointError: the folder cannot be written to, is in use, or holds evaluations of points
            with other names.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]):
        self._path, self._size = folder / VALUES, len(names)
        self._lock = FileLock(folder / "evaluations.lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._check_names(folder / ABOUT, list(names))
            self._file = self._path.open("ab")
            width = 8 * (self._size + 1)
            self._file.truncate(self._path.stat().st_size // width * width)
        except Timeout as error:
            raise CheckpointError(f"checkpoint {folder} is in use by another run.") from error
        except OSError as error:
            self._lock.release()
            raise self._failed(error) from error
        except CheckpointError:
            self._lock.release()
            raise

    def read(self) -> tuple[Points, Float[np.ndarray, " points"]]:
        """All points recorded so far, and their values."""
        found = np.fromfile(self._path, np.float64).reshape(-1, self._size + 1)
        return found[:, :-1], found[:, -1]

    def append(self, points: Points, values: Float[np.ndarray, " points"]) -> None:
        """Record points and their values. Raises CheckpointError if that fails."""
        try:
            self._file.write(np.column_stack([points, values]).astype(np.float64).tobytes())
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file, and let other runs use the folder."""
        self._file.close()
        self._lock.release()

    def _check_names(self, path: Path, names: list[str]) -> None:
        if not path.exists() and not self._path.exists():
            new = path.with_suffix(".new")
            new.write_text(json.dumps({"coordinates": names}))
            new.replace(path)
        try:
            known = json.loads(path.read_text())["coordinates"]
        except (FileNotFoundError, ValueError, LookupError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {path.parent}: {path.name} is missing or damaged. Name another folder."
            ) from error
        if known != names:
            raise CheckpointError(
                f"checkpoint {path.parent} holds evaluations of a model with the parameters {', '.join(known)}; this one has "
                f"{', '.join(names)}. Name another folder."
            )

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"checkpoint {self._path.parent}: {error.strerror or error}.")
