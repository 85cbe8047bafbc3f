"""What is asked of a run-length distribution: its lengths, alarms, and the hazard's posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import ConfigurationError, as_number, check_count
from evidentia.monitor.run_weights import RunWeights

CREDIBILITY = 0.95  # posterior probability of an alarm's interval


class RunLength(NamedTuple):
    """The distribution of the number of rows in the current run.

    Attributes:
        lengths: int64, ascending; where runs were left out, each stands for those up to the next.
        probabilities: float64, adding up to one.
    """

    lengths: Int[ndarray, " runs"]
    probabilities: Float[ndarray, " runs"]


class HazardPosterior(NamedTuple):
    """The posterior of a constant hazard.

    Attributes:
        values: float64, the hazards.
        probabilities: float64, of each, given the rows.
    """

    values: Float[ndarray, " hazards"]
    probabilities: Float[ndarray, " hazards"]

    @property
    def mean(self) -> float:
        """The posterior mean."""
        return float(self.values @ self.probabilities)


class RunChange(NamedTuple):
    """A change that is probable enough for an alarm.

    Attributes:
        row: first row of the most probable new run, counted from 0 over the whole stream.
        interval: first and last row of the shortest interval that has 95% of the probability of
            a change since the last alarm.
        probability: of a change since the last alarm.
        num_observations: rows seen at the alarm.
    """

    row: int
    interval: tuple[int, int]
    probability: float
    num_observations: int


def lengths_of(weights: RunWeights, num_observations: int) -> RunLength:
    """The distribution, shortest run first."""
    return RunLength(num_observations - weights.starts[::-1], weights.probabilities[::-1])


def check_keeping(max_runs: Any, threshold: Any) -> None:
    """Raise ConfigurationError unless they are a number of runs and a probability."""
    check_count("max_runs", max_runs, 2)
    if not 0 < as_number(threshold) < 1:
        raise ConfigurationError(f"threshold must be a probability between 0 and 1; got {threshold!r}.")


def probability_between(weights: RunWeights, first: int, last: int | None = None) -> float:
    """Probability that the current run began with one of the rows from `first` to `last`.

    Raises ConfigurationError if they are not numbers of rows.
    """
    check_count("first", first, 0)
    if last is not None:
        check_count("last", last, first)
    inside = (weights.starts >= first) & (weights.starts <= (np.inf if last is None else last))
    return float(min(weights.probabilities[inside].sum(), 1.0))


def change_of(weights: RunWeights, since: int, num_observations: int) -> RunChange:
    """The change among the runs that began with row `since` or later; there is at least one."""
    inside = int(np.searchsorted(weights.starts, since))
    starts, shares = weights.starts[inside:], weights.probabilities[inside:]
    cumulative: ndarray = np.append(0.0, np.cumsum(shares))
    needed: ndarray = cumulative[:-1] + CREDIBILITY * cumulative[-1]
    # One past the last start of each interval.
    lasts = np.searchsorted(cumulative, needed * (1 - 1e-12))
    possible = np.flatnonzero(lasts < len(cumulative))
    # A start stands for those from the last one.
    edges = np.maximum(np.concatenate([[since - 1], starts]), since - 1) + 1
    widths = starts[lasts[possible] - 1] - edges[possible]
    best = possible[np.argmin(widths)]
    return RunChange(
        row=int(starts[np.argmax(shares)]),
        interval=(int(edges[best]), int(starts[lasts[best] - 1])),
        probability=float(min(cumulative[-1], 1.0)),
        num_observations=num_observations,
    )
