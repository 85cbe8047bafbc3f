"""Bayesian online change points for any model: an `Online` for each run length that is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidentia.errors import ConfigurationError, EstimationError, check_seed, kind_of
from evidentia.model.model import Model
from evidentia.monitor import run_weights, saving
from evidentia.monitor.hazards import BetaHazard, Hazards, hazards_of
from evidentia.monitor.protocols import OnlineLike, all_or_none, is_online
from evidentia.monitor.run_changes import (
    RunLength,
    change_of,
    check_keeping,
    lengths_of,
    probability_between,
)
from evidentia.monitor.run_length_records import OnlineRunLengthUpdate, OnlineRunState
from evidentia.monitor.run_weights import ESTIMATE, RunWeights
from evidentia.system.sharing import OneAtATime


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
        state: the numbers, for a checkpoint; see `resume`.
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
        check_keeping(max_runs, threshold)
        check_seed(seed)
        self.alone = OneAtATime()
        self.hazard, self.max_runs, self.threshold, self.seed = hazard, int(max_runs), threshold, int(seed)
        self.runs: tuple[OnlineLike, ...] = ()
        self._online = online
        self._state = OnlineRunState(run_weights.init(self._hazards), np.empty(0))

    @property
    def num_observations(self) -> int:
        """Rows seen."""
        return self._state.num_observations

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`, an upper bound to first order, in nats."""
        return self._state.standard_error

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen under the change-point model, in nats."""
        return self._state.weights.log_evidence

    @property
    def run_length(self) -> RunLength:
        """The distribution of the number of rows in the current run."""
        return lengths_of(self._state.weights, self.num_observations)

    def change_probability(self, first: int, last: int | None = None) -> float:
        """Probability that the current run began with one of the rows from `first` to `last`.

        Raises ConfigurationError if they are not numbers of rows.
        """
        return probability_between(self._state.weights, first, last)

    def update(self, batch: Any) -> OnlineRunLengthUpdate:
        """Process a batch.

        Raises:
            EvidentiaError: raised by the models' `update`; a run whose evidence cannot be
                estimated is left out, unless no other remains.

        After an error, the object is as it was before the batch, and so are its models if they
        have `state` and `restore`, as `Online` has.
        """
        with self.alone:
            state, runs = _within_bounds(self._state, self.runs, self._hazards, self.max_runs)
            seed = int(np.random.SeedSequence((self.seed, state.num_started)).generate_state(1)[0] >> 1)
            runs = (*runs, self._online.restarted(seed))
            counts = [run.num_observations for run in runs]
            with all_or_none(runs):
                gains = [_gain(run, batch) for run in runs]
                if not any(isinstance(gain, float) for gain in gains):
                    raise next(error for error in gains if isinstance(error, EstimationError))
            log_predictives = [gain if isinstance(gain, float) else -math.inf for gain in gains]
            weights, total = run_weights.step(
                state.weights, self._hazards, state.num_observations, np.array(log_predictives, np.float64)
            )
            working = next(run for run, gain in zip(runs, gains, strict=True) if isinstance(gain, float))
            num_rows = working.num_observations - counts[runs.index(working)]
            self._state, self.runs = _after(state, runs, weights, num_rows)
            return self._concluded(num_rows, total)

    def _concluded(self, batch_size: int, log_predictive: float) -> OnlineRunLengthUpdate:
        state = self._state
        probability = probability_between(state.weights, state.since)
        alarm = None
        if probability >= self.threshold:
            alarm = change_of(state.weights, state.since, state.num_observations)
            self._state = state._replace(since=state.num_observations)
            probability = 0.0
        return OnlineRunLengthUpdate(
            num_observations=state.num_observations,
            batch_size=batch_size,
            log_predictive=log_predictive,
            log_evidence=self.log_evidence,
            standard_error=state.standard_error,
            left_out=1 - state.kept,
            change_probability=probability,
            alarm=alarm,
        )

    @property
    def state(self) -> OnlineRunState:
        """The numbers; `resume` needs these and the models."""
        return self._state

    def resume(self, state: OnlineRunState, runs: Sequence[OnlineLike]) -> OnlineRunLengths:
        """Restore the numbers and models of a saved object; return self.

        Args:
            state: of the saved object, which had the same settings.
            runs: its `runs`.

        Raises:
            ConfigurationError: the number of models does not match the state.
        """
        if len(runs) != len(state.weights.starts):
            raise ConfigurationError(
                f"runs must be the {len(state.weights.starts)} models of the state; got {len(runs)}."
            )
        self._state, self.runs = state, tuple(runs)
        return self

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint with all models, from which `load` continues bit for bit.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written, or a
        model is not an `Online`.
        """
        names = "hazard", "max_runs", "threshold", "seed"
        with self.alone:
            content = {
                "settings": {name: getattr(self, name) for name in names},
                "online": saving.packed_online(self._online),
                "runs": [saving.packed_online(run) for run in self.runs],
                "state": self._state,
            }
            saving.write(folder, "run lengths", content, self.num_observations)

    @classmethod
    def load(cls, folder: str | Path, model: Model) -> OnlineRunLengths:
        """Load a saved object, given the same model.

        Raises CheckpointError if there is none, it is damaged, or the model is different.
        """
        return saving.read_run_lengths(cls, folder, model)

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


def _after(
    state: OnlineRunState, runs: tuple[OnlineLike, ...], weights: RunWeights, batch_size: int
) -> tuple[OnlineRunState, tuple[OnlineLike, ...]]:
    """State and runs after a batch, without the runs that have become impossible."""
    possible = weights.probabilities > 0
    runs = tuple(run for run, one in zip(runs, possible, strict=True) if one)
    weights = weights._replace(starts=weights.starts[possible], log_weights=weights.log_weights[:, possible])
    before = np.append(state.variances_before, state.standard_error**2)[possible]
    errors = np.sqrt(before + np.array([run.standard_error for run in runs], np.float64) ** 2)
    after = state._replace(
        weights=weights,
        variances_before=before,
        num_started=state.num_started + 1,
        num_observations=state.num_observations + batch_size,
        standard_error=float(weights.probabilities @ errors),
    )
    return after, runs


def _within_bounds(
    state: OnlineRunState, runs: tuple[OnlineLike, ...], hazards: Hazards, max_runs: int
) -> tuple[OnlineRunState, tuple[OnlineLike, ...]]:
    """State and runs without the least probable one, if there are more than `max_runs`."""
    if len(runs) <= max_runs:
        return state, runs
    equal = np.full((2, len(runs)), math.inf)
    equal[1, :-1] = 0.0  # no bounds are known: the least probable run goes to the next one
    weights, out = run_weights.pruned(state.weights, hazards, equal)
    share = float(np.exp(state.weights.log_weights[ESTIMATE, out]).sum())
    after = state._replace(
        weights=weights,
        variances_before=np.delete(state.variances_before, out),
        kept=state.kept * (1 - share),
    )
    return after, runs[:out] + runs[out + 1 :]
