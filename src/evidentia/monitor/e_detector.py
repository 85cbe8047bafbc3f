"""The arithmetic of change detection: an e-detector computed from log predictive densities.

For every batch n, let p₀(n) be the predictive density under the current model, and pⱼ(n) that
under a copy restarted from the prior at batch j ≤ n. The Shiryaev-Roberts e-detector is

    Mₙ = Σ_{j ≤ n} Π_{i=j}^{n} pⱼ(i) / p₀(i),        alarm as soon as Mₙ ≥ 1 / rate.

If the rows follow the current model's predictions, each ratio has conditional mean one (at most),
so Mₙ - n is a supermartingale and E[number of batches up to an alarm] ≥ 1 / rate. Omitted terms
only make Mₙ smaller, so any choice of candidates j keeps the guarantee.

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
from evidentia.errors import ConfigurationError, as_number, check_count

CREDIBILITY = 0.95  # posterior probability of the interval that a Change reports


class EDetectorState(NamedTuple):
    """What the next batch needs: plain numbers, and one entry per candidate, oldest first.

    Attributes:
        num_batches: batches seen by the current model.
        num_observations: rows of all batches so far.
        segment_start: first row of the segment, since which no change has been detected.
        starts: int64, first row of each candidate.
        log_bayes_factors: float64, nats: candidate against current model, over the rows from the
            candidate's start.
        log_e_values: float64, logarithms of the terms of Mₙ.
        variances: float64, nats²: Monte Carlo variance of the current model's log predictive
            densities, from the candidate's start.
    """

    num_batches: int
    num_observations: int
    segment_start: int
    starts: Int[ndarray, " candidates"]
    log_bayes_factors: Float[ndarray, " candidates"]
    log_e_values: Float[ndarray, " candidates"]
    variances: Float[ndarray, " candidates"]


class Change(NamedTuple):
    """A detected change.

    Attributes:
        row: first row of the most probable new segment, counted from zero over the whole stream.
        interval: first and last row of an interval that contains the start of the new segment with
            a posterior probability of 0.95 or more, given that there was one change; at least as
            wide as the distance between candidates.
        log_bayes_factor: log evidence of the rows from `row` on under the restarted model minus
            that under the current model, in nats.
        standard_error: Monte Carlo error of `log_bayes_factor`, in nats; NaN if unknown.
        num_observations: rows seen at the alarm.
        log_e_value: log Mₙ at the alarm.
    """

    row: int
    interval: tuple[int, int]
    log_bayes_factor: float
    standard_error: float
    num_observations: int
    log_e_value: float


class EDetectorInfo(NamedTuple):
    """The result of one batch.

    Attributes:
        log_e_value: log Mₙ; -inf before there is a candidate.
        alarm: the change, or None.
        candidate: the most probable candidate as an index into `restarted`; None without alarm.
        kept: the candidates still in the state, as indices into `restarted`, oldest first.
    """

    log_e_value: float
    alarm: Change | None
    candidate: int | None
    kept: tuple[int, ...]


@dataclass(frozen=True)
class EDetector:
    """Alarms from log predictive densities with a bounded false-alarm rate; pure methods.

    Attributes:
        false_alarm_rate: per batch; while nothing changes, the mean number of batches up to an
            alarm is at least 1 / false_alarm_rate.
        max_candidates: maximum number of models beside the current one. Candidates are thinned
            geometrically by age, and the one with the largest term is always kept. With one, each
            batch is judged by itself.
        restart_every: batches between new candidates; each candidate counts that many times,
            which keeps the guarantee.
        tempering: power β in (0, 1] of the ratios, for overconfident models. The guarantee holds
            for every β, as E₀[(p/p₀)^β] ≤ 1; alarms need 1/β times the evidence.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> detector = EDetector(false_alarm_rate=0.01)
        >>> state = detector.init()
        >>> state, info = detector.update(state, num_rows=100, continued=-140.0, restarted=[])
        >>> state, info = detector.update(
        ...     state, num_rows=100, continued=-190.0, restarted=[-145.0]
        ... )
        >>> info.alarm.row, info.alarm.interval, info.alarm.log_bayes_factor
        (100, (1, 199), 45.0)

    Source: Shin, Ramdas, Rinaldo (2022), Definition 2.2 and Proposition 2.4.
    """

    false_alarm_rate: float = 1e-3
    max_candidates: int = 8
    restart_every: int = 1
    tempering: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < as_number(self.false_alarm_rate) < 1:
            raise ConfigurationError(
                f"false_alarm_rate is a number of alarms per batch between 0 and 1; got {self.false_alarm_rate}."
            )
        check_count("max_candidates", self.max_candidates, 1)
        check_count("restart_every", self.restart_every, 1)
        if not 0 < as_number(self.tempering) <= 1:
            raise ConfigurationError(f"tempering must be above 0 and at most 1; got {self.tempering}.")

    @property
    def log_threshold(self) -> float:
        """log(1 / false_alarm_rate), which log Mₙ must reach."""
        return -math.log(self.false_alarm_rate)

    def init(self, num_observations: int = 0, *, segment_start: int = 0) -> EDetectorState:
        """The initial state, without candidates.

        `num_observations` rows were seen before; the segment began at row `segment_start`.
        """
        none = np.empty(0)
        num_batches = int(num_observations > segment_start)
        return EDetectorState(
            num_batches, num_observations, segment_start, none.astype(np.int64), none, none, none
        )

    def opens_candidate(self, state: EDetectorState) -> bool:
        """Whether the next batch starts a new candidate.

        Not at the first batch of a segment, where it would equal the current model.
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
        """Process the log predictive densities of one batch.

        Args:
            state: from `init` or the last `update`.
            num_rows: rows of the batch.
            continued: log predictive density of the batch under the current model, in nats.
            restarted: the same under each candidate of `state`, in order, then under a new one
                (its log evidence) if `opens_candidate(state)`; -inf drops a candidate.
            continued_variance: Monte Carlo variance of `continued`, nats². Such an error
                multiplies the mean of 1/p₀ by the exponential of its variance, which is therefore
                subtracted from the logarithm of every term.

        Returns:
            The new state and the result of the batch. After an alarm the new state has no
            candidates, its segment begins at the row of the change, and the candidate
            `info.candidate` becomes the current model.

        Raises:
            ConfigurationError: an argument is out of range, or `restarted` has the wrong length.
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
        log_e_value = float(np.logaddexp.reduce(state.log_e_values))  # -inf without candidates
        if log_e_value >= self.log_threshold:
            change, candidate = _change(state, log_e_value)
            after = self.init(state.num_observations, segment_start=change.row)
            return after, EDetectorInfo(log_e_value, change, candidate, ())
        kept = self._kept(state)
        columns = {name: getattr(state, name)[list(kept)] for name in EDetectorState._fields[3:]}
        return state._replace(**columns), EDetectorInfo(log_e_value, None, None, kept)

    def _gains(
        self,
        state: EDetectorState,
        opens: bool,
        num_rows: int,
        continued: float,
        restarted: Sequence[float],
    ) -> Float[ndarray, " candidates"]:
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
        # A candidate of density zero is dropped, even if the current model's density is zero too.
        possible = densities > -np.inf
        return np.where(possible, np.where(possible, densities, 0.0) - continued, -np.inf)

    def _kept(self, state: EDetectorState) -> tuple[int, ...]:
        kept = [int(i) for i in np.flatnonzero(state.log_e_values > -np.inf)]
        while len(kept) >= self.max_candidates:  # leaves room for the next candidate
            starts = state.starts[kept]
            edges = np.concatenate([[state.segment_start], starts, [state.num_observations]])
            # Distance between the neighbours over the age: constant for geometrically spaced ages.
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
    """The most probable candidate and its index.

    Each candidate represents the rows since the previous one, all equally probable a priori.
    """
    edges = np.concatenate([[state.segment_start], state.starts])
    # Infinite where the current model's density of a batch is zero.
    factors = np.nan_to_num(state.log_bayes_factors, posinf=1e300, neginf=-np.inf)
    posterior = np.exp(weights.normalise(factors + np.log(np.diff(edges))))
    best = int(np.argmax(posterior))
    order = np.argsort(-posterior, kind="stable")
    credible = order[: 1 + int(np.searchsorted(np.cumsum(posterior[order]), CREDIBILITY))]
    # A change between the starts of two candidates may favor either of them, so the interval
    # extends to the neighbours.
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
