"""The loop over chunks, for rows in memory and for streams.

A chunked method has a state and a pure `update`, which processes one chunk along the annealed
path. A `Past` keeps the earlier rows: all of them if they are in memory (`Held`), or a reservoir
and sums for a stream. `advance` processes the next chunk and, when due, lets a method redraw its
particles from all rows seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from jaxtyping import Array

from evidentia.errors import ConfigurationError, UnfinishedError
from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from evidentia.evidence.path.moves import StepInfo
from evidentia.evidence.path.population import Population, from_prior, log_evidence_variance, split_key
from evidentia.evidence.path.proposal import Proposal
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows, Window

P = TypeVar("P", bound="Past")

SLOW = 100_000  # rows above which there are ways around the path, since it would take minutes
SHORTEST = 1.1  # growth of the rows below which a leap is not halved


class PathState(NamedTuple):
    """The state that the next update needs.

    Attributes:
        population: the particles.
        num_observations: number of rows processed.
        proposal: a proposal near the posterior of these rows, from which to leap to more rows.
        tried_at: number of rows at the last attempt to redraw.
        is_irregular: whether that attempt failed.
    """

    population: Population
    num_observations: int
    proposal: Proposal | None = None
    tried_at: int = 0
    is_irregular: bool = False


class ChunkInfo(NamedTuple):
    """Information on one chunk, for reporting.

    Attributes:
        steps: the annealing steps.
        path: the estimate along the path, before any redraw.
        estimate: the estimate after the chunk.
        is_redrawn: whether the particles were redrawn.
        is_checked: whether particles have shown that a redraw covers the posterior (`Proposal`).
        pareto_shape: Pareto shape of the importance weights, if the redraw took more draws than
            particles.
    """

    steps: Sequence[StepInfo]
    path: Estimate
    estimate: Estimate
    is_redrawn: bool = False
    is_checked: bool = True
    pareto_shape: float = math.nan


class ChunkedMethod(Protocol):
    """A method that processes rows chunk by chunk.

    The next update depends only on its state and the earlier rows. A state has `population` and
    `num_observations`, an info has `steps`.
    """

    num_particles: int

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """Yield a snapshot after each chunk of `rows`."""
        return over_chunks(self, model, rows, key)

    def init(self, model: BoundModel, key: Array) -> PathState:
        """Particles from the prior, with equal weights and a log evidence of zero."""
        return PathState(from_prior(model, key, self.num_particles), 0)

    def next_stop(self, state: Any, total: int) -> int:
        """Number of rows processed after the next chunk, out of `total`."""
        ...

    def update(self, model: BoundModel, state: Any, past: Window, chunk: Window) -> tuple[Any, Any]:
        """State and info after a chunk that follows the past."""
        ...

    def estimate(self, state: Any) -> Estimate:
        """The estimate for all rows processed."""
        ...

    def diagnose(self, model: BoundModel, state: Any, rows: Rows, infos: Sequence[Any]) -> Diagnosis:
        """Diagnostics of a run over `rows`."""
        ...


class RedrawingMethod(ChunkedMethod, Protocol):
    """A chunked method that can redraw its particles from an approximation to the posterior."""

    def is_redraw_due(self, state: PathState) -> bool:
        """Whether to try a redraw with the rows processed so far."""
        ...

    def redraw(self, model: BoundModel, state: PathState, rows: Rows) -> tuple[PathState, ChunkInfo] | None:
        """State and info with particles redrawn for all `rows`; None if it fails."""
        ...

    def only_mode(self, model: BoundModel, state: PathState, rows: Window) -> Proposal | None:
        """A proposal to try with more rows after a redraw has failed; None if there is none."""
        ...

    def redraw_ahead(
        self, model: BoundModel, state: PathState, rows: Window
    ) -> tuple[PathState, ChunkInfo] | None:
        """State and info with particles redrawn for all `rows`; None if that fails."""
        ...


class Past(Protocol):
    """The record of the rows processed, and the source of the next ones."""

    @property
    def window(self) -> Window:
        """The rows processed, or a window that represents them."""
        ...

    def stage(self: P, stop: int) -> tuple[P, Window]:
        """Stage the next chunk behind the window in its arrays, up to row `stop` at most."""
        ...

    def absorb(self: P, model: BoundModel, chunk: Window, population: Population) -> P:
        """The past including a staged chunk, given particles of the posterior of both."""
        ...

    def recentred(self: P, model: BoundModel, population: Population) -> P:
        """The past prepared for redrawing particles from its window."""
        ...


class Held(NamedTuple):
    """Rows in memory, of which the first `num_taken` have been processed.

    The rows up to `num_staged`, if that is more, are the staged chunk: past and chunk are in the
    same arrays.
    """

    rows: Window
    num_taken: int = 0
    num_staged: int = 0

    @property
    def window(self) -> Window:
        """The rows processed."""
        return self.rows.first(max(self.num_taken, self.num_staged)).part(0, self.num_taken)

    def stage(self, stop: int) -> tuple[Held, Window]:
        """The rows up to `stop`."""
        return self._replace(num_staged=stop), self.rows.first(stop).part(self.num_taken, stop)

    def absorb(self, model: BoundModel, chunk: Window, population: Population) -> Held:
        """The same rows, with the chunk marked as processed."""
        return Held(self.rows, self.num_taken + chunk.size)

    def recentred(self, model: BoundModel, population: Population) -> Held:
        """The past itself."""
        return self


def advance(
    method: ChunkedMethod,
    model: BoundModel,
    state: Any,
    past: P,
    total: int,
    redrawing: RedrawingMethod | None,
) -> tuple[Any, P, Any]:
    """Process the next chunk of `total` rows, then redraw if due; return state, past and info."""
    past, chunk = past.stage(method.next_stop(state, total))
    state, info = method.update(model, state, past.window, chunk)
    past = past.absorb(model, chunk, state.population)
    if redrawing is not None and redrawing.is_redraw_due(state):
        state, past, info = redraw(redrawing, model, state, past, info)
    return state, past, info


def redraw(
    method: RedrawingMethod, model: BoundModel, state: PathState, past: P, info: Any = None
) -> tuple[PathState, P, Any]:
    """Redraw the particles from the past if that lowers the variance; return state, past and info.

    `info` is that of the chunk just processed, if any.
    """
    centred = past.recentred(model, state.population)
    found = method.redraw(model, state, centred.window)
    if found is None:
        return tried(state, state.num_observations), past, info
    if found[1].estimate.variance > log_evidence_variance(state.population):
        kept = tried(state, state.num_observations)
        return kept._replace(proposal=found[0].proposal, is_irregular=False), past, info
    state, redrawn = found
    return state, centred, redrawn if info is None else redrawn._replace(steps=info.steps, path=info.path)


def over_chunks(
    method: ChunkedMethod,
    model: BoundModel,
    rows: Rows,
    key: Array,
    redrawing: RedrawingMethod | None = None,
) -> Iterator[Snapshot]:
    """Yield a snapshot after each chunk of rows that are near; also redraw particles at the end.

    If these are a sample of rows elsewhere, particles are redrawn for all rows at last.

    Raises:
        ConfigurationError: they are a sample, and the method does not redraw.
        UnfinishedError: they could not be redrawn for all rows.
    """
    near = rows.near
    is_sample = near.num_observations < rows.num_observations
    if is_sample and redrawing is None:
        raise ConfigurationError("SGAIS needs refresh=True for rows on a cluster: its path visits a sample.")
    state, past, infos, has_looked_ahead = method.init(model, key), Held(near), [], False
    while state.num_observations < near.size:
        was_irregular, found = state.is_irregular, None
        has_looked_ahead &= was_irregular
        is_slow = was_irregular and state.proposal is None and near.size > SLOW
        if redrawing is not None and is_slow and not has_looked_ahead:
            found, has_looked_ahead = redrawing.redraw_ahead(model, state, near), True
            state = with_new_key(state)
        if found is not None:
            state, info = found
        elif redrawing is not None and state.proposal is not None:
            state, info = _leap(redrawing, model, state, near)
            past = Held(near, state.num_observations)
        else:
            state, past, info = advance(method, model, state, past, near.size, redrawing)
            is_last = state.num_observations == near.size
            if redrawing is not None and is_last and state.tried_at < near.size:
                state, past, info = redraw(redrawing, model, state, past, info)
            if redrawing is not None and not is_last and state.is_irregular and not was_irregular:
                state = state._replace(proposal=redrawing.only_mode(model, state, past.window))
        if info is not None:
            infos.append(info)
            yield _snapshot(method, model, near.first(state.num_observations), state, infos)
    if is_sample and redrawing is not None:
        # Without a proposal, only particles could check the redraw, but they are of a sample.
        found = redrawing.redraw(model, state, rows) if state.proposal is not None else None
        if found is None:
            raise UnfinishedError(
                f"the log evidence is that of {near.size:,} random rows out of {rows.num_observations:,}: importance sampling from "
                "Student t's at the posterior modes is not good enough with all rows. Bring more rows to one machine."
            )
        state, info = found
        yield _snapshot(method, model, rows, state, [*infos, info])


def _leap(
    method: RedrawingMethod, model: BoundModel, state: PathState, rows: Window
) -> tuple[PathState, ChunkInfo | None]:
    """Redraw the particles for rows that the path has not processed; the info is None on failure.

    A later attempt with more rows may succeed, since the posterior at a mode becomes a Gaussian.
    If the proposal was learnt from fewer rows, half the leap may, which is tried where the path
    would be slow. Otherwise the path continues with the next rows.
    """
    assert state.proposal is not None  # a leap begins with one
    is_learnt, stop = state.proposal.is_learnt, method.next_stop(state, rows.size)
    found = method.redraw(model, state, rows.first(stop))
    halfway = round(math.sqrt(state.num_observations * stop))
    if found is None and is_learnt and halfway > max(SLOW, SHORTEST * state.num_observations):
        found = method.redraw(model, state, rows.first(halfway))
    if found is not None:
        return found
    if stop < rows.size and not is_learnt:
        return tried(state, stop), None
    return tried(state, state.num_observations)._replace(proposal=None), None


def tried(state: PathState, num_observations: int) -> PathState:
    """The state after a failed redraw."""
    return with_new_key(state)._replace(tried_at=num_observations, is_irregular=True)


def with_new_key(state: PathState) -> PathState:
    """The state after draws that have used its key."""
    key, _ = split_key(state.population.key)
    return state._replace(population=state.population._replace(key=key))


def _snapshot(method, model, rows: Rows, state, infos) -> Snapshot:
    population: Population = state.population
    return Snapshot(
        method.estimate(state),
        num_observations=rows.num_observations,
        num_steps=len(infos[-1].steps),
        positions=population.positions,
        log_weights=population.log_weights,
        diagnose=lambda: method.diagnose(model, state, rows, infos),
    )
