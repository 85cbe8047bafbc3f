"""Change detection with a bounded false-alarm rate: does a restarted model predict better?"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evidentia.errors import ConfigurationError, EstimationError, check_seed, is_one_of, kind_of
from evidentia.model.model import Model
from evidentia.monitor import saving
from evidentia.monitor.change_records import ChangeReport, ChangeState
from evidentia.monitor.e_detector import EDetector
from evidentia.monitor.protocols import OnlineLike, UpdateLike, all_or_none, is_online
from evidentia.system.sharing import OneAtATime

ON_CHANGE = "restart", "forget"
STEPS_KEPT = 100  # batches whose annealing steps are kept for comparison
LEAST_STEPS = 5  # batches needed before a spike can be reported


class ChangeDetector:
    """Detect changes in a stream.

    For every batch, the current model is compared with copies of it that were restarted from the
    prior at earlier batches. The Bayes factors of "it changed at batch j" against "it did not",
    summed over j, are an e-detector (see `EDetector` for the equation). While the rows follow the
    current model's predictions, the mean number of batches before a false alarm is at least 1 /
    false_alarm_rate. This is exact on average over the prior. For fixed parameters and for wrong
    models, see `docs/change-and-averaging.md`: rows that no parameters of the model describe, such
    as outliers under a Gaussian, can raise more alarms; `tempering` then helps.

    After an alarm, the model of the new segment, started at the row of the change, becomes the
    current model, so each change is found once. `on_change` decides what happens to `online`:

    - None: it continues with all rows, and the detector runs the segment's model beside it;
    - "forget": it is replaced by the segment's model, which has not seen the rows before;
    - "restart": it restarts from the prior at the next batch, where the new segment begins too.

    Every batch updates `online` and up to `max_candidates` others, one of which starts from the
    prior.

    Attributes:
        online: the model, kept or replaced after an alarm according to `on_change`.
        segment: the model of the rows since the last change; the same as `online` except after
            an alarm with on_change=None.
        candidates: the restarted models, oldest first.
        state: the numbers, for a checkpoint; see `resume`.
        alone: a context manager, in which no other thread changes this object.

    Args:
        online: an `evidentia.Online`, or any `OnlineLike`. It may already have seen rows.
        false_alarm_rate: per batch, between 0 and 1.
        on_change: None, "restart" or "forget".
        max_candidates: maximum number of models beside the current one.
        restart_every: batches between new candidates; more is cheaper, with later alarms.
        tempering: power in (0, 1] of the likelihood ratios; below 1 for overconfident models.
        seed: seed of the candidates.

    Raises:
        ConfigurationError: an argument out of range.

    Example:
        >>> detector = ev.ChangeDetector(ev.Online(model), false_alarm_rate=1e-3)  # doctest: +SKIP
        >>> for batch in stream:  # doctest: +SKIP
        ...     report = detector.update(batch)
        ...     if report.alarm:
        ...         print(report.alarm.row, report.alarm.interval, report.alarm.log_bayes_factor)

    Source: Shin, Ramdas, Rinaldo (2022), E-detectors; the annealing steps: Cameron, Eggers, Kroon
        (2019), Figure 5.
    """

    def __init__(
        self,
        online: OnlineLike,
        false_alarm_rate: float = 1e-3,
        on_change: Literal["restart", "forget"] | None = None,
        max_candidates: int = 8,
        *,
        restart_every: int = 1,
        tempering: float = 1.0,
        seed: int = 0,
    ):
        check_on_change(on_change)
        check_seed(seed)
        if not is_online(online) or not callable(getattr(online, "restarted", None)):
            raise ConfigurationError(
                f"online must be an evidentia.Online (with update and restarted); got {kind_of(online)}."
            )
        self.alone: OneAtATime = OneAtATime()
        self.on_change: Literal["restart", "forget"] | None = on_change
        self.seed: int = seed
        self.detector: EDetector = EDetector(false_alarm_rate, max_candidates, restart_every, tempering)
        self.online: OnlineLike = online
        self.segment: OnlineLike = online
        self.candidates: tuple[OnlineLike, ...] = ()
        self._state = self.detector.init(online.num_observations)
        self._steps = np.empty(0, np.int64)
        self._num_started = 0

    @property
    def num_observations(self) -> int:
        """Rows of the whole stream."""
        return self._state.num_observations

    @property
    def state(self) -> ChangeState:
        """The detector's own numbers; `resume` needs these and the models."""
        with self.alone:
            return ChangeState(self._state, self._steps, self._num_started)

    def resume(
        self,
        state: ChangeState,
        segment: OnlineLike | None = None,
        candidates: Sequence[OnlineLike] = (),
    ) -> ChangeDetector:
        """Restore the numbers and models of a saved detector; return self.

        Args:
            state: of the saved detector, which had the same settings and `online`.
            segment: its `segment`; None if that was `online`.
            candidates: its `candidates`.

        Raises:
            ConfigurationError: the number of candidates does not match the state.
        """
        if len(candidates) != len(state.detector.starts):
            raise ConfigurationError(
                f"candidates must be the {len(state.detector.starts)} models of the state; got {len(candidates)}."
            )
        self._state, self._steps, self._num_started = state
        self.segment = self.online if segment is None else segment
        self.candidates = tuple(candidates)
        return self

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint with all models, from which `load` continues bit for bit.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written, or a
        model is not an `Online`.
        """
        settings = {**asdict(self.detector), "on_change": self.on_change, "seed": self.seed}
        with self.alone:
            content = {"online": saving.packed_online(self.online), **saving.packed_detector(self)}
            saving.write(folder, "detector", {"settings": settings, **content}, self.num_observations)

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> ChangeDetector:
        """Load a saved detector, given the same model.

        Raises CheckpointError if there is none, it is damaged, or the model is different.
        """
        return saving.read_detector(cls, folder, model)

    def update(self, batch: Any) -> ChangeReport:
        """Process a batch.

        Returns:
            The result of the batch; `report.alarm` is a `Change` or None.

        Raises:
            EvidentiaError: raised by the `update` of `online`. A candidate that fails is dropped.

        After an error, the detector is as it was before the batch, and so are its models if they
        have `state` and `restore`, as `Online` has.
        """
        with self.all_or_none():
            return self._report(batch)

    @contextmanager
    def all_or_none(self) -> Generator[None, None, None]:
        """Restore the detector and its models if an error or Ctrl-C ends the `with` block."""
        with self.alone:
            before = self.state, self.online, self.segment, self.candidates
            try:
                with all_or_none([self.online, self.segment, *self.candidates]):
                    yield
            except BaseException:
                numbers, self.online, self.segment, self.candidates = before
                self._state, self._steps, self._num_started = numbers
                raise

    def _report(self, batch: Any) -> ChangeReport:
        models = self.models_of_batch()
        return self.concluded(models, [_attempted(model, batch) for model in models])

    def models_of_batch(self) -> tuple[OnlineLike, ...]:
        """The models that the next batch updates: `online`, `segment`, then the candidates.

        `segment` is left out if it is the same; a candidate that starts with the batch comes last.
        """
        continued = (self.online,) if self.segment is self.online else (self.online, self.segment)
        opens = self.detector.opens_candidate(self._state)
        opened = (self._restarted(self._num_started + 1),) if opens else ()
        return (*continued, *self.candidates, *opened)

    def concluded(
        self, models: Sequence[OnlineLike], updates: Sequence[UpdateLike | Exception]
    ) -> ChangeReport:
        """The result of a batch, from what it did to each of `models_of_batch`.

        Raises the exceptions in `updates`, but drops a candidate that has an EstimationError.
        """
        num_continued = 1 if self.segment is self.online else 2
        update, continued = _required(updates[0]), _required(updates[num_continued - 1])
        restarted = [_log_predictive(one) for one in updates[num_continued:]]
        models = models[num_continued:]
        self._num_started += self.detector.opens_candidate(self._state)
        error = continued.log_predictive_standard_error
        self._state, found = self.detector.update(
            self._state,
            continued.batch_size,
            continued.log_predictive,
            restarted,
            0.0 if math.isnan(error) else error**2,
        )
        ratio, spike = self._annealing(continued)
        self.candidates = tuple(models[i] for i in found.kept)
        alarm = found.alarm
        if alarm is not None and found.candidate is not None:
            chosen = models[found.candidate]
            alarm = alarm._replace(standard_error=math.hypot(alarm.standard_error, chosen.standard_error))
            self._begin_segment(chosen)
        return ChangeReport(
            update, alarm, self.num_observations, found.log_e_value, len(self.candidates), ratio, spike
        )

    def _begin_segment(self, chosen: OnlineLike) -> None:
        self._steps = self._steps[:0]
        if self.on_change == "restart":
            self._num_started += 1
            chosen = self._restarted(self._num_started)
            rows = self.num_observations
            self._state = self.detector.init(rows, segment_start=rows)
        if self.on_change is not None:
            self.online = chosen
        self.segment = chosen

    def _restarted(self, number: int) -> OnlineLike:
        return self.online.restarted(
            int(np.random.SeedSequence((self.seed, number)).generate_state(1)[0] >> 1)
        )

    def _annealing(self, update: UpdateLike) -> tuple[float, bool]:
        steps, earlier = update.num_annealing_steps, self._steps
        if update.num_observations > update.batch_size:  # excludes annealing from the prior
            self._steps = np.append(earlier, np.int64(steps))[-STEPS_KEPT:]
        if len(earlier) < LEAST_STEPS:
            return math.nan, False
        median = float(np.median(earlier))
        scatter = max(1.0, 1.4826 * float(np.median(np.abs(earlier - median))))
        return steps / max(median, 1.0), steps > median + 5 * scatter


def _attempted(model: OnlineLike, batch: Any) -> UpdateLike | EstimationError:
    try:
        return model.update(batch)
    except EstimationError as error:
        return error


def _required(found: UpdateLike | Exception) -> UpdateLike:
    if isinstance(found, Exception):
        raise found
    return found


def _log_predictive(found: UpdateLike | Exception) -> float:
    """Of a candidate: -inf drops it, which only makes the e-detector smaller."""
    return -math.inf if isinstance(found, EstimationError) else _required(found).log_predictive


def check_on_change(value: Any) -> None:
    """Raise ConfigurationError unless `value` is one of `ON_CHANGE`."""
    if not (value is None or is_one_of(value, ON_CHANGE)):
        raise ConfigurationError(f'on_change must be None, "restart" or "forget"; got {value!r}.')
