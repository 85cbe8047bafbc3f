"""Folders of saved results: JSON and Parquet, always the old or the new result, never a mixture.

`evidence.json` holds all that is not an array, the names of the Parquet files with their SHA-256,
and its own SHA-256. The files of a new result have other names than those of the old one; they are
written and synced first, then `evidence.json` is replaced in one step, then the old files are
removed.
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
from evidentia.errors import CheckpointError, ConfigurationError, DataError
from evidentia.storage import content as content_of
from evidentia.storage import exists, is_folder, is_remote, place, replace, sync_folder
from evidentia.trajectory import Trajectory

FORMAT = 1
MAGIC = "evidentia evidence"
INDEX = "evidence.json"
PACKAGES = "evidentia", "jax", "numpyro"
OWN_FILES = re.compile(r"(evidence\.json|[a-z_]+-[0-9a-f]{16}\.parquet)(\.new)?")


def write_result(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Save the fields of an `Evidence` into a folder.

    Raises:
        ConfigurationError: `path` is not the name of a folder.
        CheckpointError: the folder has other files, cannot be written to, or a field cannot be
            held. A result that was there stays.
    """
    folder = _folder(path)
    try:
        if foreign := foreign_file(folder):
            raise CheckpointError(
                f"{foreign} was not written by Evidence.save. Name another folder, or move the file."
            )
        index, files = _encoded(fields)
        if not is_remote(folder):  # a store has no folders
            folder.mkdir(parents=True, exist_ok=True)
        try:
            for name, data in files.items():
                replace(folder / name, data)
            sync_folder(folder)  # before the index names them
            replace(folder / INDEX, index)
            sync_folder(folder)
        finally:
            _remove_unused(folder)
    except OSError as error:
        raise CheckpointError(
            f"the result could not be saved in {folder}: {reason_of(error)}. A result that was there is unchanged."
        ) from error


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of an `Evidence` that `write_result` saved.

    Raises:
        ConfigurationError: `path` is not the name of a folder.
        CheckpointError: it holds no saved result, a damaged one, or one of a newer format.
    """
    folder = _folder(path)
    index = folder / INDEX
    try:
        if not exists(index):
            raise CheckpointError(f"{folder} holds no saved result: {_what_is_there(folder)}.")
        return _decoded(folder, _content(index))
    except CheckpointError:
        raise
    except Exception as error:  # of any kind: the readers of formats raise what they like
        raise CheckpointError(
            f"the result in {folder} is damaged: {reason_of(error)}. Restore it from a copy, or save it again."
        ) from error


def foreign_file(folder: Path) -> Path | None:
    """A file that hinders saving into a folder, as `write_result` has not written it, if any."""
    if not exists(folder):
        return None
    if not is_folder(folder):
        return folder
    foreign = (each for each in sorted(folder.iterdir()) if not OWN_FILES.fullmatch(each.name))
    index = folder / INDEX
    return next(foreign, index if exists(index) and not _is_ours(index) else None)


def _folder(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConfigurationError(f"path must be the name of a folder; got {path!r}.")
    try:
        return place(path)
    except DataError as error:
        raise ConfigurationError(f"path must be the name of a folder; got {path!r}: {error}") from error


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


def _content(index: Path) -> dict[str, Any]:
    found = json.loads(content_of(index))
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


def _remove_unused(folder: Path) -> None:
    """Remove our files that the index does not name, of an older result or a failed attempt."""
    used = {INDEX}
    with suppress(Exception):  # an index that cannot be read may still need them; leftovers do no harm
        if exists(folder / INDEX):
            used |= {about["file"] for about in _content(folder / INDEX)["tables"].values()}
        for each in folder.iterdir():
            if OWN_FILES.fullmatch(each.name) and each.name not in used:
                each.unlink()
