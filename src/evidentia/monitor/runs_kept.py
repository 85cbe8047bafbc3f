"""The checkpoint of `RunLengths`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np

from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.checkpoint.packing import as_damaged
from evidentia.errors import CheckpointError
from evidentia.monitor.conjugate.protocol import Conjugate
from evidentia.monitor.hazards import BetaHazard
from evidentia.monitor.run_state import RunLengthState, Seen
from evidentia.monitor.run_weights import RunWeights
from evidentia.monitor.segmentation import BestPaths

RECORDS = {record.__name__: record for record in (RunLengthState, RunWeights, BestPaths, BetaHazard)}


def save_state(
    folder: str | Path,
    model: Conjugate,
    settings: dict[str, Any],
    state: RunLengthState,
    past: Iterable[Seen],
) -> None:
    """Write a checkpoint. Raises CheckpointError if it cannot be written."""
    past = tuple(past)
    content = {
        "run_lengths": settings,
        "model": type(model).__name__,
        "prior": model.prior,
        "state": state,
        "counts": np.array([len(seen.starts) for seen in past], np.int64),
        "rows": np.stack([seen.row for seen in past]) if past else np.empty((0, 1)),
        "starts": np.concatenate([np.empty(0, np.int64), *(seen.starts for seen in past)]),
        "probabilities": np.concatenate([np.empty(0), *(seen.probabilities for seen in past)]),
    }
    with CheckpointFolder(folder) as checkpoints:
        checkpoints.write(
            content, {"num_observations": state.num_observations, "model": type(model).__name__}
        )


def load_state(
    folder: str | Path, model: Conjugate
) -> tuple[dict[str, Any], RunLengthState, tuple[Seen, ...]]:
    """Settings, state and past rows of a checkpoint.

    Raises CheckpointError if there is none, it is damaged, or of another model.
    """
    found, _ = read(folder, RECORDS)
    if not isinstance(found, dict) or "run_lengths" not in found:
        raise CheckpointError(
            f"folder must be one that RunLengths.save wrote; {folder} holds something else."
        )
    content = cast(dict[str, Any], found)
    with as_damaged():
        same = content["model"] == type(model).__name__ and np.array_equal(content["prior"], model.prior)
        if not same:
            raise CheckpointError(
                f"model must be the one that was saved, a {content['model']} with the prior {content['prior']}; "
                f"got a {type(model).__name__} with the prior {model.prior}."
            )
        edges = np.cumsum(content["counts"])[:-1]
        starts, probabilities = (np.split(content[name], edges) for name in ("starts", "probabilities"))
        rows = content["rows"]
        past = tuple(Seen(*one) for one in zip(rows, starts, probabilities, strict=True)) if len(rows) else ()
        return content["run_lengths"], content["state"], past
