"""What every monitor of a stream does, and what it tells of a batch of a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from evidentia.monitor.average_records import AverageState
from evidentia.monitor.hazards import BetaHazard
from evidentia.monitor.run_state import RunLengthState
from evidentia.monitor.run_weights import RunWeights
from evidentia.monitor.segmentation import BestPaths
from evidentia.service.batches import Batch
from evidentia.service.settings import Columns
from evidentia.streams.intake import RECORDS_OF_FLEETS

# The classes that a checkpoint of a monitor may contain.
RECORDS: dict[str, type] = RECORDS_OF_FLEETS | {
    record.__name__: record for record in (AverageState, BetaHazard, BestPaths, RunLengthState, RunWeights)
}


class Outcome(NamedTuple):
    """The result of a batch of one key; log evidences in nats.

    Attributes:
        num_observations: rows of the key so far.
        batch_size: rows of the batch.
        log_predictive: log p(batch | rows before), of the average if there are several models.
        log_evidence, standard_error: of all rows of the key, by model.
        probabilities: of the models.
        alarms: the changes found in this batch: row, interval, and the numbers of the detector.
        residual: the first row of the batch minus its predictive mean, in units of the predictive
            standard deviation; NaN if the model does not tell.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: dict[str, float]
    standard_error: dict[str, float]
    probabilities: dict[str, float]
    alarms: tuple[dict[str, Any], ...] = ()
    residual: float = float("nan")


class Monitor(Protocol):
    """What each kind of monitor does.

    Attributes:
        models: names of its models.
    """

    models: tuple[str, ...]

    def update(self, batches: Mapping[str, Batch]) -> dict[str, Outcome | Exception]:
        """Process a batch of each of some keys. A key with an error is as it was before."""
        ...

    def forget(self, key: str) -> None:
        """Remove a key, if it is there."""
        ...

    def packed(self) -> Any:
        """The state, for a checkpoint; see `RECORDS`."""
        ...

    def restore(self, content: Any) -> None:
        """Take the state of a checkpoint. Raises CheckpointError."""
        ...


def arrays_of(batch: Batch, columns: Columns | dict[str, Columns]) -> Any:
    """The arrays of a batch in the structure that the settings give: a vector or a matrix each."""
    if isinstance(columns, dict):
        return {name: arrays_of(batch, each) for name, each in columns.items()}
    if isinstance(columns, str):
        return batch.columns[columns]
    return np.stack([batch.columns[name] for name in columns], axis=1)
