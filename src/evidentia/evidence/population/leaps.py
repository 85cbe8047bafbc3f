"""Redraws and leaps: the loop of a method that can leave its annealed path.

A redraw replaces the particles by draws weighted with all rows seen, at round numbers of rows. If
it succeeds, the next one leaps to more rows, which the path has not processed; if leaps fail, the
path goes on from the rows of the last redraw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

from jaxtyping import Array

from evidentia import weights
from evidentia.errors import UnfinishedError
from evidentia.evidence.method import Estimate, Snapshot
from evidentia.evidence.population.ahead import redraw_ahead
from evidentia.evidence.population.chunks import (
    ChunkedMethod,
    ChunkInfo,
    Held,
    P,
    PathState,
    Redraw,
    advance,
    next_round_number,
    snapshot_of,
)
from evidentia.evidence.population.importance import WeightedDraws
from evidentia.evidence.population.moves import PathSettings, StepInfo
from evidentia.evidence.population.particles import Population, log_evidence_variance, split_key
from evidentia.evidence.population.redrawing import Redrawn, draw_anew, if_enough, only_mode
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows, Window


def is_redraw_due(state: PathState) -> bool:
    """Whether a round number of rows has been reached since the last attempt to redraw."""
    return state.num_observations >= next_round_number(state.retry_above)


def after_redraw(
    method: ChunkedMethod,
    population: Population,
    found: Redrawn,
    num_observations: int,
    steps: Sequence[StepInfo] = (),
) -> tuple[PathState, ChunkInfo]:
    """State and info with particles drawn anew for some rows, after some steps of a path."""
    draws, proposal, _ = found
    key, _ = cast("tuple[Array, Array]", split_key(population.key))  # whose types jax.jit drops
    has_tail = len(draws.log_weights) > method.num_particles and not draws.is_completed
    shape = weights.pareto_shape(draws.log_weights) if has_tail else math.nan
    draws = draws._replace(variance=draws.variance + proposal.unseen**2)
    population = draws.population(key, method.num_particles)
    state = PathState(population, num_observations, proposal, retry_above=num_observations)
    estimate, effective = method.estimate(state), weights.ess(draws.log_weights) / len(draws.log_weights)
    redraw = Redraw(proposal.is_checked, proposal.unseen, effective, shape)
    return state, ChunkInfo(steps, path=estimate, estimate=estimate, redraw=redraw)


def redraw_for(
    method: ChunkedMethod, model: BoundModel, state: PathState, rows: Rows
) -> tuple[PathState, ChunkInfo] | None:
    """State and info with particles redrawn for all `rows`; None if no proposal is good enough."""
    found = if_enough(_drawn_for(model, state, rows))
    return found and after_redraw(method, state.population, found, rows.num_observations)


def redraw(
    method: ChunkedMethod, model: BoundModel, state: PathState, past: P, info: Any = None
) -> tuple[PathState, P, Any]:
    """Redraw the particles from the past if that lowers the variance; return state, past and info.

    `info` is that of the chunk just processed, if any. What draws say that are not used stays with
    it.
    """
    if model.is_constant:  # the path has no error
        return state, past, info
    centred = past.recentred(model, state.population)
    found = _drawn_for(model, state, centred.window)
    failed = _failed(state, state.num_observations)
    if found is None:
        return failed, past, info
    if not found.is_enough:
        return failed, past, _with_attempt(info, found.draws)
    drawn, later = after_redraw(method, state.population, found, centred.window.num_observations)
    if later.estimate.variance > log_evidence_variance(state.population):
        kept = failed._replace(proposal=found.proposal, has_failed=False)
        return kept, past, _with_attempt(info, found.draws)
    return drawn, centred, later if info is None else later._replace(steps=info.steps, path=info.path)


def _drawn_for(model: BoundModel, state: PathState, rows: Rows) -> Redrawn | None:
    """Draws from the posterior of `rows`, given particles and any proposal for those processed."""
    growth = rows.num_observations / max(1, state.num_observations)
    return draw_anew(model, rows, state.population, state.proposal, growth)


def _with_attempt(info: Any, draws: WeightedDraws) -> Any:
    """The info of a chunk, if any, with the estimate of draws that are not used."""
    variance = draws.variance + weights.relative_variance(draws.log_weights)
    return info and info._replace(attempt=Estimate(draws.log_evidence, variance))


def over_leaps(
    method: ChunkedMethod,
    settings: PathSettings,
    model: BoundModel,
    rows: Rows,
    key: Array,
    slow: int = 100_000,
) -> Iterator[Snapshot]:
    """Yield a snapshot after each chunk or leap over rows that are near, with a redraw at the end.

    With more than `slow` rows there are ways around the path, since it would take minutes. If the
    rows that are near are a sample, particles are redrawn for all rows at last.

    Raises UnfinishedError if they are a sample, and particles could not be redrawn for all rows.
    """
    near = rows.near
    state, past, infos, has_looked_ahead = method.init(model, key), Held(near), [], False
    while state.num_observations < near.size:
        info, has_looked_ahead = None, has_looked_ahead and state.has_failed
        if state.proposal is not None:
            state, info = _leap(method, model, state, near, slow)
            past = Held(near, state.num_observations)
        elif state.has_failed and near.size > slow and not has_looked_ahead:
            (state, info), has_looked_ahead = _look_ahead(method, settings, model, state, near), True
        else:
            state, past, info = _walk(method, model, state, past, near.size)
        if info is not None:
            infos.append(info)
            yield snapshot_of(method, model, near.first(state.num_observations), state, infos)
    if near.num_observations < rows.num_observations:
        state, info = _for_all(method, model, state, rows)
        yield snapshot_of(method, model, rows, state, [*infos, info])


def _walk(
    method: ChunkedMethod, model: BoundModel, state: PathState, past: Held, total: int
) -> tuple[PathState, Held, ChunkInfo]:
    """Process a chunk along the path; redraw if due and at the end, or find the only mode."""
    had_failed = state.has_failed
    state, past, info = advance(method, model, state, past, total)
    is_at_end = state.num_observations == total
    if is_redraw_due(state) or (is_at_end and state.retry_above != total):
        state, past, info = redraw(method, model, state, past, info)
    if state.has_failed and not had_failed and not is_at_end:
        state = state._replace(proposal=only_mode(model, past.window, state.population))
    return state, past, info


def _look_ahead(
    method: ChunkedMethod, settings: PathSettings, model: BoundModel, state: PathState, rows: Window
) -> tuple[PathState, ChunkInfo | None]:
    """Redraw the particles for all rows, the path to which takes long; no info on failure."""
    found = redraw_ahead(settings, model, rows, state.population)
    if found is None:
        return _with_new_key(state), None
    return after_redraw(method, state.population, found, rows.num_observations)


def _leap(
    method: ChunkedMethod, model: BoundModel, state: PathState, rows: Window, slow: int
) -> tuple[PathState, ChunkInfo | None]:
    """Redraw the particles for rows that the path has not processed; the info is None on failure.

    A later attempt with more rows may succeed, since the posterior at a mode becomes a Gaussian.
    If the proposal was learnt from fewer rows, half the leap may, which is tried where the path
    would be slow, if it has a tenth more rows. Otherwise the path continues with the next rows.
    """
    assert state.proposal is not None  # a leap begins with one
    is_learnt, stop = state.proposal.is_learnt, method.next_stop(state, rows.size)
    found = redraw_for(method, model, state, rows.first(stop))
    halfway = round(math.sqrt(state.num_observations * stop))
    if found is None and is_learnt and halfway > max(slow, 1.1 * state.num_observations):
        state = _with_new_key(state)
        found = redraw_for(method, model, state, rows.first(halfway))
    if found is not None:
        return found
    if stop < rows.size and not is_learnt:
        return _failed(state, stop), None
    return _failed(state, state.num_observations)._replace(proposal=None), None


def _for_all(
    method: ChunkedMethod, model: BoundModel, state: PathState, rows: Rows
) -> tuple[PathState, ChunkInfo]:
    """State and info with particles redrawn for all rows, of which the path has seen a sample."""
    if state.proposal is None:  # particles of the sample cannot check a proposal for all rows
        state = state._replace(proposal=only_mode(model, rows.near, state.population))
    found = redraw_for(method, model, state, rows) if state.proposal is not None else None
    if found is None:
        raise UnfinishedError(
            f"the log evidence is that of {state.num_observations:,} random rows out of {rows.num_observations:,}: importance "
            "sampling from Student t's at the posterior modes is not good enough. If one machine can hold all rows, give them as arrays."
        )
    return found


def _failed(state: PathState, num_observations: int) -> PathState:
    """The state after a failed redraw, to be tried again above a number of rows."""
    return _with_new_key(state)._replace(retry_above=num_observations, has_failed=True)


def _with_new_key(state: PathState) -> PathState:
    """The state after draws that have used its key."""
    key, _ = split_key(state.population.key)
    return state._replace(population=state.population._replace(key=key))
