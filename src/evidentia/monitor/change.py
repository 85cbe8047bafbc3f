"""Change detection: alarms, with a bounded rate of false ones, when beginning anew predicts better
than going on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from evidentia.errors import ConfigurationError, EstimationError
from evidentia.monitor.e_detector import Change, EDetector, EDetectorState
from evidentia.monitor.protocols import OnlineLike, UpdateLike, all_or_none

ON_CHANGE = (None, "restart", "forget")
STEPS_KEPT = 100  # batches whose annealing steps are compared
LEAST_STEPS = 5  # of them, before a spike is called one


class ChangeReport(NamedTuple):
    """What a batch brought.

    Attributes:
        update: what `online.update` returned.
        alarm: the change that was found, or None.
        num_observations: rows of the whole stream, with this batch.
        log_e_value: log Mₙ, the evidence for a change; -inf before there is a candidate. An alarm
            at log(1 / rate).
        num_candidates: models that run beside the one that goes on.
        annealing_ratio: annealing steps of the batch over the median of earlier ones in the
            segment; NaN while there are fewer than five.
        annealing_spike: whether they are far more than the earlier ones: above the median by over
            five times their scatter (median absolute deviation, scaled as a standard deviation, at
            least one step). A second sign of a change, without a guarantee.
    """

    update: UpdateLike
    alarm: Change | None
    num_observations: int
    log_e_value: float
    num_candidates: int
    annealing_ratio: float
    annealing_spike: bool


class ChangeState(NamedTuple):
    """The numbers of a detector, for a checkpoint; the models are saved by themselves.

    Attributes:
        detector: of the e-detector.
        annealing_steps: int64, of up to a hundred batches of the segment, without its first.
        num_started: candidates begun so far, which decides the seed of the next.
    """

    detector: EDetectorState
    annealing_steps: Int[ndarray, " batches"]
    num_started: int


class ChangeDetector:
    """Watch a stream for changes.

    The model that goes on is compared, on every batch, with copies of it that began anew at
    earlier batches: the Bayes factors of "it changed with batch j" against "it did not", added up
    over j, are an e-detector (`EDetector`, which has the equation). While rows follow what the
    model that goes on predicts, the mean number of batches up to a false alarm is at least 1 /
    false_alarm_rate. That is exact on average over the prior. For fixed parameters, and for models
    that are wrong, read `docs/change-and-averaging.md`: rows that no parameters of the model
    describe, such as outliers under a Gaussian, can raise more alarms; `tempering` helps there.

    After an alarm the model of the new segment, which began with the row of the change, is the one
    that the next batches are compared with, so that each change is found once. `on_change` says
    what becomes of `online`:

    - None: it goes on with all rows; the detector runs the segment's model beside it;
    - "forget": it forgets the rows before the change: the segment's model takes its place;
    - "restart": it begins anew from the prior with the next batch, and the new segment with it.

    Costs: every batch is taken in by `online` and by up to `max_candidates` others, one of which
        begins from the prior.

    Attributes:
        online: the model, as `on_change` says.
        segment: the model of the rows since the last change; the same as `online` but after an
            alarm with on_change=None.
        candidates: the models that began anew, the oldest first.
        state: the numbers, for a checkpoint; see `resume`.

    Args:
        online: an `evidentia.Online`, or anything `OnlineLike`. It may have seen rows.
        false_alarm_rate: per batch, between 0 and 1.
        on_change: None, "restart" or "forget".
        max_candidates: how many models run beside the one that goes on.
        restart_every: begin a new candidate only every so many batches: cheaper, and later alarms.
        tempering: power in (0, 1] of the likelihood ratios; below 1 for models that are surer than
            they should be.
        seed: of the candidates.

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
        if on_change not in ON_CHANGE:
            raise ConfigurationError(f'on_change must be None, "restart" or "forget"; got {on_change!r}.')
        if not callable(getattr(online, "update", None)) or not callable(getattr(online, "restarted", None)):
            raise ConfigurationError(
                f"online must be an evidentia.Online (with update and restarted); got {type(online).__name__}."
            )
        self.on_change = on_change
        self.seed = seed
        self.detector = EDetector(false_alarm_rate, max_candidates, restart_every, tempering)
        self.online = online
        self.segment = online
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
        """The detector's numbers. With `online`, `segment` and `candidates` they are all that
        `resume` needs.
        """
        return ChangeState(self._state, self._steps, self._num_started)

    def resume(
        self,
        state: ChangeState,
        segment: OnlineLike | None = None,
        candidates: Sequence[OnlineLike] = (),
    ) -> ChangeDetector:
        """Take over the numbers and models of a detector that was saved; returns itself.

        Args:
            state: of the saved detector, whose settings and `online` this one was made with.
            segment: its `segment`; None if that was `online`.
            candidates: its `candidates`.

        Raises:
            ConfigurationError: if the number of candidates does not fit.
        """
        if len(candidates) != len(state.detector.starts):
            raise ConfigurationError(
                f"candidates must be the {len(state.detector.starts)} models of the state; got {len(candidates)}."
            )
        self._state, self._steps, self._num_started = state
        self.segment = self.online if segment is None else segment
        self.candidates = tuple(candidates)
        return self

    def update(self, batch: Any) -> ChangeReport:
        """Take in a batch.

        Returns:
            What it brought; `report.alarm` is a `Change` or None.

        Raises:
            EvidentiaError: as the model's `update` does for `online`. A candidate that cannot go
                on is dropped.

        After an error the detector and its models are as they were before the batch.
        """
        before = self.state, self.online, self.segment, self.candidates
        try:
            with all_or_none([self.online, self.segment, *self.candidates]):
                return self._report(batch)
        except BaseException:  # Ctrl-C too
            (self._state, self._steps, self._num_started), self.online, self.segment, self.candidates = before
            raise

    def _report(self, batch: Any) -> ChangeReport:
        update = self.online.update(batch)
        continued = update if self.segment is self.online else self.segment.update(batch)
        models = self.candidates
        if self.detector.opens_candidate(self._state):
            models = (*models, self._restarted())
        restarted = [_log_predictive(model, batch) for model in models]
        self._state, found = self.detector.update(
            self._state,
            continued.batch_size,
            continued.log_predictive,
            restarted,
            _known(continued.log_predictive_standard_error) ** 2,
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
            chosen = self._restarted()
            rows = self.num_observations
            self._state = self.detector.init(rows, segment_start=rows)
        if self.on_change is not None:
            self.online = chosen
        self.segment = chosen

    def _restarted(self) -> OnlineLike:
        self._num_started += 1
        return self.online.restarted(
            int(np.random.SeedSequence((self.seed, self._num_started)).generate_state(1)[0] >> 1)
        )

    def _annealing(self, update: UpdateLike) -> tuple[float, bool]:
        steps, earlier = update.num_annealing_steps, self._steps
        if update.num_observations > update.batch_size:  # not the way from the prior
            self._steps = np.append(earlier, np.int64(steps))[-STEPS_KEPT:]
        if len(earlier) < LEAST_STEPS:
            return math.nan, False
        median = float(np.median(earlier))
        scatter = max(1.0, 1.4826 * float(np.median(np.abs(earlier - median))))
        return steps / max(median, 1.0), steps > median + 5 * scatter


def _log_predictive(model: OnlineLike, batch: Any) -> float:
    try:
        return model.update(batch).log_predictive
    except EstimationError:  # of a candidate: without its term the e-detector is only smaller
        return -math.inf


def _known(standard_error: float) -> float:
    """A Monte Carlo error; 0 where it is not known."""
    return 0.0 if math.isnan(standard_error) else standard_error
