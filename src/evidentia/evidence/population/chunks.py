"""The loop over chunks, for rows in memory and for streams.

A chunked method has a state and a pure `update`, which processes one chunk along the annealed
path. A `Past` keeps the earlier rows: all of them if they are in memory (`Held`), or a reservoir
and sums for a stream. Methods that also redraw their particles have a loop of their own (`leaps`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Array

from evidentia.evidence.method import Diagnosis, Estimate, Snapshot
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.moves import StepInfo
from evidentia.evidence.population.particles import Population, from_prior
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Rows, Window

P = TypeVar("P", bound="Past")
# A stream may stay below one chunk for long, and the particles of a mixture can miss a mode there.
SMALLEST = 100


class PathState(NamedTuple):
    """The state that the next update needs.

    Attributes:
        population: the particles.
        num_observations: number of rows processed.
        proposal: a proposal near the posterior of these rows, from which to leap to more rows;
            without one, the path goes on.
        retry_above: number of rows above which a redraw is tried again.
        has_failed: whether the last one failed.
    """

    population: Population
    num_observations: int
    proposal: Mixture | None = None
    retry_above: int = 0
    has_failed: bool = False


class Redraw(NamedTuple):
    """What is known of a redraw.

    Attributes:
        is_checked: whether particles have shown that it covers the posterior (`Mixture`).
        unseen: expected share of the posterior in modes that were not found (`Mixture`).
        effective: effective draws, as a fraction of all.
        pareto_shape: Pareto shape of the importance weights, if there are more draws than
            particles.
    """

    is_checked: bool = True
    unseen: float = 0.0
    effective: float = math.nan
    pareto_shape: float = math.nan


class ChunkInfo(NamedTuple):
    """Information on one chunk, for reporting.

    Attributes:
        steps: the annealing steps.
        path: the estimate along the path, before any redraw.
        estimate: the estimate after the chunk.
        redraw: of the particles, if they were redrawn after it.
        attempt: the estimate of a redraw that was not used, as its draws were not enough or had a
            larger variance than the path.
    """

    steps: Sequence[StepInfo]
    path: Estimate
    estimate: Estimate
    redraw: Redraw | None = None
    attempt: Estimate | None = None


@runtime_checkable
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


@runtime_checkable
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


def advance(method: ChunkedMethod, model: BoundModel, state: Any, past: P, total: int) -> tuple[Any, P, Any]:
    """Process the next chunk of `total` rows; return state, past and info."""
    past, chunk = past.stage(method.next_stop(state, total))
    state, info = method.update(model, state, past.window, chunk)
    return state, past.absorb(model, chunk, state.population), info


def over_chunks(method: ChunkedMethod, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
    """Yield a snapshot after each chunk of rows in memory."""
    near = rows.near
    state, past, infos = method.init(model, key), Held(near), []
    while state.num_observations < near.size:
        state, past, info = advance(method, model, state, past, near.size)
        infos.append(info)
        yield snapshot_of(method, model, near.first(state.num_observations), state, infos)


def snapshot_of(
    method: ChunkedMethod, model: BoundModel, rows: Rows, state: Any, infos: Sequence[Any]
) -> Snapshot:
    """The estimate and the particles for `rows`, all that are processed."""
    population: Population = state.population
    return Snapshot(
        method.estimate(state),
        num_observations=rows.num_observations,
        num_steps=len(infos[-1].steps),
        positions=population.positions,
        log_weights=population.log_weights,
        diagnose=lambda: method.diagnose(model, state, rows, infos),
    )


def variance_shares(infos: Sequence[ChunkInfo]) -> dict[str, float]:
    """Fractions of the squared standard error by source."""
    redrawn = [info for info in infos if info.redraw is not None]
    start, name = (redrawn[-1], "last_refresh") if redrawn else (infos[0], "first_chunk")
    total = infos[-1].estimate.variance
    share = min(1.0, start.estimate.variance / total) if total else 1.0
    return {f"variance_share_{name}": share, "variance_share_later_chunks": 1.0 - share}


def next_round_number(num_rows: int) -> int:
    """The first round number above `num_rows`: 100 (`SMALLEST`), 200, 500, 1000, …"""
    power = 10 ** max(0, len(str(num_rows)) - 1)
    return next(mark for mark in (SMALLEST, 2 * power, 5 * power, 10 * power) if mark > num_rows)


def next_stop(start: int, size: int, total: int, *, round_above: int | None = None) -> int:
    """Number of rows, at most `total`, after a chunk of `size` rows that begins at `start`.

    A chunk that does not reach the end stops at the first round number above `round_above` (1, 2
    or 5 times a power of ten), so that the trajectories of different runs can be compared there.
    """
    stop = min(start + size, total)
    if round_above is not None and stop < total:
        stop = min(stop, next_round_number(round_above))
    return stop
