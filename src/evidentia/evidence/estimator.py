"""What every estimator shares: it is an iterator over snapshots, and the loop over chunks is written here once.

An estimator is a frozen configuration with `num_particles` and

    run(model, rows, key) -> iterator of Snapshot,

which owns no data and no clock. `estimate` draws from the iterator, and so shows progress, keeps the last snapshot when
it is stopped, and makes the result. Estimators that take data in chunk by chunk have `init`, `next_stop`, `update`,
`summary` and `diagnose` (`Chunked`), so that a stream can feed them by hand; their `run` is `over_chunks`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from evidentia.evidence.moves import StepInfo
from evidentia.evidence.population import Population
from evidentia.model import BoundModel
from evidentia.rows import Rows


class Diagnosis(NamedTuple):
    """Measured signs of health by name, and what is wrong: sentences that say what to do, by a short name."""

    measured: Mapping[str, float] = {}
    signs: Mapping[str, str] = {}


class Snapshot(NamedTuple):
    """What an estimator knows after a step.

    `log_evidence` and `standard_error` (nats) are for the first `num_observations` rows, none as long as there is no
    estimate; `num_steps` counts the annealing steps, or the iterations, of this step alone; `share_done` of the whole work
    lies between 0 and 1, None where the rows taken in tell it. `diagnose` is called for the last snapshot only.
    """

    log_evidence: float
    standard_error: float
    num_observations: int
    num_steps: int
    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    share_done: float | None = None
    diagnose: Callable[[], Diagnosis] = Diagnosis


@runtime_checkable
class Estimator(Protocol):
    """What `estimate` takes as `method`."""

    @property
    def num_particles(self) -> int:
        """Particles, draws or live points: the variance of the log evidence falls as one over their number."""
        ...

    def run(self, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
        """Snapshots on the way to the log evidence of `rows`, the last of them final."""
        ...


class Chunked(Protocol):
    """An estimator that takes in rows chunk by chunk, and whose state is all that it needs of what came before.

    A state has `population` and `num_observations`, an info (what happened in one update, for people) has `steps`.
    """

    def init(self, model: BoundModel, key: Array) -> Any:
        """The state before any data."""
        ...

    def next_stop(self, state: Any, total: int) -> int:
        """The row up to which the next chunk reaches, where there are `total`."""
        ...

    def update(
        self, model: BoundModel, state: Any, past: Rows, chunk: Rows, *, is_last: bool = False
    ) -> tuple[Any, Any]:
        """State and info after a chunk; `past` holds the rows of earlier chunks."""
        ...

    def summary(self, state: Any) -> tuple[float, float]:
        """Log evidence of everything seen and its standard error, in nats."""
        ...

    def diagnose(self, model: BoundModel, state: Any, rows: Rows, infos: Sequence[Any]) -> Diagnosis:
        """What a run over `rows` showed of its health."""
        ...


class PathState(NamedTuple):
    """The state of an estimator whose particles follow the posterior, and nothing else."""

    population: Population
    num_observations: int


class PathInfo(NamedTuple):
    """What happened in one update: its annealing steps."""

    steps: Sequence[StepInfo]


def over_chunks(method: Chunked, model: BoundModel, rows: Rows, key: Array) -> Iterator[Snapshot]:
    """A snapshot after each chunk that was taken in."""
    state, infos = method.init(model, key), []
    while (count := state.num_observations) < rows.size:
        start, stop = rows.start + count, rows.start + method.next_stop(state, rows.size)
        past, chunk = Rows(rows.arrays, rows.start, start), Rows(rows.arrays, start, stop)
        state, info = method.update(model, state, past, chunk, is_last=stop == rows.stop)
        if state.num_observations > count:
            infos.append(info)
            yield _snapshot(method, model, rows, state, infos)


def _snapshot(method, model, rows, state, infos) -> Snapshot:
    population: Population = state.population
    seen = Rows(rows.arrays, rows.start, rows.start + state.num_observations)
    return Snapshot(
        *method.summary(state),
        num_observations=seen.size,
        num_steps=len(infos[-1].steps),
        positions=population.positions,
        log_weights=population.log_weights,
        diagnose=lambda: method.diagnose(model, state, seen, infos),
    )
