"""`ChangeDetectorFleet`: changes in many streams of one model, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, cast

from evidentia.checkpoint.packing import as_damaged
from evidentia.errors import EvidentiaError
from evidentia.fleet.jobs import kept, seed_of
from evidentia.model.model import Model
from evidentia.monitor.change import ChangeDetector, check_on_change
from evidentia.monitor.e_detector import EDetector
from evidentia.monitor.protocols import OnlineLike
from evidentia.streams import intake
from evidentia.streams.intake import DetectorState, FleetStep, Intake, Name, Saved
from evidentia.streams.stream import Stream, outcomes_of


class ChangeDetectorFleet(Mapping[Name, ChangeDetector]):
    """Detect changes in many streams: a `ChangeDetector` for each, whose models share programs.

    The current model of each stream and its restarted copies, up to `max_candidates` + 1 of them,
    are streams of one `OnlineFleet`, updated together. False alarms are counted for each stream:
    among 1,000 streams without changes, a rate of 1e-3 gives at most one alarm per batch on
    average.

    The fleet maps names to detectors.

    Args:
        model: as in `OnlineFleet`.
        false_alarm_rate: as in `ChangeDetector`, for each stream, like the next four.
        on_change: None, "restart" or "forget".
        max_candidates: maximum number of models beside the current one.
        restart_every: batches between new candidates.
        tempering: power in (0, 1] of the likelihood ratios.
        seed: as in `OnlineFleet`.

    Raises:
        ModelError, ConfigurationError: an argument is invalid.

    Example:
        >>> detectors = ev.ChangeDetectorFleet(model, false_alarm_rate=1e-6)  # doctest: +SKIP
        >>> for batches in feed:  # doctest: +SKIP
        ...     for name, report in detectors.update(batches).results.items():
        ...         if report.alarm:
        ...             print(name, report.alarm.row, report.alarm.log_bayes_factor)

    Source: as of `ChangeDetector` and `OnlineFleet`.
    """

    def __init__(
        self,
        model: Model,
        false_alarm_rate: float = 1e-3,
        on_change: Literal["restart", "forget"] | None = None,
        max_candidates: int = 8,
        *,
        restart_every: int = 1,
        tempering: float = 1.0,
        seed: int = 0,
    ):
        self._settings: dict[str, Any] = {
            "false_alarm_rate": false_alarm_rate,
            "on_change": on_change,
            "max_candidates": max_candidates,
            "restart_every": restart_every,
            "tempering": tempering,
        }
        check_on_change(on_change)
        EDetector(false_alarm_rate, max_candidates, restart_every, tempering)  # checks them
        self._intake = Intake(model, seed)
        self._detectors: dict[Name, ChangeDetector] = {}

    @property
    def model(self) -> Model:
        """The model of all streams."""
        return self._intake.model

    def update(self, batches: Mapping[Name, Any]) -> FleetStep:
        """Process a batch for each of some streams, by name; a new name begins a stream.

        Raises DataError if `batches` is no such mapping. Errors of single streams, as
            `ChangeDetector.update` raises them, are kept in the result.
        """
        with self._intake.alone:
            return self._updated(batches)

    def _updated(self, batches: Mapping[Name, Any]) -> FleetStep:
        arrays, errors = self._intake.read(batches)
        detectors = {name: self._detectors.get(name) or self._begun(name) for name in arrays}
        results: dict[Name, Any] = {}
        with ExitStack() as stack:
            for detector in detectors.values():
                stack.enter_context(detector.all_or_none())  # for Ctrl-C
            models = {name: detector.models_of_batch() for name, detector in detectors.items()}
            streams = [stream for each in models.values() for stream in _streams(each)]
            rows = [arrays[name] for name, each in models.items() for _ in each]
            outcomes = iter(outcomes_of(streams, rows))
            for name, detector in detectors.items():
                own = [next(outcomes) for _ in models[name]]
                try:
                    with detector.all_or_none():
                        of_batch = zip(_streams(models[name]), own, strict=True)
                        updates = [stream.accept(one) for stream, one in of_batch]
                        results[name] = detector.concluded(models[name], updates)
                except EvidentiaError as error:
                    errors[name] = kept(error)
        self._detectors |= {name: detectors[name] for name in results}
        return FleetStep(results, errors)

    def __getitem__(self, name: Name) -> ChangeDetector:
        return self._detectors[name]

    def __delitem__(self, name: Name) -> None:
        with self._intake.alone:
            del self._detectors[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(tuple(self._detectors))  # another thread may begin a stream

    def __len__(self) -> int:
        return len(self._detectors)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, from which `load` continues as this object would.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written.
        """
        intake.save(folder, self.packed(), self.model)

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> ChangeDetectorFleet:
        """Load a saved fleet, given the same model.

        Raises CheckpointError if there is none, it is damaged, or the model is different.
        """
        return cls.unpacked(intake.load(folder, cls.__name__), model)

    def packed(self) -> Saved:
        """This object without the model's functions, for a custom checkpoint."""
        with self._intake.alone:
            states = {name: _state_of(detector) for name, detector in self._detectors.items()}
        settings = {**self._settings, "seed": self._intake.seed}
        return intake.packed(type(self).__name__, self._intake, settings, states)

    @classmethod
    def unpacked(cls, content: Saved, model: Model) -> ChangeDetectorFleet:
        """Rebuild a packed object. Raises CheckpointError if damaged or of another model."""
        saved, common = intake.unpacked(content, cls.__name__, model)
        with as_damaged():
            fleet = cls(model, **saved.settings)
            fleet._intake.common = common
            for name, state in zip(saved.names, saved.streams, strict=True):
                fleet._detectors[name] = fleet._resumed(name, state)
        return fleet

    def __repr__(self) -> str:
        return f"ChangeDetectorFleet({self.model!r}, {len(self):,} streams)"

    def _begun(self, name: Name) -> ChangeDetector:
        seed = seed_of(self._intake.seed, name, "candidates")
        detector = ChangeDetector(self._intake.stream(name), seed=seed, **self._settings)
        detector.alone = self._intake.alone  # one lock for all, so that no two threads wait for each other
        return detector

    def _resumed(self, name: Name, state: DetectorState) -> ChangeDetector:
        detector = self._begun(name)
        restored = [detector.online.restarted(one.seed) for one in (state.segment, *state.candidates)]
        for stream, one in zip(_streams(restored), (state.segment, *state.candidates), strict=True):
            stream.restore(one)
        segment, *candidates = restored
        if state.online is None:
            detector.online = segment
            return detector.resume(state.change, None, candidates)
        _streams([detector.online])[0].restore(state.online)
        return detector.resume(state.change, segment, candidates)


def _streams(models: Sequence[OnlineLike]) -> Sequence[Stream]:
    """The models of a detector of this fleet, which are its streams."""
    return cast("Sequence[Stream]", models)


def _state_of(detector: ChangeDetector) -> DetectorState:
    models = detector.online, detector.segment, *detector.candidates
    online, segment, *candidates = [stream.state for stream in _streams(models)]
    is_one = detector.segment is detector.online
    return DetectorState(detector.state, None if is_one else online, segment, tuple(candidates))
