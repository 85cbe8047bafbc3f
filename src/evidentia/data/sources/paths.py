"""Expansion of paths, patterns and URLs to files, in a fixed order."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from evidentia.errors import ConfigurationError, DataError
from evidentia.system.storage import attempted, is_remote, place

Paths: TypeAlias = str | Path | Sequence[str | Path]


def expanded(paths: Paths) -> list[Path]:
    """Expand `paths` to files and folders in the order given, sorting the matches of a pattern.

    Names are sorted as text, so part-10 comes before part-2, and part-02 before part-10.

    Raises:
        ConfigurationError: no paths; or a URL, as `storage.place`.
        DataError: a pattern without matches, a file named twice, a pipe, or an inaccessible path.
    """
    given = [paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else paths
    if not given or not all(isinstance(path, str | Path) or _is_place(path) for path in given):
        raise ConfigurationError(f"paths must be a path, a pattern, or a list of these; got {paths!r}.")
    found = [path for pattern in given for path in _matches(place(pattern))]
    counts = Counter(path if is_remote(path) else path.resolve() for path in found)
    if twice := [str(path) for path, count in counts.items() if count > 1]:
        raise DataError(
            f"{', '.join(twice[:5])}: named more than once; its rows would be counted more than once."
        )
    return found


def _is_place(path: Any) -> bool:
    """Whether it is a path of a store, as `storage.place` makes them."""
    return hasattr(path, "fs") and hasattr(path, "open")


def _matches(path: Path) -> list[Path]:
    if is_remote(path):
        return _remote_matches(path)
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


def _remote_matches(path: Any) -> list[Path]:
    """The objects of a store that match a pattern; a URL without a pattern itself."""
    if not glob.has_magic(path.path):
        return [path]
    try:
        names = attempted(lambda: path.fs.glob(path.path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    if not names:
        raise DataError(f"no object matches {path}. Check the pattern.")
    return [place(path.fs.unstrip_protocol(name)) for name in sorted(names)]


def _check_rereadable(path: Path) -> None:
    """Raise DataError for a pipe or a device: files are opened several times, also to resume."""
    if os.path.exists(path) and not (path.is_file() or path.is_dir()):
        kind = "a named pipe" if path.is_fifo() else "a device or a socket"
        raise DataError(
            f"{path} is {kind}, which can be read only once; a file is needed. For rows from another program, use - "
            "(evidentia stream -), with an Arrow IPC stream on standard input; or let the program append to a CSV "
            "file, and follow that (--follow)."
        )
