"""What fleets of streams share: batches by name, a model bound to the first, a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.checkpoint.packing import as_damaged, check_fields
from evidentia.data.arrays import checked_batch
from evidentia.data.digits import Digits
from evidentia.errors import CheckpointError, DataError, EvidentiaError, ModelError, check_seed, kind_of
from evidentia.evidence.method import Estimate
from evidentia.fleet.jobs import kept, seed_of
from evidentia.model.model import Model
from evidentia.monitor.change_records import ChangeState
from evidentia.monitor.e_detector import EDetectorState
from evidentia.online.fingerprint import Fingerprint, Known, bind_as_saved, fingerprint
from evidentia.online.packed import RECORDS
from evidentia.online.reservoir import NUM_BINDING_ROWS
from evidentia.streams.draws import Draws, Prior
from evidentia.streams.state import Shared, StreamState, shared
from evidentia.streams.stream import Stream
from evidentia.system.sharing import OneAtATime, check_not_forked

Name = str | int


class FleetStep(NamedTuple):
    """The result of one batch for each of many streams.

    Attributes:
        results: by name, for streams without an error: an `OnlineUpdate` (`OnlineFleet`) or a
            `ChangeReport` (`ChangeDetectorFleet`).
        errors: by name, the exception of each other stream, which is as it was before its batch.
    """

    results: dict[Name, Any]
    errors: dict[Name, Exception]


class Intake:
    """A model and a seed, and what streams share once the model is bound to a first batch."""

    def __init__(self, model: Model, seed: int):
        if not isinstance(model, Model):
            raise ModelError(f"model must be an evidentia.Model; got {kind_of(model)}.")
        check_seed(seed)
        self.model, self.seed = model, int(seed)
        self.common: Shared | None = None
        self._digits: dict[Name, Digits] = {}
        self.alone = OneAtATime()

    def read(self, batches: Any) -> tuple[dict[Name, Any], dict[Name, Exception]]:
        """The arrays of each batch by name, and the errors of the others. Binds the model."""
        if not isinstance(batches, Mapping):
            raise DataError(f"batches must map names of streams to batches; got {type(batches).__name__}.")
        arrays: dict[Name, Any] = {}
        errors: dict[Name, Exception] = {}
        for name, batch in cast("Mapping[Any, Any]", batches).items():
            if not isinstance(name, str | int):
                raise DataError(f"the names in batches must be strings or integers; got {name!r}.")
            try:
                digits = self._digits.setdefault(name, Digits(0))
                arrays[name] = self._checked(batch, f"batches[{name!r}]", digits)
            except EvidentiaError as error:
                errors[name] = kept(error)
        return arrays, errors

    def stream(self, name: Name) -> Stream:
        """A new stream, whose seed is made from the fleet's and its name."""
        assert self.common is not None
        return Stream(self.common, seed_of(self.seed, name), self.alone)

    def _checked(self, batch: Any, argument: str, digits: Digits) -> Any:
        known = None if self.common is None else self.common.example
        arrays = checked_batch(batch, argument, self.model.check_data, known, digits)
        if self.common is None:
            first_rows = jax.tree.map(itemgetter(slice(NUM_BINDING_ROWS)), arrays)
            example: Any = jax.tree.map(np.array, first_rows)
            self.common = shared(self.model, self.model.bind(arrays), example, self.seed)
        return arrays


class DetectorState(NamedTuple):
    """The state of a `ChangeDetector` and of its streams; `online` is None if it is `segment`."""

    change: ChangeState
    online: StreamState | None
    segment: StreamState
    candidates: tuple[StreamState, ...]


class Saved(NamedTuple):
    """The content of a checkpoint; `streams` is what the fleet keeps of each of `names`.

    Before the first batch, the last three are None.
    """

    kind: str
    settings: dict[str, Any]
    names: tuple[Name, ...]
    streams: tuple[Any, ...]
    fingerprint: Fingerprint | None
    example: Any
    prior: Prior | None


RECORDS_OF_FLEETS: dict[str, type] = RECORDS | {
    record.__name__: record
    for record in (Saved, StreamState, Draws, Prior, Estimate, DetectorState, ChangeState, EDetectorState)
}


def packed(kind: str, intake: Intake, settings: dict[str, Any], streams: Mapping[Name, Any]) -> Saved:
    """A fleet without the model's functions, for a checkpoint."""
    check_not_forked()
    common = intake.common
    known = (None, None, None)
    if common is not None:
        of_model = fingerprint(common.model, Known(common.prior.first, common.example))
        known = of_model, common.example, common.prior
    return Saved(kind, settings, tuple(streams), tuple(streams.values()), *known)


def unpacked(content: Any, kind: str, model: Model) -> tuple[Saved, Shared | None]:
    """A packed fleet of this kind, and what its streams share.

    Raises CheckpointError if it is damaged, or of another kind or model.
    """
    if not isinstance(content, Saved) or content.kind != kind:
        raise CheckpointError(f"content must be what {kind}.packed returned; got something else.")
    with as_damaged():
        check_fields(content)
        if len(content.names) != len(content.streams):
            raise ValueError("the numbers of names and streams differ")
        if content.fingerprint is None or content.prior is None:
            return content, None
        known = Known(content.prior.first, content.example)
        bound = bind_as_saved(content.fingerprint, model, known)
        return content, Shared(bound, model.check_data, content.example, content.prior)


def save(folder: str | Path, content: Saved, model: Model) -> None:
    """Write a checkpoint of a packed fleet. Raises CheckpointError."""
    with CheckpointFolder(folder) as checkpoints:
        summary = {"kind": content.kind, "streams": len(content.names), "model": model.name}
        checkpoints.write(content, summary)


def load(folder: str | Path, kind: str) -> Saved:
    """The content of a checkpoint. Raises CheckpointError."""
    content, _ = read(folder, RECORDS_OF_FLEETS)
    if not isinstance(content, Saved) or content.kind != kind:
        raise CheckpointError(f"folder must be one that {kind}.save wrote; {folder} holds something else.")
    return content
