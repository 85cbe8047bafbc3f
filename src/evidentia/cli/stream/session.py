"""The core of `evidentia stream`: several models on one source, without input and output.

All models process a batch, or none does. One checkpoint holds the complete state and the position
in the source, so that a stopped run resumes as if uninterrupted.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from evidentia.checkpoint.packing import as_damaged, check_fields
from evidentia.data.batches import Batch
from evidentia.data.fingerprint import sum_of_hashes
from evidentia.errors import CheckpointError
from evidentia.model.model import Model
from evidentia.monitor.average import ModelAverage
from evidentia.monitor.change import ChangeDetector
from evidentia.monitor.change_records import ChangeReport
from evidentia.monitor.e_detector import Change
from evidentia.monitor.protocols import all_or_none
from evidentia.monitor.saving import OF_DETECTOR, packed_detector, resume_detector
from evidentia.online.online import Online, OnlineUpdate
from evidentia.results.configurations import jsonable
from evidentia.results.result import Evidence


class Alarm(NamedTuple):
    """A change detected for one of the models."""

    model: str
    change: Change

    def to_dict(self) -> dict[str, Any]:
        """Return the alarm as a dictionary for JSON."""
        return jsonable({"model": self.model, **self.change._asdict()})


class SessionUpdate(NamedTuple):
    """The result of a batch.

    Attributes:
        num_observations: number of rows so far, including this batch.
        batch_size: number of rows in this batch.
        num_dropped: number of rows dropped so far because of missing values.
        updates: the result of each model's `update`, by name.
        probabilities: posterior model probabilities by name, from a uniform prior.
        reports: reports of the change detectors by model name; empty without detectors.
        alarms: the changes detected in this batch.
        seconds: time for this batch.
    """

    num_observations: int
    batch_size: int
    num_dropped: int
    updates: dict[str, OnlineUpdate]
    probabilities: dict[str, float]
    reports: dict[str, ChangeReport]
    alarms: tuple[Alarm, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the update as a dictionary for JSON; non-finite numbers become None."""
        shown = "log_evidence", "standard_error", "log_predictive", "num_annealing_steps"
        models: dict[str, dict[str, Any]] = {
            name: {
                **{column: getattr(update, column) for column in shown},
                "probability": self.probabilities[name],
            }
            for name, update in self.updates.items()
        }
        for name, report in self.reports.items():
            models[name] |= {"log_e_value": report.log_e_value, "annealing_spike": report.annealing_spike}
        counts = {name: getattr(self, name) for name in ("num_observations", "batch_size", "num_dropped")}
        alarms = [alarm.to_dict() for alarm in self.alarms]
        return jsonable({**counts, "models": models, "alarms": alarms, "seconds": self.seconds})


# The classes that a session's checkpoint may contain.
RECORDS: dict[str, type] = OF_DETECTOR | {"Alarm": Alarm}

COUNTS = "position", "num_dropped", "observations", "alarms", "seconds"  # of a session, saved with it


class Packed(NamedTuple):
    """The content of a session's checkpoint: the packed `onlines` by name, and the counts."""

    onlines: dict[str, Any]
    detectors: dict[str, Any]
    false_alarm_rate: float | None
    position: int
    num_dropped: int
    observations: Any  # an integer of any size
    alarms: tuple[Alarm, ...]
    seconds: float


class Session:
    """Models on one source with their probabilities, optionally with change detectors.

    Every model gives the same result as if run alone.

    Attributes:
        onlines: the online estimators by name.
        detectors: the change detectors by model name; they hold the same estimators.
        position: number of rows read from the source, including dropped ones.
        num_dropped: number of dropped rows.
        observations: sum of the hashes of the observations (`data.fingerprint`).
        alarms: the changes detected so far.
        seconds: time for all batches.

    Args:
        onlines: the online estimators by name.
        false_alarm_rate: rate per batch of each model's `ChangeDetector`, which has the seed of
            its estimator; None for no detectors.

    Raises:
        ConfigurationError: `false_alarm_rate` is out of range.

    Example:
        >>> session = Session({"linear": Online(model)})  # doctest: +SKIP
        >>> for batch in recut(source.batches(session.position), 500):  # doctest: +SKIP
        ...     update = session.update(batch)
    """

    def __init__(self, onlines: Mapping[str, Online], false_alarm_rate: float | None = None):
        self.onlines = dict(onlines)
        self.detectors: dict[str, ChangeDetector] = {}
        if false_alarm_rate is not None:
            self.detectors = {
                name: ChangeDetector(online, false_alarm_rate, seed=online.seed)
                for name, online in onlines.items()
            }
        self._false_alarm_rate = false_alarm_rate
        self.position = self.num_dropped = self.observations = 0
        self.alarms: tuple[Alarm, ...] = ()
        self.seconds = 0.0

    @property
    def num_observations(self) -> int:
        """Number of rows processed by every model."""
        return next(iter(self.onlines.values())).num_observations

    @property
    def probabilities(self) -> dict[str, float]:
        """Posterior model probabilities, from a uniform prior."""
        return ModelAverage(self.onlines).probabilities

    def evidences(self) -> dict[str, Evidence]:
        """Return the results so far by name; empty before the first row."""
        return {name: online.evidence() for name, online in self.onlines.items() if self.num_observations}

    def update(self, batch: Batch) -> SessionUpdate | None:
        """Process the batch at `position` in the source; return None if all rows were dropped.

        Raises EvidentiaError as the models do; the session is then unchanged.
        """
        found = None
        if batch.num_rows:
            with ExitStack() as stack:  # a batch must not be processed by only some models
                stack.enter_context(all_or_none(self.onlines.values()))
                for detector in self.detectors.values():
                    stack.enter_context(detector.all_or_none())
                found = self._taken_in(batch)
            self.alarms += found.alarms
            self.seconds += found.seconds
            self.observations = (self.observations + sum_of_hashes(batch.arrays["y"])) % 2**64
        self.position += batch.num_read
        self.num_dropped += batch.num_dropped
        return found

    def packed(self) -> dict[str, Any]:
        """Pack the session for a checkpoint, without the models' functions; see `RECORDS`."""
        return {
            "onlines": {name: online.packed() for name, online in self.onlines.items()},
            "detectors": {name: packed_detector(detector) for name, detector in self.detectors.items()},
            "false_alarm_rate": self._false_alarm_rate,
            **{name: getattr(self, name) for name in COUNTS},
        }

    @classmethod
    def unpacked(cls, content: Mapping[str, Any], models: Mapping[str, Model]) -> "Session":
        """Restore a packed session. Raises CheckpointError if it is damaged or a model differs."""
        with as_damaged():
            packed = Packed(**content)
            check_fields(packed)
            if not isinstance(packed.observations, int):
                raise TypeError("observations is not an integer")
        if set(packed.onlines) != set(models):
            raise CheckpointError(
                f"models must be those of the checkpoint, {', '.join(packed.onlines)}; got {', '.join(models)}."
            )
        onlines = {name: Online.unpacked(online, models[name]) for name, online in packed.onlines.items()}
        with as_damaged():
            if len({online.num_observations for online in onlines.values()}) > 1:
                raise ValueError("its models have seen different numbers of rows")
            session = cls(onlines, packed.false_alarm_rate)
            if set(packed.detectors) != set(session.detectors):
                raise ValueError("its change detectors are not those of its models")
            for name, detector in packed.detectors.items():
                resume_detector(session.detectors[name], detector, models[name])
        for name in COUNTS:
            setattr(session, name, getattr(packed, name))
        return session

    def _taken_in(self, batch: Batch) -> SessionUpdate:
        """Update the models with a batch and return the result; nothing else changes."""
        started = time.perf_counter()
        reports = {name: detector.update(batch.arrays) for name, detector in self.detectors.items()}
        updates: dict[str, Any] = {
            name: reports[name].update if reports else online.update(batch.arrays)
            for name, online in self.onlines.items()
        }
        return SessionUpdate(
            self.num_observations,
            batch.num_rows,
            self.num_dropped + batch.num_dropped,
            updates,
            self.probabilities,
            reports,
            tuple(Alarm(name, report.alarm) for name, report in reports.items() if report.alarm is not None),
            time.perf_counter() - started,
        )
