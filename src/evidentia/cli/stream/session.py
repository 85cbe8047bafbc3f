"""Several models on one source, batch by batch: what `evidentia stream` does, without files and
screens.

A batch is taken in by all models or by none. All that decides the next batch can be packed into
one checkpoint, together with the position in the source, so that a run that was stopped goes on as
if it had not been.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from evidentia.comparison import model_probabilities, prior_of
from evidentia.data.batches import Batch
from evidentia.errors import CheckpointError, ConfigurationError
from evidentia.evidence import SGAIS
from evidentia.model.model import Model
from evidentia.monitor.change import ChangeDetector, ChangeReport, ChangeState
from evidentia.monitor.e_detector import Change, EDetectorState
from evidentia.online import fingerprint
from evidentia.online.online import Online, OnlineUpdate
from evidentia.result import Evidence, jsonable


class Alarm(NamedTuple):
    """A change that one of the models found."""

    model: str
    change: Change

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return jsonable({"model": self.model, **self.change._asdict()})


class SessionUpdate(NamedTuple):
    """What a batch brought.

    Attributes:
        num_observations: rows seen so far, with this batch.
        batch_size: rows of this batch.
        num_dropped: rows left out so far, because they had missing values.
        updates: what each model's `update` returned, by name.
        probabilities: of the models by name, given everything seen, from equal ones.
        reports: of the change detectors, by the name of the model; empty without them.
        alarms: the changes that were found with this batch.
        seconds: that the batch took.
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
        """As JSON can hold it; numbers that are not finite become None."""
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


# The classes that a checkpoint of a session may name.
RECORDS: dict[str, type] = fingerprint.RECORDS | {
    record.__name__: record for record in (Alarm, Change, ChangeState, EDetectorState)
}


class Session:
    """Models on one source, with their probabilities, and with detectors of changes if a rate of
    false alarms is given.

    Every model has the same seed, so that each finds what it would find alone.

    Attributes:
        onlines: the estimates by name.
        detectors: of changes, by the name of the model; they hold the same estimates.
        position: rows of the source that were read, with those that were left out.
        num_dropped: rows that were left out.
        alarms: the changes found so far.
        seconds: that all batches took.

    Args:
        models: by name.
        method: the configuration of `SGAIS`, for all of them.
        seed: of all estimates and detectors.
        reservoir_size: rows that each model keeps.
        false_alarm_rate: per batch and model, of a `ChangeDetector` for each; None for none.

    Raises:
        ModelError, ConfigurationError: what cannot be used, and what is needed instead.

    Example:
        >>> session = Session({"linear": model})  # doctest: +SKIP
        >>> for batch in recut(source.batches(session.position), 500):  # doctest: +SKIP
        ...     update = session.update(batch)
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        method: SGAIS | None = None,
        *,
        seed: int = 0,
        reservoir_size: int = 100_000,
        false_alarm_rate: float | None = None,
    ):
        if not models:
            raise ConfigurationError("models must map at least one name to a Model; got none.")
        self._false_alarm_rate = false_alarm_rate
        self._begin(
            {
                name: Online(model, method, seed=seed, reservoir_size=reservoir_size)
                for name, model in models.items()
            }
        )
        self.position = self.num_dropped = 0
        self.alarms: tuple[Alarm, ...] = ()
        self.seconds = 0.0

    @property
    def num_observations(self) -> int:
        """Rows that every model has taken in."""
        return next(iter(self.onlines.values())).num_observations

    @property
    def probabilities(self) -> dict[str, float]:
        """The models' probabilities given everything seen, from equal ones before."""
        log_evidence = np.array([online.log_evidence for online in self.onlines.values()])
        errors = np.array([online.standard_error for online in self.onlines.values()])
        shares, _ = model_probabilities(log_evidence, errors, prior_of(list(self.onlines), None, "prior"))
        return dict(zip(self.onlines, shares.tolist(), strict=True))

    def evidences(self) -> dict[str, Evidence]:
        """The results so far by name; none before the first row."""
        return {name: online.evidence() for name, online in self.onlines.items() if self.num_observations}

    def update(self, batch: Batch) -> SessionUpdate | None:
        """Take in a batch of the source, where `position` stands; None if all its rows had been
        left out.

        Raises EvidentiaError as the models do. Then everything is as it was before the batch.
        """
        found = None
        if batch.num_rows:
            before = self._kept()
            try:
                found = self._taken_in(batch)
            except BaseException:  # Ctrl-C too must not leave a batch that only some models have taken in
                self._put_back(before)
                raise
            self.alarms += found.alarms
            self.seconds += found.seconds
        self.position += batch.num_read
        self.num_dropped += batch.num_dropped
        return found

    def packed(self) -> dict[str, Any]:
        """All that makes up this session but the models' functions, for a checkpoint; see
        `RECORDS`.
        """
        names = "position", "num_dropped", "alarms", "seconds"
        return {
            "onlines": {name: online.packed() for name, online in self.onlines.items()},
            "detectors": {name: _packed_detector(detector) for name, detector in self.detectors.items()},
            "false_alarm_rate": self._false_alarm_rate,
            **{name: getattr(self, name) for name in names},
        }

    @classmethod
    def unpacked(cls, content: Mapping[str, Any], models: Mapping[str, Model]) -> "Session":
        """The session that `packed` described. Raises CheckpointError if a model is another one."""
        if set(content["onlines"]) != set(models):
            raise CheckpointError(
                f"models must be those of the checkpoint, {', '.join(content['onlines'])}; got {', '.join(models)}."
            )
        session = cls.__new__(cls)
        session._false_alarm_rate = content["false_alarm_rate"]
        session._begin(
            {name: Online.unpacked(packed, models[name]) for name, packed in content["onlines"].items()}
        )
        for name, packed in content["detectors"].items():
            segment = packed["segment"] and Online.unpacked(packed["segment"], models[name])
            candidates = [Online.unpacked(candidate, models[name]) for candidate in packed["candidates"]]
            session.detectors[name].resume(packed["state"], segment, candidates)
        for name in ("position", "num_dropped", "alarms", "seconds"):
            setattr(session, name, content[name])
        return session

    def _begin(self, onlines: dict[str, Online]) -> None:
        self.onlines = onlines
        self.detectors: dict[str, ChangeDetector] = {}
        if self._false_alarm_rate is not None:
            self.detectors = {
                name: ChangeDetector(online, self._false_alarm_rate, seed=online.seed)
                for name, online in onlines.items()
            }

    def _taken_in(self, batch: Batch) -> SessionUpdate:
        """What a batch brings to the models, which change; nothing else does."""
        started = time.perf_counter()
        updates, reports = self._updates(batch.arrays)
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

    def _updates(self, arrays: Any) -> tuple[dict[str, OnlineUpdate], dict[str, ChangeReport]]:
        if not self.detectors:
            return {name: online.update(arrays) for name, online in self.onlines.items()}, {}
        reports = {name: detector.update(arrays) for name, detector in self.detectors.items()}
        updates: dict[str, Any] = {name: report.update for name, report in reports.items()}
        return updates, reports

    def _kept(self) -> tuple[list, list]:
        """What a batch changes, as it is."""
        detectors: list[Any] = [
            (detector, detector.state, detector.segment, detector.candidates)
            for detector in self.detectors.values()
        ]
        beside = [online for _, _, segment, candidates in detectors for online in (segment, *candidates)]
        return [(online, online.state) for online in (*self.onlines.values(), *beside)], detectors

    def _put_back(self, kept: tuple[list, list]) -> None:
        onlines, detectors = kept
        for online, state in onlines:
            online.restore(state)
        for detector, state, segment, candidates in detectors:
            detector.resume(state, segment, candidates)


def _packed_detector(detector: ChangeDetector) -> dict[str, Any]:
    segment: Any = None if detector.segment is detector.online else detector.segment
    candidates: Any = detector.candidates
    return {
        "state": detector.state,
        "segment": segment and segment.packed(),
        "candidates": [candidate.packed() for candidate in candidates],
    }
