"""Folders of saved results: JSON and Parquet, always the old or the new result, never a mixture.

`evidence.json` holds all that is not an array, the names of the Parquet files with their SHA-256,
and its own SHA-256. The files of a new result have other names than those of the old one; they are
written and synced first, then `evidence.json` is replaced in one step, then the old files are
removed. One thread or process saves at a time; the others wait. An object store has no lock: there
only the files of the result that was replaced are removed.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from evidentia.checkpoint.folder import reason_of
from evidentia.checkpoint.methods import pack_method, unpack_method
from evidentia.checkpoint.packing import pack, unpack
from evidentia.checkpoint.tables import decode, encode
from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.system.locking import FolderLock
from evidentia.system.storage import content as content_of
from evidentia.system.storage import exists, folder_of, is_folder, is_remote, replace, sync_folder
from evidentia.trajectory import Trajectory

FORMAT = 1
MAGIC = "evidentia evidence"
INDEX = "evidence.json"
PACKAGES = "evidentia", "jax", "numpyro"
ATTEMPTS = 100  # to read a result that others replace meanwhile
OWN_FILES = re.compile(r"(evidence\.json|[a-z_]+-[0-9a-f]{16}\.parquet)(\.new)?|\.[0-9a-f]{16}\.new")
LOCK_FILES = re.compile(r"lock(\.holder)?")


def write_result(path: str | os.PathLike[str], fields: Mapping[str, Any], *, patience: float = 60.0) -> None:
    """Save the fields of an `Evidence` into a folder.

    If another one is saving, which takes milliseconds, it waits for at most `patience` seconds.

    Raises:
        ConfigurationError: `path` is not the name of a folder.
        CheckpointError: the folder has other files, cannot be written to, or a field cannot be
            held. A result that was there stays.
    """
    folder = folder_of("path", path)
    try:
        _check_own(folder)  # before the folder is made or locked
        index, files = _encoded(fields)
        with FolderLock(folder, "the folder", patience=patience, is_kept=False):
            _check_own(folder)
            _write(folder, index, files)
    except OSError as error:
        raise CheckpointError(
            f"the result could not be saved in {folder}: {reason_of(error)}. A result that was there is unchanged."
        ) from error


def _write(folder: Path, index: bytes, files: Mapping[str, bytes]) -> None:
    """Write the files of a result, then its index, and remove those that no index names."""
    before = _named_files(folder)
    try:
        for name, data in files.items():
            replace(folder / name, data)
        sync_folder(folder)  # before the index names them
        replace(folder / INDEX, index)
    finally:
        _remove_unused(folder, before | set(files))
    try:
        sync_folder(folder)
    except OSError as error:
        raise CheckpointError(
            f"the result was saved in {folder}, but the folder could not be synced to disk: {reason_of(error)}. A power "
            "failure could bring back the previous one."
        ) from error


def _check_own(folder: Path) -> None:
    if foreign := foreign_file(folder):
        raise CheckpointError(
            f"{foreign} was not written by Evidence.save. Name another folder, or move the file."
        )


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of an `Evidence` that `write_result` saved.

    Raises:
        ConfigurationError: `path` is not the name of a folder.
        CheckpointError: it holds no saved result, a damaged one, or one of a newer format.
    """
    folder = folder_of("path", path)
    index = folder / INDEX
    try:
        if not exists(index):
            raise CheckpointError(f"{folder} holds no saved result: {_what_is_there(folder)}.")
        return _read(folder, index)
    except (CheckpointError, ConfigurationError):
        raise
    except Exception as error:  # of any kind: the readers of formats raise what they like
        raise CheckpointError(
            f"the result in {folder} is damaged: {reason_of(error)}. Restore it from a copy, or save it again."
        ) from error


def _read(folder: Path, index: Path) -> dict[str, Any]:
    """The fields of the result that an index names, or of one that replaces it meanwhile."""
    for _ in range(ATTEMPTS):
        found = content_of(index)
        try:
            return _decoded(folder, _content(found, index))
        except FileNotFoundError:
            if content_of(index) == found:
                raise
    raise TimeoutError("it is replaced again and again")


def foreign_file(folder: Path) -> Path | None:
    """A file that hinders saving into a folder, as `write_result` has not written it, if any."""
    if not exists(folder):
        return None
    if not is_folder(folder):
        return folder
    foreign = (each for each in sorted(folder.iterdir()) if not _has_own_name(each))
    index = folder / INDEX
    return next(foreign, index if exists(index) and not _is_ours(index) else None)


def _has_own_name(path: Path) -> bool:
    """Whether a file has one of our names, and is no link to somewhere else."""
    is_link = not is_remote(path) and path.is_symlink()
    return not is_link and any(names.fullmatch(path.name) for names in (OWN_FILES, LOCK_FILES))


def _what_is_there(folder: Path) -> str:
    if not exists(folder):
        return "there is no such folder"
    if not is_folder(folder):
        return "it is a file. Name the folder"
    inside = sorted(each.parent.name for each in folder.glob(f"*/{INDEX}"))
    return f"name one of the folders in it ({', '.join(inside)})" if inside else f"it has no {INDEX}"


def _encoded(fields: Mapping[str, Any]) -> tuple[bytes, dict[str, bytes]]:
    """The index, and the other files by their names."""
    arrays: list[np.ndarray] = []  # of diagnostics, which may hold any
    trajectory: Trajectory = fields["trajectory"]
    kept = {"trajectory", "posterior", "log_weights", "method"}
    try:
        values = {name: pack(value, arrays) for name, value in fields.items() if name not in kept}
        tables = {
            "trajectory": {name: trajectory[name] for name in trajectory.columns},
            "posterior": {name: np.asarray(each) for name, each in fields["posterior"].items()},
            "log_weights": {"log_weights": np.asarray(fields["log_weights"])},
        }
        if arrays:
            tables["arrays"] = {str(place): array[None] for place, array in enumerate(arrays)}
        encoded = {name: encode(table) for name, table in tables.items()}
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the result cannot be saved: {reason_of(error)}.") from error
    digests = {name: hashlib.sha256(data).hexdigest() for name, (data, _) in encoded.items()}
    names = {name: f"{name}-{digest[:16]}.parquet" for name, digest in digests.items()}
    content = {
        "versions": {package: version(package) for package in PACKAGES},
        "values": values,
        "method": pack_method(fields["method"]),
        "tables": {
            name: {"file": names[name], "sha256": digests[name], "arrays": layout}
            for name, (_, layout) in encoded.items()
        },
    }
    index = {"file": MAGIC, "format": FORMAT, "sha256": _digest(content), "content": content}
    files = {names[name]: data for name, (data, _) in encoded.items()}
    return json.dumps(index, indent=1, allow_nan=False).encode() + b"\n", files


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _is_ours(index: Path) -> bool:
    """Whether a file is the index of a saved result, of any format."""
    try:
        return json.loads(content_of(index))["file"] == MAGIC
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False


def _content(data: bytes, index: Path) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict) or found.get("file") != MAGIC:
        raise CheckpointError(f"{index} was not written by Evidence.save.")
    if not isinstance(found["format"], int) or found["format"] < 1:
        raise ValueError("its format is not a number")
    if found["format"] > FORMAT:
        raise CheckpointError(
            f"{index} has the format {found['format']} of a newer version of evidentia; this version reads format {FORMAT}. "
            "Install the newer version."
        )
    if _digest(found["content"]) != found["sha256"]:
        raise ValueError(f"the content of {INDEX} does not match its SHA-256")
    return found["content"]


def _decoded(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    tables = {}
    for name, about in content["tables"].items():
        if not OWN_FILES.fullmatch(about["file"]):
            raise ValueError(f"{about['file']} is no file of a result")
        data = content_of(folder / about["file"])
        if hashlib.sha256(data).hexdigest() != about["sha256"]:
            raise ValueError(f"{about['file']} does not match its SHA-256")
        tables[name] = decode(data, about["arrays"])
    arrays = [array[0] for array in tables.get("arrays", {}).values()]
    return {
        **{name: unpack(value, arrays) for name, value in content["values"].items()},
        "trajectory": Trajectory(**tables["trajectory"]),
        "posterior": tables["posterior"],
        "log_weights": tables["log_weights"]["log_weights"],
        "method": unpack_method(content["method"]),
    }


def _named_files(folder: Path) -> set[str]:
    """The files that the index of a folder names; none if there is no whole index."""
    with suppress(Exception):
        index = folder / INDEX
        if exists(index):
            return {about["file"] for about in _content(content_of(index), index)["tables"].values()}
    return set()


def _remove_unused(folder: Path, known: set[str]) -> None:
    """Remove our files that the index does not name, of an older result or a failed attempt.

    In a store only those of `known`: others may belong to a result that is being saved.
    """
    with suppress(Exception):  # leftovers do no harm
        index, used = folder / INDEX, {INDEX}
        if exists(index):  # one that cannot be read may still need them
            used |= {about["file"] for about in _content(content_of(index), index)["tables"].values()}
        for each in folder.iterdir():
            is_candidate = each.name in known if is_remote(folder) else OWN_FILES.fullmatch(each.name)
            if is_candidate and each.name not in used:
                each.unlink()
