"""Rows in partitions: sums by a map over the partitions and a reduction here, in their order.

A look at all rows calls one function of every partition, at the worker that has it. What comes
back does not depend on the number of rows: a number for each particle, or the derivatives at one
position. A random sample of the rows is kept here. The path from the prior, the search for modes
and the difference estimator (`population.importance`) use the sample; some 10 to 30 looks at all
rows do the rest.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from evidentia.cluster import worker
from evidentia.cluster.engine import Engine, results
from evidentia.data.arrays import map_arrays, on_device, shuffled
from evidentia.data.fingerprint import fingerprints
from evidentia.errors import DataError, ModelError, warn
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.rows import LogLikelihoods, Positions, Window

NUM_NEAR = 65_536  # rows of the sample


@dataclass(frozen=True, eq=False)
class PartitionedRows:
    """Rows in partitions on a cluster (`posterior.rows.Rows`).

    The workers bind the model themselves, so the bound model that a method gives must be theirs.

    Attributes:
        engine: reaches the partitions.
        versions, model: what every call carries: what workers must have, and the model.
        num_observations: the number of rows.
        near: a random sample of them, on this machine.
    """

    engine: Engine
    versions: worker.Versions
    model: Model | bytes
    num_observations: int
    near: Window

    @property
    def size(self) -> int:
        """The number of rows that a look visits."""
        return self.num_observations

    @property
    def span(self) -> str:
        """The rows, for messages."""
        return f"the {self.num_observations:,} rows"

    def sample(self, count: int) -> Window:
        """At most `count` rows of the sample."""
        return self.near.sample(count)

    def blocks(self, count: int, size: int) -> Sequence[Window]:
        """Blocks of rows of the sample."""
        return self.near.blocks(count, size)

    def log_likelihoods(self, model: BoundModel, positions: Positions) -> tuple[LogLikelihoods, float]:
        """As `Rows.log_likelihoods`, in one look."""
        found = self._look(worker.log_likelihoods, np.asarray(positions))
        finite = found[np.isfinite(found)]
        offset = float(finite.max()) if finite.size else 0.0
        return found - offset, offset

    def exact_log_likelihoods(
        self, model: BoundModel, positions: Float[np.ndarray, "particles parameters"]
    ) -> LogLikelihoods:
        """As `Rows.exact_log_likelihoods`, in one look."""
        return self._look(worker.exact_log_likelihoods, np.asarray(positions))

    def expand(
        self, model: BoundModel, centre: Float[np.ndarray, " parameters"], hessian: bool = True
    ) -> Expansion:
        """As `Rows.expand`, in one look."""
        centre = np.asarray(centre, np.float64)
        return Expansion(centre, *self._look(worker.expansion, centre, hessian))

    def _look(self, function: Any, *args: Any) -> Any:
        found = results(self.engine, worker.answer, self.versions, self.model, function, *args)
        return reduce(worker.total, found, None)


class Gathered(NamedTuple):
    """Rows on a cluster, or all of them here if they are few.

    Attributes:
        rows: the rows.
        some: NumPy arrays of the sample.
        fingerprints: those of all rows.
    """

    rows: PartitionedRows | Window
    some: Any
    fingerprints: dict[str, str]


def gathered(engine: Engine, model: Model, seed: int) -> Gathered:
    """Look at all rows twice: for what they are, and for a random sample of them.

    Raises:
        DataError: rows that cannot be used, or partitions with other names, shapes or dtypes.
        ModelError: the model cannot be sent to the workers.
        ConfigurationError: workers with other versions of the packages.
    """
    call = worker.answer, worker.versions(), _shipped(engine, model)
    facts = list(results(engine, *call, worker.facts))
    _check_alike(facts)
    counts = np.array([each.num_rows for each in facts], np.int64)
    size = int(counts.sum())
    if not size:
        raise DataError(f"data must have at least one observation; the {len(counts)} partitions have none.")
    if dropped := sum(each.num_dropped for each in facts):
        warn([f"{dropped:,} rows with missing values were dropped."])
    pieces = results(engine, *call, worker.some_rows, each=_chosen(counts, seed))
    held = [piece for piece in pieces if piece is not None]
    some = shuffled(map_arrays(lambda *leaves: np.concatenate(leaves), *held), seed)
    near = Window(on_device(some), 0, min(size, NUM_NEAR))
    sums = Counter[str]()
    for each in facts:
        sums.update(each.sums)
    rows = near if size <= NUM_NEAR else PartitionedRows(engine, *call[1:], size, near)
    return Gathered(rows, some, fingerprints(sums))


def _shipped(engine: Engine, model: Model) -> Model | bytes:
    try:
        return engine.shipped(model)
    except Exception as error:
        raise ModelError(
            f"model {model.name!r} cannot be sent to the workers: {error}. Its functions must not close over locks, files "
            "or connections; for an executor of processes they must be at the top level of a module."
        ) from error


def _check_alike(facts: Sequence[worker.Facts]) -> None:
    """Raise DataError that names the first partition unlike those before it."""
    kinds = {each.kind: number for number, each in reversed(list(enumerate(facts))) if each.kind}
    if len(kinds) > 1:
        (kind, first), (other, second) = sorted(kinds.items(), key=lambda item: item[1])[:2]
        raise DataError(
            f"all partitions must hold the same names, shapes and dtypes: partition {first} has {kind}, partition {second} "
            f"has {other}."
        )


def _chosen(counts: Int[np.ndarray, " partitions"], seed: int) -> list[Int[np.ndarray, " rows"]]:
    """Numbers of the rows of the sample in each partition, ascending."""
    stops = np.cumsum(counts)
    size = int(stops[-1])
    chosen = np.random.default_rng(seed).choice(size, min(size, NUM_NEAR), replace=False, shuffle=False)
    chosen.sort()
    parts = np.split(chosen, np.searchsorted(chosen, stops[:-1]))
    return [part - start for part, start in zip(parts, stops - counts, strict=True)]
