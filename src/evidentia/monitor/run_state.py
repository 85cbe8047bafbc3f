"""The pure core of `RunLengths`: its state, and the step of a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import EstimationError
from evidentia.monitor import run_weights, segmentation
from evidentia.monitor.conjugate.protocol import Conjugate
from evidentia.monitor.hazards import Hazards
from evidentia.monitor.run_changes import RunChange, change_of, probability_between
from evidentia.monitor.run_weights import RunWeights
from evidentia.monitor.segmentation import BestPaths

# Later runs that may dominate one that is left out. With one, runs of neighbouring rows have no
# finite bound under an unknown variance.
NUM_LATER = 2


class RunLengthState(NamedTuple):
    """What the next row needs.

    Attributes:
        parameters: float64, of the posterior in each run.
        weights: of the runs.
        best: the most probable segmentations.
        since: a current run that began with this row or later raises an alarm.
        num_observations: rows seen.
    """

    parameters: Float[ndarray, "runs parameters"]
    weights: RunWeights
    best: BestPaths
    since: int
    num_observations: int


class Seen(NamedTuple):
    """A row, and the distribution after it, for the picture.

    Attributes:
        row: float64, the numbers of the row.
        starts: int64, of the runs.
        probabilities: float64, of the runs.
    """

    row: Float[ndarray, " numbers"]
    starts: Int[ndarray, " runs"]
    probabilities: Float[ndarray, " runs"]


def init(model: Conjugate, hazards: Hazards) -> RunLengthState:
    """Before any row."""
    none = np.empty((0, len(model.prior)))
    return RunLengthState(none, run_weights.init(hazards), segmentation.init(hazards), 1, 0)


def step(
    state: RunLengthState, model: Conjugate, hazards: Hazards, max_runs: int, row: Any
) -> RunLengthState:
    """The state after a row; before it, leaves out a run if there are more than `max_runs`.

    Raises EstimationError if the row has no density in any run.
    """
    if len(state.parameters) > max_runs:
        state = _pruned(state, model, hazards)
    number = state.num_observations
    parameters = np.concatenate([state.parameters, model.prior[None]])
    with np.errstate(over="ignore", invalid="ignore"):  # a row that overflows has no density
        log_predictives = np.asarray(model.log_predictive(parameters, row), np.float64)
        weights, total = run_weights.step(state.weights, hazards, number, log_predictives)
    if not np.isfinite(total):
        raise EstimationError(f"row {number:,} of the stream has no density in any run: {row}.")
    best = segmentation.step(state.best, hazards, state.weights.starts, number, log_predictives, total)
    return RunLengthState(model.updated(parameters, row), weights, best, state.since, number + 1)


def _pruned(state: RunLengthState, model: Conjugate, hazards: Hazards) -> RunLengthState:
    parameters = state.parameters
    log_ratios = np.full((1 + NUM_LATER, len(parameters)), np.inf)
    log_ratios[0] = model.log_ratio_bound(parameters, np.broadcast_to(model.prior, parameters.shape))
    for k in range(1, 1 + NUM_LATER):
        log_ratios[k, :-k] = model.log_ratio_bound(parameters[:-k], parameters[k:])
    weights, out = run_weights.pruned(state.weights, hazards, log_ratios)
    best = state.best._replace(log_weights=np.delete(state.best.log_weights, out, 0))
    return state._replace(parameters=np.delete(parameters, out, 0), weights=weights, best=best)


def watched(state: RunLengthState, threshold: float) -> tuple[RunLengthState, list[RunChange]]:
    """The state, and an alarm if a change since the last alarm has at least that probability."""
    if probability_between(state.weights, state.since) < threshold:
        return state, []
    alarm = change_of(state.weights, state.since, state.num_observations)
    return state._replace(since=state.num_observations), [alarm]
