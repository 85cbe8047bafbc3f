"""Checkpoints of averages, detectors and run lengths: one file with all of their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.checkpoint.packing import as_damaged
from evidentia.errors import CheckpointError, ConfigurationError, kind_of
from evidentia.model.model import Model
from evidentia.monitor.change_records import ChangeState
from evidentia.monitor.e_detector import Change, EDetectorState
from evidentia.monitor.hazards import BetaHazard
from evidentia.monitor.run_length_records import OnlineRunState
from evidentia.monitor.run_weights import RunWeights
from evidentia.online.online import Online
from evidentia.online.packed import RECORDS as OF_ONLINE

# The classes that the checkpoint of a detector, and that of run lengths, may contain.
OF_DETECTOR: dict[str, type] = OF_ONLINE | {
    record.__name__: record for record in (Change, ChangeState, EDetectorState)
}
OF_RUN_LENGTHS: dict[str, type] = OF_ONLINE | {
    record.__name__: record for record in (BetaHazard, OnlineRunState, RunWeights)
}

T = TypeVar("T")  # a detector, an average or run lengths, which are above this module


def packed_online(online: Any) -> dict[str, Any]:
    """A model's checkpoint. Raises CheckpointError unless it is an `Online`."""
    if not isinstance(online, Online):
        raise CheckpointError(
            f"only models of evidentia.Online can be saved; got {kind_of(online)}. Save its state and `state` yourself, and give "
            "both to `resume`."
        )
    return online.packed()


def packed_detector(detector: Any) -> dict[str, Any]:
    """The numbers and the models of a detector, but for `online`."""
    segment = None if detector.segment is detector.online else detector.segment
    return {
        "state": detector.state,
        "segment": segment and packed_online(segment),
        "candidates": [packed_online(candidate) for candidate in detector.candidates],
    }


def resume_detector(detector: Any, content: Mapping[str, Any], model: Model) -> None:
    """Give a new detector packed numbers and models. Raises CheckpointError if damaged."""
    with as_damaged():
        segment = content["segment"] and Online.unpacked(content["segment"], model)
        candidates = [Online.unpacked(one, model) for one in content["candidates"]]
        if not isinstance(content["state"], ChangeState):
            raise TypeError("the state of a detector is missing")
        detector.resume(content["state"], segment, candidates)


def write(folder: str | Path, kind: str, content: dict[str, Any], num_observations: int) -> None:
    """Write a checkpoint of a kind of object."""
    with CheckpointFolder(folder) as checkpoints:
        checkpoints.write({"kind": kind, **content}, {"kind": kind, "num_observations": num_observations})


def read_detector(new: Callable[..., T], folder: str | Path, model: Model) -> T:
    """A detector from its checkpoint."""
    content = _read(folder, "detector", OF_DETECTOR, "ChangeDetector")
    with as_damaged():
        detector = new(Online.unpacked(content["online"], model), **content["settings"])
    resume_detector(detector, content, model)
    return detector


def read_run_lengths(new: Callable[..., T], folder: str | Path, model: Model) -> T:
    """Run lengths of any model from their checkpoint."""
    content = _read(folder, "run lengths", OF_RUN_LENGTHS, "OnlineRunLengths")
    with as_damaged():
        runs: Any = new(Online.unpacked(content["online"], model), **content["settings"])
        return runs.resume(content["state"], [Online.unpacked(one, model) for one in content["runs"]])


def read_average(new: Callable[..., T], folder: str | Path, models: Mapping[str, Model], state: type) -> T:
    """An average from its checkpoint, whose numbers are a `state`."""
    content = _read(folder, "average", OF_ONLINE | {state.__name__: state}, "ModelAverage")
    if not isinstance(models, Mapping) or set(models) != set(content["onlines"]):
        given = ", ".join(map(str, models)) if isinstance(models, Mapping) else kind_of(models)
        raise ConfigurationError(
            f"models must map the names of the checkpoint, {', '.join(content['onlines'])}, to their models; got {given}."
        )
    with as_damaged():
        onlines = {name: Online.unpacked(one, models[name]) for name, one in content["onlines"].items()}
        average: Any = new(onlines, **content["settings"])
        return average.resume(content["state"])


def _read(folder: str | Path, kind: str, records: Mapping[str, type], name: str) -> Mapping[str, Any]:
    content, _ = read(folder, records)
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise CheckpointError(f"folder must be one that {name}.save wrote; {folder} holds something else.")
    return cast("dict[str, Any]", content)
