"""The state of an online estimate and its update by a batch: pure functions, wrapped by `Online`.

A batch is cut into chunks. Each is staged behind the reservoir, processed by the method, and
absorbed into the past (`chunks`). At round numbers of rows `SGAIS` redraws its particles from the
past, without the errors of the path (`leaps`).
"""

import math
import time
from typing import Any, NamedTuple

import jax

from evidentia.data.arrays import num_rows
from evidentia.evidence.method import Diagnosis, Estimate
from evidentia.evidence.nested.run import Iteration
from evidentia.evidence.online_nested_sampling import OnlineNestedSampling
from evidentia.evidence.population import chunks, leaps, warning_signs
from evidentia.evidence.population.chunks import ChunkInfo, PathState, Redraw, next_round_number
from evidentia.evidence.population.moves import StepInfo
from evidentia.evidence.sequential import Sequential
from evidentia.evidence.sgais import SGAIS
from evidentia.model.bound import BoundModel
from evidentia.online.pasts import Past
from evidentia.trajectory import Trajectory, trajectory_of

RECENT = 64  # annealing steps, or iterations, used for diagnostics

StreamMethod = SGAIS | Sequential | OnlineNestedSampling  # those that never revisit all rows


class OnlineUpdate(NamedTuple):
    """The result of one batch.

    Attributes:
        num_observations: rows seen so far, including this batch.
        batch_size: rows in this batch.
        log_predictive: log p(batch | earlier rows), in nats.
        log_evidence: log evidence of all rows seen, in nats.
        standard_error: standard error of `log_evidence`, in nats.
        num_annealing_steps: annealing steps for this batch, or moves, or iterations of nested
            sampling; many if the data have changed.
        seconds: time for this batch.
        log_predictive_standard_error: standard error of `log_predictive`, in nats, from the growth
            of the path's variance. Redrawing the particles after the batch reduces the error of
            `log_evidence`, but not this one.
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
    """A trajectory entry; annealing steps and seconds are counted from the first row."""

    num_observations: int
    log_evidence: float
    standard_error: float
    num_annealing_steps: int
    seconds: float


class OnlineState(NamedTuple):
    """The state that the next update needs, and the history that `Online.evidence` shows.

    Attributes:
        path: the particles.
        past: the rows seen.
        steps: the last of the `num_steps` annealing steps, if after the last redraw.
        num_steps: annealing steps so far.
        marks: trajectory entries at round numbers of rows.
        seconds: time for all batches.
        redraw: the last redraw.
        signs: of trouble in chunks, which later ones do not heal.
    """

    path: PathState
    past: Past
    steps: tuple[StepInfo | Iteration, ...] = ()
    num_steps: int = 0
    marks: tuple[Mark, ...] = ()
    seconds: float = 0.0
    redraw: Redraw = Redraw()
    signs: tuple[tuple[str, str], ...] = ()


def init(model: BoundModel, method: StreamMethod, past: Past, seed: int) -> OnlineState:
    """The state before the first batch, with an empty past."""
    return OnlineState(method.init(model, jax.random.key(seed)), past)


def take_in_batch(
    model: BoundModel, method: StreamMethod, state: OnlineState, arrays: Any
) -> tuple[OnlineState, OnlineUpdate]:
    """Process a batch of any size; return the state and the result."""
    started, size = time.perf_counter(), num_rows(arrays)
    path, arriving = state.path, state.past.arriving(arrays)
    end, num_steps = path.num_observations + size, 0
    log_predictive = variance = 0.0
    while path.num_observations < end:
        before, error_before = method.estimate(path), arriving.past.standard_error
        path, arriving, info = chunks.advance(method, model, path, arriving, end)
        after = method.estimate(path)
        log_predictive += after.log_evidence - before.log_evidence
        if isinstance(method, SGAIS) and method.refresh and leaps.is_redraw_due(path):
            path, arriving, info = leaps.redraw(method, model, path, arriving, info)
        variance += after.variance + arriving.standard_error**2 - before.variance - error_before**2
        # A proposal is only for rows in memory, which can be evaluated ahead of the path.
        path = path._replace(proposal=None)
        state = _with_signs_of(method, state, info)
        num_steps += len(info.steps)
    seconds = time.perf_counter() - started
    state = state._replace(
        path=path,
        past=arriving.past,
        num_steps=state.num_steps + num_steps,
        seconds=state.seconds + seconds,
    )
    found = estimate(method, state)
    error = math.sqrt(max(0.0, variance))
    update = OnlineUpdate(
        end, size, log_predictive, found.log_evidence, found.standard_error, num_steps, seconds, error
    )
    if not state.marks or end >= next_round_number(state.marks[-1].num_observations):
        state = state._replace(marks=(*state.marks, _mark(method, state)))
    return state, update


def redraw(model: BoundModel, method: StreamMethod, state: OnlineState) -> OnlineState:
    """Redraw the particles from the past if the method can, and if that lowers the variance."""
    if not isinstance(method, SGAIS):
        return state
    path, arriving, info = leaps.redraw(method, model, state.path, state.past.arriving(None))
    state = state if info is None else _with_signs_of(method, state, info)
    return state._replace(path=path._replace(proposal=None), past=arriving.past)


def estimate(method: StreamMethod, state: OnlineState) -> Estimate:
    """The estimate for all rows seen.

    The error of the past counts in full, as weights and moves depend on it.
    """
    of_path = method.estimate(state.path)
    variance = of_path.variance + state.past.standard_error**2
    return Estimate(of_path.log_evidence, variance, is_unbiased=False)


def trajectory(method: StreamMethod, state: OnlineState) -> Trajectory:
    """The estimates at round numbers of rows and at the last row."""
    last = _mark(method, state)
    marks = [*(mark for mark in state.marks if mark.num_observations < last.num_observations), last]
    return trajectory_of(marks)


def diagnose(model: BoundModel, method: StreamMethod, state: OnlineState) -> Diagnosis:
    """Diagnostics of the last annealing steps, of the last redraw and of the past."""
    measured = {"reservoir_standard_error": state.past.standard_error}
    signs = dict(state.signs) | warning_signs.signs_of_reservoir(measured)
    if isinstance(method, SGAIS):
        of_redraw = warning_signs.measure_redraw(state.redraw)
        measured, signs = measured | of_redraw, signs | warning_signs.signs_of_draws(of_redraw)
    found = method.diagnose_steps(model, state.path, state.past.window, state.steps)
    return found.plus(Diagnosis(measured, signs))


def _with_signs_of(method: StreamMethod, state: OnlineState, info: Any) -> OnlineState:
    """The state with what `diagnose` needs to know of a redraw, or of steps since the last one."""
    if isinstance(info, ChunkInfo) and info.redraw is not None:
        return state._replace(steps=(), redraw=info.redraw)
    signs = dict(state.signs) | method.lasting_signs(info)
    return state._replace(steps=(*state.steps, *info.steps)[-RECENT:], signs=tuple(signs.items()))


def _mark(method: StreamMethod, state: OnlineState) -> Mark:
    seen, found = state.path.num_observations, estimate(method, state)
    return Mark(seen, found.log_evidence, found.standard_error, state.num_steps, state.seconds)
