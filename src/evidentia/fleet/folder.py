"""The folder of a fleet: finished records as Parquet parts, one row per task, to resume from.

A part is written as a whole (`storage.replace`), so a killed process leaves whole parts only and
loses the seconds since the last one; its name ends with the beginning of its SHA-256.
`manifest.json` has what a resumed fleet must share: the seed, the method and the models, by the
hash of what they compute.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import evidentia.errors as known_errors
from evidentia.checkpoint.packing import check_fields
from evidentia.errors import CheckpointError, EvidentiaError
from evidentia.fleet.record import FleetEvidence, FleetRecord
from evidentia.system import checked_json
from evidentia.system.locking import FolderLock
from evidentia.system.storage import content, exists, folder_of, replace

FORMAT = 1
MANIFEST = "manifest.json"
PART = re.compile(r"part-(\d{6,})-([0-9a-f]{16})\.parquet")  # number, and beginning of the SHA-256
MAX_ROWS, MAX_SECONDS = 3000, 5.0  # pending in memory before a part is written
SCALARS = ("model_name", "log_evidence", "standard_error", "num_observations", "seed", "seconds")
TEXTS = ("mean", "deviation", "diagnostics", "signs")  # JSON


class FleetFolder:
    """Context manager for the folder of a fleet, locked for this process.

    Args:
        path: created if missing.
        settings: what must be the same when a fleet is resumed, by the argument's name.

    Raises:
        CheckpointError: the folder belongs to a fleet with other settings, is in use, is damaged,
            or cannot be written to.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, str]):
        self.path = folder_of("folder", path)
        self._lock = FolderLock(self.path, "folder")
        self._settings = dict(settings)
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._pending: list[dict[str, Any]] = []
        self._num_parts, self._written = 0, time.monotonic()

    def __enter__(self) -> FleetFolder:
        try:
            self._lock.__enter__()
        except OSError as error:
            raise CheckpointError(f"folder {self.path} cannot be written to ({error.strerror}).") from error
        try:
            known = self._known_settings()
            self._read()
            self._write_settings(known)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.flush()
        finally:
            self._lock.__exit__(None, None, None)

    def settle(self, name: str, value: str) -> None:
        """Check a setting that becomes known with the data; write it down if it is new."""
        if name not in self._settings:
            self._settings[name] = value
            self._write_settings(self._known_settings())

    def find(self, name: str | int, data: str, models: tuple[str, ...]) -> FleetRecord | None:
        """The record of a data set with this fingerprint; None unless it has all models."""
        rows = {model: self._rows.get((str(name), model)) for model in models}
        if not all(row is not None and row["data"] == data for row in rows.values()):
            return None
        try:
            found = {model: _outcome(row) for model, row in rows.items() if row is not None}
        except Exception as error:  # of any kind, as anything can be missing
            raise CheckpointError(
                f"the record of {name!r} in folder {self.path} is damaged: {error}."
            ) from error
        return record_of(name, found)

    def keep(self, record: FleetRecord, data: str) -> None:
        """Add a record; errors not about model or data are left out and tried again."""
        for model, evidence in record.evidences.items():
            self._pending.append(_row(record.name, data, model, evidence))
        for model, error in record.errors.items():
            if isinstance(error, EvidentiaError):
                self._pending.append(_row(record.name, data, model, error))
        if len(self._pending) >= MAX_ROWS or time.monotonic() - self._written > MAX_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is pending as a new part."""
        if not self._pending:
            return
        import pyarrow as pa  # slow to import
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(self._pending, _schema()), sink)
        data = sink.getvalue().to_pybytes()
        try:
            replace(self.path / f"part-{self._num_parts:06d}-{_digest(data)[:16]}.parquet", data)
        except OSError as error:
            raise CheckpointError(f"folder {self.path} cannot be written to: {error}") from error
        self._pending, self._written = [], time.monotonic()
        self._num_parts += 1

    def _known_settings(self) -> dict[str, str]:
        """The settings in the manifest. Raises CheckpointError if ours are others."""
        manifest = self.path / MANIFEST
        try:
            found = _settings_in(manifest) if exists(manifest) else {}
        except OSError as error:
            raise CheckpointError(f"{manifest} cannot be read: {error}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointError(f"{manifest} is damaged: {error}") from error
        for name, value in self._settings.items():
            if (before := found.get(name, value)) != value:
                what = f"is {value}, and was {before}," if len(before) < 200 else "was another"
                raise CheckpointError(
                    f"{name} {what} in the fleet of folder {self.path}. Use another folder, or the same models, method and seed."
                )
        return found

    def _write_settings(self, known: dict[str, str]) -> None:
        """Write a manifest if there are more settings than those known."""
        if known.keys() >= self._settings.keys():
            return
        about = {"format": FORMAT, "settings": {**known, **self._settings}}
        try:
            replace(self.path / MANIFEST, checked_json.encode(about))
        except OSError as error:
            raise CheckpointError(f"folder {self.path} cannot be written to: {error}") from error

    def _read(self) -> None:
        for part in sorted(self.path.glob("part-*.parquet")):
            name = PART.fullmatch(part.name)
            if name is None:
                raise CheckpointError(
                    f"{part} is damaged or was not written by this version: its name ends with no checksum. Name another folder."
                )
            self._rows.update({(row["name"], row["model"]): row for row in _rows_in(part, name[2])})
            self._num_parts = 1 + int(name[1])


def _settings_in(manifest: Path) -> dict[str, str]:
    data = content(manifest)
    if (written := json.loads(data)["format"]) != FORMAT:
        raise CheckpointError(f"{manifest} has format {written}, and this version reads format {FORMAT}.")
    settings = checked_json.decode(data)["settings"]
    if not all(isinstance(each, str) for each in settings.values()):
        raise TypeError("its settings are not texts")
    return settings


def _rows_in(part: Path, digest: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # slow to import

    try:
        data = content(part)
        if _digest(data)[:16] != digest:
            raise ValueError("it does not match the SHA-256 in its name")
        return pq.read_table(io.BytesIO(data), schema=_schema()).to_pylist()
    except Exception as error:  # pyarrow has many
        raise CheckpointError(f"{part} is damaged: {error}. Remove it to compute its tasks anew.") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def record_of(name: str | int, outcomes: Mapping[str, FleetEvidence | Exception]) -> FleetRecord:
    """The record of a data set from the outcomes of all models."""
    return FleetRecord(
        name,
        {model: each for model, each in outcomes.items() if not isinstance(each, Exception)},
        {model: each for model, each in outcomes.items() if isinstance(each, Exception)},
    )


def fingerprint(data: Any) -> str:
    """A hash of a data set: of arrays by their values, of tables by their pickled form."""
    digest = hashlib.blake2b(digest_size=16)
    leaves, structure = jax.tree.flatten(data)
    if all(isinstance(leaf, np.ndarray) for leaf in leaves):
        digest.update(repr((structure, [(leaf.shape, str(leaf.dtype)) for leaf in leaves])).encode())
        for leaf in leaves:
            digest.update(np.ascontiguousarray(leaf).tobytes())
    else:
        digest.update(pickle.dumps(data))
    return digest.hexdigest()


def _schema() -> Any:
    import pyarrow as pa

    text, number, count = pa.string(), pa.float64(), pa.int64()
    scalars = zip(SCALARS, (text, number, number, count, count, number), strict=True)
    texts = [(name, text) for name in (*TEXTS, "response", "constant", "error", "message")]
    keys = [("name", text), ("data", text), ("model", text)]
    return pa.schema([*keys, *scalars, *texts, ("draws", pa.binary())])


def _row(name: str | int, data: str, model: str, outcome: FleetEvidence | Exception) -> dict[str, Any]:
    keys = {"name": str(name), "data": data, "model": model}
    if isinstance(outcome, Exception):
        return {**keys, "error": type(outcome).__name__, "message": str(outcome)}
    arrays = {
        part: {name: np.asarray(value).tolist() for name, value in getattr(outcome, part).items()}
        for part in ("mean", "deviation")
    }
    texts = {**arrays, "diagnostics": dict(outcome.diagnostics), "signs": dict(outcome.signs)}
    draws = [np.asarray(value, np.float32).tobytes() for value in outcome.posterior.values()]
    return {
        **keys,
        **{name: getattr(outcome, name) for name in (*SCALARS, "response", "constant")},
        **{name: json.dumps(value) for name, value in texts.items()},
        "draws": b"".join(draws),
    }


def _outcome(row: Mapping[str, Any]) -> FleetEvidence | Exception:
    if row["error"] is not None:
        known = {each.__name__: each for each in vars(known_errors).values() if isinstance(each, type)}
        kind = known.get(row["error"], EvidentiaError)
        return kind(row["message"]) if issubclass(kind, EvidentiaError) else EvidentiaError(row["message"])
    texts = {name: json.loads(row[name]) for name in TEXTS}
    arrays = {
        part: {name: np.array(value, np.float64) for name, value in texts[part].items()}
        for part in ("mean", "deviation")
    }
    columns = sum(value.size for value in arrays["mean"].values())
    flat, start, posterior = np.frombuffer(row["draws"], np.float32), 0, {}
    count = len(flat) // columns if columns else 0
    for name, value in arrays["mean"].items():
        posterior[name] = flat[start : start + count * value.size].reshape(count, *value.shape)
        start += count * value.size
    kept = {name: row[name] for name in (*SCALARS, "response", "constant")}
    rest = {"diagnostics": texts["diagnostics"], "signs": texts["signs"]}
    found = FleetEvidence(**kept, **arrays, **rest, posterior=posterior)
    check_fields(found)
    return found
