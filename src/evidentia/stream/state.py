"""The state of an online estimate, and how a batch changes it: pure functions, which `Online` wraps.

A batch is cut into chunks. Each is put beside the reservoir, taken in along the annealed path, and absorbed into what is kept of
the past. At round numbers of rows the particles are drawn anew, from what is kept, which frees them of errors of the path.
"""

import math
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from evidentia.evidence import SGAIS, diagnostics
from evidentia.evidence.estimator import Diagnosis
from evidentia.evidence.moves import StepInfo
from evidentia.evidence.population import log_evidence_variance
from evidentia.evidence.refresh import weighted_particles
from evidentia.evidence.sgais import SGAISState
from evidentia.model import BoundModel
from evidentia.result import Trajectory
from evidentia.rows import next_round_number
from evidentia.stream import past as pasts
from evidentia.stream import reservoir as reservoirs
from evidentia.stream.arrays import num_rows
from evidentia.stream.past import Past

RECENT = 64  # annealing steps whose signs of health are kept


class OnlineUpdate(NamedTuple):
    """What one batch brought.

    Attributes:
        num_observations: rows seen so far, with this batch.
        batch_size: rows of this batch.
        log_predictive: log p(batch | rows before), in nats.
        log_evidence: of everything seen, in nats.
        standard_error: of `log_evidence`, in nats.
        num_annealing_steps: that the batch took; many where the data have changed.
        seconds: that the batch took.
        log_predictive_standard_error: of `log_predictive`, in nats: what the path's error grew by. Where particles were drawn
            anew after the batch, the error of `log_evidence` fell, and says nothing of it.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: float
    standard_error: float
    num_annealing_steps: int
    seconds: float
    log_predictive_standard_error: float = 0.0


class Mark(NamedTuple):
    """Where an estimate stood, for its trajectory; annealing steps and seconds are those from the first row on."""

    num_observations: int
    log_evidence: float
    standard_error: float
    num_annealing_steps: int
    seconds: float


class OnlineState(NamedTuple):
    """All that the next update needs, and what `Online.evidence` tells of the way here.

    `marks` stand at round numbers of rows, `steps` are the last annealing steps, of `num_steps`.
    """

    estimator: SGAISState
    past: Past
    steps: tuple[StepInfo, ...] = ()
    num_steps: int = 0
    marks: tuple[Mark, ...] = ()
    seconds: float = 0.0


def init(model: BoundModel, method: SGAIS, arrays: Any, seed: int, reservoir_size: int) -> OnlineState:
    """The state before the first batch, whose columns are those of `arrays`."""
    estimator = method.init(model, jax.random.key(seed))
    return OnlineState(estimator, Past(reservoirs.empty(arrays, reservoir_size)))


def take_in(
    model: BoundModel, method: SGAIS, state: OnlineState, arrays: Any, seed: int
) -> tuple[OnlineState, OnlineUpdate]:
    """State and news after a batch of any size, cut into chunks that the estimator and the reservoir can take."""
    started, size = time.perf_counter(), num_rows(arrays)
    end, done, log_predictive, num_steps = state.estimator.num_observations + size, 0, 0.0, 0
    variance = 0.0
    while done < size:
        first = state.estimator.num_observations
        stop = min(method.next_stop(state.estimator, end), first + reservoirs.room(state.past.reservoir))
        chunk = jax.tree.map(lambda leaf: leaf[done : done + stop - first], arrays)  # noqa: B023
        state, gained, growth, steps = _take_in_chunk(model, method, state, chunk, seed)
        variance += growth
        done, log_predictive, num_steps = done + stop - first, log_predictive + gained, num_steps + steps
    seconds = time.perf_counter() - started
    error = math.sqrt(max(0.0, variance))
    update = OnlineUpdate(end, size, log_predictive, *summary(method, state), num_steps, seconds, error)
    state = state._replace(num_steps=state.num_steps + num_steps, seconds=state.seconds + seconds)
    if not state.marks or end >= next_round_number(state.marks[-1].num_observations):
        state = state._replace(marks=(*state.marks, _mark(method, state)))
    return state, update


def summary(method: SGAIS, state: OnlineState) -> tuple[float, float]:
    """Log evidence of everything seen and its standard error, in nats.

    The error of what is kept of the past counts in full: importance weights rest on it, and moves go where it leads.
    """
    log_evidence, standard_error = method.summary(state.estimator)
    return float(log_evidence), math.hypot(standard_error, state.past.standard_error)


def trajectory(method: SGAIS, state: OnlineState) -> Trajectory:
    """The estimate at round numbers of rows and, as it stands, at the last."""
    last = _mark(method, state)
    marks = [*(mark for mark in state.marks if mark.num_observations < last.num_observations), last]
    columns = {name: np.array([getattr(mark, name) for mark in marks]) for name in Mark._fields}
    columns["num_annealing_steps"] = np.diff(columns["num_annealing_steps"], prepend=0)
    return Trajectory(**columns)


def diagnose(model: BoundModel, state: OnlineState) -> Diagnosis:
    """Measured signs of health of the last annealing steps, and of what is kept of the rows."""
    spread = diagnostics.height_spread(model, state.past.rows, state.estimator.population)
    measured = diagnostics.measure(state.steps, spread)
    measured["reservoir_standard_error"] = state.past.standard_error
    signs = diagnostics.signs_of_path(measured) | diagnostics.signs_of_reservoir(measured)
    return Diagnosis(measured, signs)


def _mark(method: SGAIS, state: OnlineState) -> Mark:
    """Where the estimate stands."""
    num_observations = state.estimator.num_observations
    return Mark(num_observations, *summary(method, state), state.num_steps, state.seconds)


def _take_in_chunk(model, method, state, chunk, seed) -> tuple[OnlineState, float, float, int]:
    """The state after a chunk, log p(chunk | rows before), what its variance is, and the number of annealing steps."""
    reservoir, window = reservoirs.stage(state.past.reservoir, chunk)
    past = state.past._replace(reservoir=reservoir)
    before, error_before = method.summary(state.estimator)[0], summary(method, state)[1]
    estimator, info = method.follow(model, state.estimator, past.rows, window)
    log_predictive = float(method.summary(estimator)[0] - before)
    past = pasts.absorb(model, past, window, estimator.population, seed)
    steps = (*state.steps, *info.steps)[-RECENT:]
    state = state._replace(estimator=estimator, past=past, steps=steps)
    # Before drawing anew: with that the error of the log evidence falls, but not that of what the path said of this chunk.
    growth = summary(method, state)[1] ** 2 - error_before**2
    if method.is_redraw_due(estimator):
        state = redraw(model, method, state)
    return state, log_predictive, growth, len(info.steps)


def redraw(model: BoundModel, method: SGAIS, state: OnlineState) -> OnlineState:
    """The state with particles drawn anew from what is kept, if that says more of the log evidence than the path."""
    estimator, past = state.estimator, state.past
    if past.sums is not None:
        past = pasts.centred(model, past, weighted_particles(model, estimator.population).mean)
    # The proposal is not kept: with the next rows particles go on along the path, which is asked before drawing anew again.
    tried = estimator.tried(estimator.num_observations)
    found = method.redraw(model, estimator, past.rows)
    if found is not None:
        population = found[0].population
        if log_evidence_variance(population) <= log_evidence_variance(estimator.population):
            tried = tried._replace(population=population)
    return state._replace(estimator=tried, past=past)
