"""Expansion of paths and patterns to files, in a fixed order."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from evidentia.errors import ConfigurationError, DataError

Paths: TypeAlias = str | Path | Sequence[str | Path]


def expanded(paths: Paths) -> list[Path]:
    """Expand `paths` to files and folders in the order given, sorting the matches of a pattern.

    Names are sorted as text, so part-10 comes before part-2, and part-02 before part-10.

    Raises:
        ConfigurationError: no paths.
        DataError: a pattern without matches, a file named twice, a pipe, or an inaccessible path.
    """
    given = [paths] if isinstance(paths, str | Path) else paths
    if (
        not isinstance(given, Sequence)
        or not all(isinstance(path, str | Path) for path in given)
        or not given
    ):
        raise ConfigurationError(f"paths must be a path, a pattern, or a list of these; got {paths!r}.")
    found = [path for pattern in given for path in _matches(in_home(pattern))]
    counts = Counter(path.resolve() for path in found)
    if twice := [str(path) for path, count in counts.items() if count > 1]:
        raise DataError(
            f"{', '.join(twice[:5])}: named more than once; its rows would be counted more than once."
        )
    return found


def in_home(path: str | Path) -> Path:
    """The path with ~ replaced by the home folder. Raises DataError for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise DataError(f"{path}: there is no user {user[1:]!r} whose home folder {user} could be.") from None


def _matches(path: Path) -> list[Path]:
    try:
        is_name = path.exists() or not glob.has_magic(str(path))
    except OSError as error:  # a parent folder without permission, a removed disk
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    if is_name:
        _check_rereadable(path)
        return [path]
    if not (matches := sorted(Path(name) for name in glob.glob(str(path), recursive=True))):
        raise DataError(f"no file matches {path}. Check the pattern.")
    for match in matches:
        _check_rereadable(match)
    return matches


def _check_rereadable(path: Path) -> None:
    """Raise DataError for a pipe or a device: files are opened several times, also to resume."""
    if os.path.exists(path) and not (path.is_file() or path.is_dir()):
        kind = "a named pipe" if path.is_fifo() else "a device or a socket"
        raise DataError(
            f"{path} is {kind}, which can be read only once; a file is needed. For rows from another program, use - "
            "(evidentia stream -), with an Arrow IPC stream on standard input; or let the program append to a CSV "
            "file, and follow that (--follow)."
        )
