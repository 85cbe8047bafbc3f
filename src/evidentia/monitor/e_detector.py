"""The arithmetic of change detection: an e-detector of Bayes factors, fed with log predictive
densities by hand.

For every batch n, let p₀(n) be what the model that goes on predicted for it, and pⱼ(n) what the
same model predicted that began anew from its prior at batch j ≤ n. The Shiryaev-Roberts e-detector
is

    Mₙ = Σ_{j ≤ n} Π_{i=j}^{n} pⱼ(i) / p₀(i),        alarm as soon as Mₙ ≥ 1 / rate.

Where the rows follow the prediction of the model that goes on, each ratio has the conditional mean
one (at most), so that Mₙ - n is a supermartingale and E[number of batches up to an alarm] ≥ 1 /
rate. Terms left out only make Mₙ smaller: any choice of candidates j keeps the guarantee.

Source: Shin, Ramdas, Rinaldo (2022), "E-detectors: a nonparametric framework for sequential change
detection", Definition 2.2 and Proposition 2.4; Shiryaev (1963); Roberts (1966).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia import weights
from evidentia.errors import ConfigurationError, check_count

CREDIBILITY = 0.95  # posterior probability of the interval that a Change reports


class EDetectorState(NamedTuple):
    """What the next batch needs: plain numbers, and one entry per candidate, the oldest first.

    Attributes:
        num_batches: batches that the model which goes on has taken in.
        num_observations: rows of all batches so far.
        segment_start: the first row of the segment: from there on nothing has changed, as far as
            is known.
        starts: int64, each candidate's first row.
        log_bayes_factors: float64, nats: the candidate against going on, over the rows from its
            start.
        log_e_values: float64: the logarithms of the terms of Mₙ.
        variances: float64, nats²: Monte Carlo variance of the log predictive densities of going
            on, from the start.
    """

    num_batches: int
    num_observations: int
    segment_start: int
    starts: Int[ndarray, " candidates"]
    log_bayes_factors: Float[ndarray, " candidates"]
    log_e_values: Float[ndarray, " candidates"]
    variances: Float[ndarray, " candidates"]


class Change(NamedTuple):
    """A change that was found.

    Attributes:
        row: the row, counted from zero over the whole stream, with which the most probable new
            segment begins.
        interval: first and last row between which the new segment begins with a posterior
            probability of 0.95 or more, given that there was one change; as wide as the candidates
            are apart, at least.
        log_bayes_factor: by how much the log evidence of the rows from `row` on falls if the model
            goes on instead of beginning anew, in nats.
        standard_error: its Monte Carlo error, in nats; NaN if not known.
        num_observations: rows seen when the alarm was given.
        log_e_value: log Mₙ at the alarm.
    """

    row: int
    interval: tuple[int, int]
    log_bayes_factor: float
    standard_error: float
    num_observations: int
    log_e_value: float


class EDetectorInfo(NamedTuple):
    """What a batch brought.

    Attributes:
        log_e_value: log Mₙ; -inf before there is a candidate.
        alarm: the change, or None.
        candidate: which candidate is the most probable, as an index into `restarted`; None without
            an alarm.
        kept: the candidates that the state still has, as indices into `restarted`, the oldest
            first.
    """

    log_e_value: float
    alarm: Change | None
    candidate: int | None
    kept: tuple[int, ...]


@dataclass(frozen=True)
class EDetector:
    """Alarms from log predictive densities with a bounded rate of false ones; pure `init` and
    `update`.

    Attributes:
        false_alarm_rate: per batch; while nothing changes, the mean number of batches up to an
            alarm is at least 1 / false_alarm_rate.
        max_candidates: how many models run beside the one that goes on. Candidates' ages thin out
            geometrically; the one with the largest term is always kept. With one, each batch is
            judged by itself.
        restart_every: a new candidate every so many batches; it then counts that many times, which
            keeps the guarantee.
        tempering: the power β in (0, 1] to which the ratios are raised, for models that are surer
            than they should be. The guarantee holds for each, as E₀[(p/p₀)^β] ≤ 1; alarms need 1/β
            times the evidence.

    Raises:
        ConfigurationError: a field out of range.

    Example:
        >>> detector = EDetector(false_alarm_rate=0.01)
        >>> state = detector.init()
        >>> state, info = detector.update(state, num_rows=100, continued=-140.0, restarted=[])
        >>> state, info = detector.update(state, num_rows=100, continued=-190.0, restarted=[-145.0])
        >>> info.alarm.row, info.alarm.interval, info.alarm.log_bayes_factor
        (100, (1, 199), 45.0)

    Source: Shin, Ramdas, Rinaldo (2022), Definition 2.2 and Proposition 2.4.
    """

    false_alarm_rate: float = 1e-3
    max_candidates: int = 8
    restart_every: int = 1
    tempering: float = 1.0

    def __post_init__(self):
        if not 0 < self.false_alarm_rate < 1:
            raise ConfigurationError(
                f"false_alarm_rate is a number of alarms per batch between 0 and 1; got {self.false_alarm_rate}."
            )
        check_count("max_candidates", self.max_candidates, 1)
        check_count("restart_every", self.restart_every, 1)
        if not 0 < self.tempering <= 1:
            raise ConfigurationError(f"tempering must be above 0 and at most 1; got {self.tempering}.")

    @property
    def log_threshold(self) -> float:
        """log(1 / false_alarm_rate), which log Mₙ must reach."""
        return -math.log(self.false_alarm_rate)

    def init(self, num_observations: int = 0, *, segment_start: int = 0) -> EDetectorState:
        """No candidates. `num_observations` rows were seen before; the segment began with row
        `segment_start`.
        """
        none = np.empty(0)
        num_batches = int(num_observations > segment_start)
        return EDetectorState(
            num_batches, num_observations, segment_start, none.astype(np.int64), none, none, none
        )

    def opens_candidate(self, state: EDetectorState) -> bool:
        """Whether the next batch begins a new candidate; not the first of a segment, where it
        would be the same model.
        """
        return state.num_batches > 0 and state.num_batches % self.restart_every == 0

    def update(
        self,
        state: EDetectorState,
        num_rows: int,
        continued: float,
        restarted: Sequence[float],
        continued_variance: float = 0.0,
    ) -> tuple[EDetectorState, EDetectorInfo]:
        """Take in what was predicted for a batch.

        Args:
            state: from `init` or the last `update`.
            num_rows: rows of the batch.
            continued: log predictive density of the batch by the model that goes on, in nats.
            restarted: the same by each candidate of `state`, in its order, and by a new one (its
                log evidence) at the end if `opens_candidate(state)`; -inf drops a candidate.
            continued_variance: Monte Carlo variance of `continued`, nats². An estimate with that
                error is too low often enough to raise the mean of 1/p₀ by its exponential, so it
                is taken off the logarithm of every term.

        Returns:
            The new state, and what the batch brought. After an alarm the new state has no
            candidates, and its segment begins with the row of the change: from now on the
            candidate `info.candidate` is the model that goes on.

        Raises:
            ConfigurationError: numbers that do not fit.
        """
        opens = self.opens_candidate(state)
        gains = self._gains(state, opens, num_rows, continued, restarted)
        if opens:
            state = _with_new_candidate(state, math.log(self.restart_every))
        increments = self.tempering * (gains - continued_variance)
        state = state._replace(
            num_batches=state.num_batches + 1,
            num_observations=state.num_observations + num_rows,
            log_bayes_factors=state.log_bayes_factors + gains,
            log_e_values=state.log_e_values + increments,
            variances=state.variances + continued_variance,
        )
        log_e_value = float(np.logaddexp.reduce(state.log_e_values))  # -inf of none
        if log_e_value >= self.log_threshold:
            change, candidate = _change(state, log_e_value)
            after = self.init(state.num_observations, segment_start=change.row)
            return after, EDetectorInfo(log_e_value, change, candidate, ())
        kept = self._kept(state)
        columns = {name: getattr(state, name)[list(kept)] for name in EDetectorState._fields[3:]}
        return state._replace(**columns), EDetectorInfo(log_e_value, None, None, kept)

    def _gains(self, state, opens, num_rows, continued, restarted) -> Float[ndarray, " candidates"]:
        check_count("num_rows", num_rows, 1)
        needed = len(state.starts) + opens
        if len(restarted) != needed:
            raise ConfigurationError(
                f"restarted must hold {needed} log predictive densities, {len(state.starts)} of the state's candidates and "
                f"{int(opens)} of a new one; got {len(restarted)}."
            )
        densities = np.asarray(restarted, np.float64)
        if np.isnan(densities).any() or math.isnan(continued):
            raise ConfigurationError(
                f"log predictive densities must not be NaN; got continued={continued}, restarted={list(restarted)}."
            )
        # A candidate that thinks a batch impossible says nothing for a change, also where the
        # other thinks so too.
        possible = densities > -np.inf
        return np.where(possible, np.where(possible, densities, 0.0) - continued, -np.inf)

    def _kept(self, state: EDetectorState) -> tuple[int, ...]:
        kept = [int(i) for i in np.flatnonzero(state.log_e_values > -np.inf)]
        while len(kept) >= self.max_candidates:  # one place is for the candidate to come
            starts = state.starts[kept]
            edges = np.concatenate([[state.segment_start], starts, [state.num_observations]])
            # Room between the neighbours over the age: about equal for all where ages thin out
            # geometrically.
            room = (edges[2:] - edges[:-2]) / (state.num_observations - starts)
            if len(kept) > 1:
                room[np.argmax(state.log_e_values[kept])] = np.inf
            del kept[int(np.argmin(room))]
        return tuple(kept)


def _with_new_candidate(state: EDetectorState, log_weight: float) -> EDetectorState:
    return state._replace(
        starts=np.append(state.starts, np.int64(state.num_observations)),
        log_bayes_factors=np.append(state.log_bayes_factors, 0.0),
        log_e_values=np.append(state.log_e_values, log_weight),
        variances=np.append(state.variances, 0.0),
    )


def _change(state: EDetectorState, log_e_value: float) -> tuple[Change, int]:
    """The most probable candidate. Each stands for the rows since the one before it, all equally
    probable beforehand.
    """
    edges = np.concatenate([[state.segment_start], state.starts])
    # Infinite where going on thought a batch impossible.
    factors = np.nan_to_num(state.log_bayes_factors, posinf=1e300, neginf=-np.inf)
    posterior = np.exp(weights.normalise(factors + np.log(np.diff(edges))))
    best = int(np.argmax(posterior))
    order = np.argsort(-posterior, kind="stable")
    credible = order[: 1 + int(np.searchsorted(np.cumsum(posterior[order]), CREDIBILITY))]
    # A change between two candidates' starts may make either of them the best: the interval
    # reaches to the next ones.
    first = int(edges[credible.min()]) + 1
    following = np.append(state.starts[1:], state.num_observations)
    change = Change(
        row=int(state.starts[best]),
        interval=(first, int(following[credible.max()]) - 1),
        log_bayes_factor=float(state.log_bayes_factors[best]),
        standard_error=math.sqrt(state.variances[best]),
        num_observations=state.num_observations,
        log_e_value=log_e_value,
    )
    return change, best
