"""Bayesian online change points for any model: an `Online` for each run length that is kept."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import (
    ConfigurationError,
    EstimationError,
    as_number,
    check_count,
    check_seed,
    kind_of,
)
from evidentia.monitor import run_weights
from evidentia.monitor.hazards import BetaHazard, hazards_of
from evidentia.monitor.protocols import OnlineLike, all_or_none, is_online
from evidentia.monitor.run_changes import RunChange, RunLength, change_of, lengths_of, probability_between
from evidentia.monitor.run_weights import ESTIMATE, RunWeights
from evidentia.system.sharing import OneAtATime


class OnlineRunLengthUpdate(NamedTuple):
    """The result of a batch; log evidences in nats.

    Attributes:
        num_observations: rows seen, including this batch.
        batch_size: rows in this batch.
        log_predictive: log p(batch | rows before).
        log_evidence: of all rows seen, under the change-point model.
        standard_error: of `log_evidence`, an upper bound to first order.
        left_out: probability of the runs left out so far, each when it was.
        change_probability: of a change since the last alarm.
        alarm: the change that became probable with this batch, or None.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: float
    standard_error: float
    left_out: float
    change_probability: float
    alarm: RunChange | None


class OnlineRunLengths:
    """Bayesian online change points for any model that `ev.Online` fits.

    As `RunLengths`, but a change may come between batches only, and every run kept is a model with
    particles of its own, started from the prior at its first batch. A batch therefore costs an
    update of up to `max_runs` and one models. Two approximations are stated with every result:

    - The evidence of each run is an estimate. The log weight of a run has the variance of the log
      evidence before it plus its own; as the errors of different runs may be correlated, the
      standard error of log Σ w is at most the mean of theirs, weighted by probability.
    - The least probable run is left out, for the next later one, if there are more than
      `max_runs`. `left_out` sums up their probabilities. If the model is right, this is the
      expected share that they would have in the end; without it, there is no bound.

    Attributes:
        hazard, max_runs, threshold, seed: as given.
        runs: the models of the runs, oldest first.
        alone: a context manager, in which no other thread changes this object.

    Args:
        online: an `evidentia.Online` without rows, or any `OnlineLike`; it is not changed.
        hazard: probability of a change after each batch, or a `BetaHazard`.
        max_runs: number of runs kept, at least two.
        threshold: probability of a change that raises an alarm, in (0, 1).
        seed: seed of the models.

    Raises:
        ConfigurationError: an invalid argument.

    Example:
        >>> runs = ev.monitor.OnlineRunLengths(ev.Online(model), hazard=1 / 50)  # doctest: +SKIP
        >>> for batch in stream:  # doctest: +SKIP
        ...     update = runs.update(batch)
        ...     print(update.log_evidence, update.standard_error, update.alarm)

    Source: Adams and MacKay (2007), arXiv:0710.3742, with evidences of Cameron, Eggers, Kroon
    (2019), Algorithm 1.
    """

    def __init__(
        self,
        online: OnlineLike,
        hazard: float | BetaHazard = 1 / 50,
        *,
        max_runs: int = 8,
        threshold: float = 0.9,
        seed: int = 0,
    ):
        if not is_online(online) or not callable(getattr(online, "restarted", None)):
            raise ConfigurationError(
                f"online must be an evidentia.Online (with update and restarted); got {kind_of(online)}."
            )
        self._hazards = hazards_of(hazard)
        check_count("max_runs", max_runs, 2)
        if not 0 < as_number(threshold) < 1:
            raise ConfigurationError(f"threshold must be a probability between 0 and 1; got {threshold!r}.")
        check_seed(seed)
        self.alone = OneAtATime()
        self.hazard, self.max_runs, self.threshold, self.seed = hazard, int(max_runs), threshold, int(seed)
        self.runs: tuple[OnlineLike, ...] = ()
        self._online = online
        self._weights = run_weights.init(self._hazards)
        self._variances_before = np.empty(0)  # of the log evidence before each run, nats²
        self._num_started, self._since, self._kept = 0, 1, 1.0
        self.num_observations, self.standard_error = 0, 0.0

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen under the change-point model, in nats."""
        return self._weights.log_evidence

    @property
    def run_length(self) -> RunLength:
        """The distribution of the number of rows in the current run."""
        return lengths_of(self._weights, self.num_observations)

    def change_probability(self, first: int, last: int | None = None) -> float:
        """Probability that the current run began with one of the rows from `first` to `last`.

        Raises ConfigurationError if they are not numbers of rows.
        """
        check_count("first", first, 0)
        if last is not None:
            check_count("last", last, first)
        return probability_between(self._weights, first, math.inf if last is None else last)

    def update(self, batch: Any) -> OnlineRunLengthUpdate:
        """Process a batch.

        Raises:
            EvidentiaError: raised by the models' `update`; a run whose evidence cannot be
                estimated is left out, unless no other remains.

        After an error, the object is as it was before the batch, and so are its models if they
        have `state` and `restore`, as `Online` has.
        """
        with self.alone:
            weights, runs, before, left_out = self._within_bounds()
            seed = int(np.random.SeedSequence((self.seed, self._num_started)).generate_state(1)[0] >> 1)
            runs = (*runs, self._online.restarted(seed))
            counts = [run.num_observations for run in runs]
            with all_or_none(runs):
                gains = [_gain(run, batch) for run in runs]
                if not any(isinstance(gain, float) for gain in gains):
                    raise next(error for error in gains if isinstance(error, EstimationError))
            log_predictives = [gain if isinstance(gain, float) else -math.inf for gain in gains]
            weights, total = run_weights.step(
                weights, self._hazards, self.num_observations, np.array(log_predictives, np.float64)
            )
            working = next(run for run, gain in zip(runs, gains, strict=True) if isinstance(gain, float))
            num_rows = working.num_observations - counts[runs.index(working)]
            self._commit(weights, runs, np.append(before, self.standard_error**2), num_rows)
            self._kept *= 1 - left_out
            return self._concluded(num_rows, total)

    def _commit(self, weights: RunWeights, runs: Any, before: ndarray, batch_size: int) -> None:
        possible = weights.probabilities > 0
        self._weights = weights._replace(
            starts=weights.starts[possible], log_weights=weights.log_weights[:, possible]
        )
        self.runs = tuple(run for run, one in zip(runs, possible, strict=True) if one)
        self._variances_before = before[possible]
        self._num_started += 1
        self.num_observations += batch_size
        own = np.array([run.standard_error for run in self.runs], np.float64)
        errors = np.sqrt(self._variances_before + own**2)
        self.standard_error = float(self._weights.probabilities @ errors)

    def _concluded(self, batch_size: int, log_predictive: float) -> OnlineRunLengthUpdate:
        probability = probability_between(self._weights, self._since)
        alarm = None
        if probability >= self.threshold:
            alarm = change_of(self._weights, self._since, self.num_observations)
            self._since = self.num_observations
            probability = 0.0
        return OnlineRunLengthUpdate(
            num_observations=self.num_observations,
            batch_size=batch_size,
            log_predictive=log_predictive,
            log_evidence=self.log_evidence,
            standard_error=self.standard_error,
            left_out=1 - self._kept,
            change_probability=probability,
            alarm=alarm,
        )

    def _within_bounds(
        self,
    ) -> tuple[RunWeights, tuple[OnlineLike, ...], Float[ndarray, " runs"], float]:
        """Weights, models, variances of at most `max_runs` runs; the probability left out."""
        weights, runs, before = self._weights, self.runs, self._variances_before
        if len(runs) <= self.max_runs:
            return weights, runs, before, 0.0
        equal = np.full((2, len(runs)), math.inf)
        equal[1, :-1] = 0.0  # no bounds are known: the least probable run goes to the next one
        after, out = run_weights.pruned(weights, self._hazards, equal)
        share = float(np.exp(weights.log_weights[ESTIMATE, out]).sum())
        return after, runs[:out] + runs[out + 1 :], np.delete(before, out), share

    def __repr__(self) -> str:
        return f"OnlineRunLengths({self._online!r}, hazard={self.hazard!r}; {self.num_observations:,} observations)"


def _gain(run: OnlineLike, batch: Any) -> float | EstimationError:
    """The log evidence that a batch adds to a run, which may also revise that of earlier rows."""
    before = run.log_evidence
    try:
        run.update(batch)
    except EstimationError as error:
        return error
    return float(run.log_evidence - before)
