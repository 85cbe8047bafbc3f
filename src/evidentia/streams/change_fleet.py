"""`ChangeDetectorFleet`: changes in many streams of one model, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, cast

from evidentia.errors import EvidentiaError
from evidentia.fleet.jobs import kept, seed_of
from evidentia.model.model import Model
from evidentia.monitor.change import ChangeDetector, check_on_change
from evidentia.monitor.e_detector import EDetector
from evidentia.monitor.protocols import OnlineLike
from evidentia.streams.intake import DetectorState, FleetStep, Name
from evidentia.streams.named import NamedStreams
from evidentia.streams.stream import Stream, outcomes_of


class ChangeDetectorFleet(NamedStreams[ChangeDetector]):
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
        settings = {
            "false_alarm_rate": false_alarm_rate,
            "on_change": on_change,
            "max_candidates": max_candidates,
            "restart_every": restart_every,
            "tempering": tempering,
        }
        check_on_change(on_change)
        EDetector(false_alarm_rate, max_candidates, restart_every, tempering)  # checks them
        super().__init__(model, seed, settings)

    def update(self, batches: Mapping[Name, Any]) -> FleetStep:
        """Process a batch for each of some streams, by name; a new name begins a stream.

        Raises DataError if `batches` is no such mapping. Errors of single streams, as
            `ChangeDetector.update` raises them, are kept in the result.
        """
        with self._intake.alone:
            return self._updated(batches)

    def _updated(self, batches: Mapping[Name, Any]) -> FleetStep:
        arrays, errors = self._intake.read(batches)
        detectors = {name: self._followers.get(name) or self._begun(name) for name in arrays}
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
        self._followers |= {name: detectors[name] for name in results}
        return FleetStep(results, errors)

    def _begun(self, name: Name) -> ChangeDetector:
        seed = seed_of(self.seed, name, "candidates")
        detector = ChangeDetector(self._intake.stream(name), seed=seed, **self._settings)
        detector.alone = self._intake.alone  # one lock for all, so that no two threads wait for each other
        return detector

    def _state_of(self, follower: ChangeDetector) -> DetectorState:
        models = follower.online, follower.segment, *follower.candidates
        online, segment, *candidates = [stream.state for stream in _streams(models)]
        is_one = follower.segment is follower.online
        return DetectorState(follower.state, None if is_one else online, segment, tuple(candidates))

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
