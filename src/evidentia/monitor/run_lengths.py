"""Bayesian online change points: the exact distribution of the current run's length."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import ConfigurationError, check_count, kind_of
from evidentia.monitor import run_state, segmentation
from evidentia.monitor.conjugate.protocol import Conjugate, WithMoments
from evidentia.monitor.hazards import BetaHazard, hazards_of
from evidentia.monitor.run_changes import (
    HazardPosterior,
    RunChange,
    RunLength,
    check_keeping,
    lengths_of,
    probability_between,
)
from evidentia.monitor.run_length_records import RunLengthUpdate
from evidentia.monitor.runs_kept import RunLengthState, Seen, load_state, save_state
from evidentia.system.sharing import OneAtATime

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RunLengths:
    """Bayesian online change points, exact for conjugate models.

    A change may follow every row, with the same probability, the hazard. The rows of a segment
    are independent given parameters from the prior, drawn anew for every segment. After every row,
    this object holds the distribution of the length of the current run, the evidence of the
    change-point model (a sum over all partitions of the rows into segments), and the most probable
    segmentation. Rows count one by one, however they are split into batches.

    A row costs time and memory in proportion to the runs kept, at most `max_runs` and one. Up to
    as many rows all is exact; afterwards the run that matters least is left out at every row, and
    `log_evidence_bounds` are bounds of the exact log evidence. The exact distribution of the run
    length differs from `run_length` by at most 1 - exp(-pruning_error) in total variation.

    An alarm is raised as soon as the probability of a change since the last alarm is at least
    `threshold`. If the model is right, at most a share 1 - threshold of first alarms is false.

    Attributes:
        model, hazard, max_runs, threshold, history: as given.
        standard_error: 0.0, as nothing is estimated by Monte Carlo.
        alone: a context manager, in which no other thread changes this object.

    Args:
        model: a conjugate model of one segment, such as `evidentia.monitor.NormalInverseGamma()`.
        hazard: probability of a change after each row, or a `BetaHazard` that is learnt.
        max_runs: number of runs kept, at least two.
        threshold: probability of a change that raises an alarm, in (0, 1).
        history: number of last rows whose run-length distributions are kept for `plot`.

    Raises:
        ConfigurationError: an invalid argument.

    Example:
        >>> model = ev.monitor.NormalInverseGamma(shape=2.0, scale=2.0)
        >>> runs = ev.monitor.RunLengths(model, hazard=1 / 100)
        >>> update = runs.update(np.repeat([0.1, -0.1, 8.1, 7.9], [30, 30, 3, 3]))
        >>> update.alarms[0].row, runs.most_likely_changes()
        (60, array([60]))

    Source: Adams and MacKay (2007), arXiv:0710.3742, Algorithm 1; the alarm is that of Shiryaev
    (1963), "On optimum methods in quickest detection problems".
    """

    def __init__(
        self,
        model: Conjugate,
        hazard: float | BetaHazard = 1 / 250,
        *,
        max_runs: int = 500,
        threshold: float = 0.9,
        history: int = 1000,
    ):
        if not isinstance(model, Conjugate) or isinstance(model, type):
            raise ConfigurationError(
                "model must have prior, rows, log_predictive, updated and log_ratio_bound, such as "
                f"evidentia.monitor.NormalInverseGamma(); got {kind_of(model)}."
            )
        self._hazards = hazards_of(hazard)
        check_keeping(max_runs, threshold)
        check_count("history", history, 0)
        self.alone = OneAtATime()
        self.model, self.hazard, self.max_runs = model, hazard, int(max_runs)
        self.threshold, self.history = float(threshold), int(history)
        self.standard_error = 0.0
        self._state = run_state.init(model, self._hazards)
        self._past: deque[Seen] = deque(maxlen=self.history)

    def update(self, batch: Any) -> RunLengthUpdate:
        """Process a batch of rows, one after another.

        Raises:
            DataError: the batch is empty or has rows that are not the model's.
            EstimationError: a row has no density in any run, as a number overflows.

        After an error, the object is as it was before the batch.
        """
        with self.alone:
            rows = self.model.rows(batch)
            before = state = self._state
            alarms: list[RunChange] = []
            past: deque[Seen] = deque(maxlen=self.history)
            for row in rows:
                state = run_state.step(state, self.model, self._hazards, self.max_runs, row)
                state, alarm = run_state.watched(state, self.threshold)
                alarms += alarm
                past.append(Seen(np.atleast_1d(row), state.weights.starts, state.weights.probabilities))
            self._state = state
            self._past.extend(past)
            low, high = state.weights.log_evidence_bounds
            return RunLengthUpdate(
                num_observations=state.num_observations,
                batch_size=len(rows),
                log_predictive=state.weights.log_evidence - before.weights.log_evidence,
                log_evidence=state.weights.log_evidence,
                pruning_error=high - low,
                change_probability=probability_between(state.weights, state.since),
                alarms=tuple(alarms),
            )

    @property
    def num_observations(self) -> int:
        """Rows seen."""
        return self._state.num_observations

    @property
    def log_evidence(self) -> float:
        """Log evidence of all rows seen under the change-point model, in nats."""
        return self._state.weights.log_evidence

    @property
    def log_evidence_bounds(self) -> tuple[float, float]:
        """Bounds of the exact log evidence, in nats; equal if no run was left out."""
        return self._state.weights.log_evidence_bounds

    @property
    def pruning_error(self) -> float:
        """Width of `log_evidence_bounds`, in nats: how wrong `log_evidence` is at most."""
        low, high = self.log_evidence_bounds
        return high - low

    @property
    def run_length(self) -> RunLength:
        """The distribution of the number of rows in the current run."""
        return lengths_of(self._state.weights, self.num_observations)

    @property
    def hazard_posterior(self) -> HazardPosterior:
        """The hazards and their posterior probabilities; one hazard, if it is given."""
        return HazardPosterior(self._hazards.values, self._state.weights.hazard_probabilities)

    @property
    def next_row(self) -> tuple[float, float]:
        """Mean and standard deviation of the next row, if no change follows the last one.

        NaN before the first row and if the model has no `moments` (`WithMoments`); the standard
        deviation may be infinite.
        """
        parameters, weights = self._state.parameters, self._state.weights
        if not len(parameters) or not isinstance(self.model, WithMoments):
            return float("nan"), float("nan")
        means, variances = self.model.moments(parameters)
        mean = float(weights.probabilities @ means)
        return mean, float(np.sqrt(weights.probabilities @ (variances + (means - mean) ** 2)))

    def change_probability(self, first: int, last: int | None = None) -> float:
        """Probability that the current run began with one of the rows from `first` to `last`.

        Rows are counted from 0 over the whole stream; without `last`, up to the last one seen.
        Raises ConfigurationError if they are not such numbers.
        """
        return probability_between(self._state.weights, first, last)

    def most_likely_changes(self) -> Int[ndarray, " changes"]:
        """First rows of the segments after the first, in the most probable segmentation.

        The segmentation of highest joint probability with the rows (and the hazard, if it is
        learnt), found by Viterbi's recursion; runs that were left out are not considered.
        """
        return segmentation.changes(self._state.best, self._state.weights.starts)

    def log_predictive(self, batch: Any) -> Float[ndarray, " rows"]:
        """log p(row | rows seen) of each row by itself, in nats; changes nothing.

        Raises DataError as `update`.
        """
        state = self._state
        after = [
            run_state.step(state, self.model, self._hazards, self.max_runs, row)
            for row in self.model.rows(batch)
        ]
        return np.array([one.weights.log_evidence for one in after]) - state.weights.log_evidence

    def restarted(self, seed: int = 0) -> RunLengths:
        """The same model and settings, without rows; nothing depends on the seed."""
        return RunLengths(
            self.model,
            self.hazard,
            max_runs=self.max_runs,
            threshold=self.threshold,
            history=self.history,
        )

    @property
    def state(self) -> tuple[RunLengthState, tuple[Seen, ...]]:
        """The immutable state so far, for `restore`."""
        return self._state, tuple(self._past)

    def restore(self, state: tuple[RunLengthState, tuple[Seen, ...]]) -> None:
        """Return to an earlier `state` of this object and discard the rows after it."""
        with self.alone:
            self._state, past = state
            self._past = deque(past, maxlen=self.history)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint, from which `load` continues bit for bit as this object would.

        Raises CheckpointError, and leaves a previous one unchanged, if it cannot be written.
        """
        settings = {
            "hazard": self.hazard,
            "max_runs": self.max_runs,
            "threshold": self.threshold,
            "history": self.history,
        }
        save_state(folder, self.model, settings, *self.state)

    @classmethod
    def load(cls, folder: str | Path, model: Conjugate) -> RunLengths:
        """Load a saved object, given the same model.

        Raises CheckpointError if there is none, it is damaged, or the model is different.
        """
        settings, state, past = load_state(folder, model)
        loaded = cls(model, **settings)
        loaded.restore((state, past))
        return loaded

    def plot(self, axes: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
        """Plot the last rows, and below the distribution of the run length after each.

        Lines mark the most likely changes. Of rows with several numbers, the last is shown.

        Args:
            axes: two axes to draw into; a new pyplot figure if not given.

        Returns:
            The two axes.

        Raises:
            ConfigurationError: no rows are kept, as there are none or history=0.
        """
        from evidentia.display.run_lengths_plot import draw_run_lengths

        if not self._past:
            raise ConfigurationError("no rows are kept to plot: call update first, with history above 0.")
        return draw_run_lengths(
            self.num_observations - len(self._past),
            np.array([seen.row[-1] for seen in self._past]),
            [(seen.starts, seen.probabilities) for seen in self._past],
            self.most_likely_changes(),
            axes,
        )

    def __repr__(self) -> str:
        return f"RunLengths({self.model!r}, hazard={self.hazard!r}; {self.num_observations:,} observations)"
