"""The rows of a stream as weighted nodes in cells, where an expansion about one centre fails.

Nodes (`online.cells`) stand for all rows at any position, also where the posterior is far from a
Gaussian, as that of a mixture with a component too many. They are used for rows of one to
`MOST_COLUMNS` real columns, and tested at run time in two ways:

- as each chunk enters, by how much the log-likelihood of the nodes grows more than that of its
  rows, at some of the particles. The `account` adds these errors up, over all rows;
- at the current particles, with the rows of the reservoir. With r_i the residuals of R of n rows,

      D(θ) = (n/R) Σ_{i in reservoir} r_i(θ)

  estimates without bias by how much the log-likelihood of all rows exceeds that of the nodes, with
  the variance n² (1 - R/n) Var(r) / R.

Since log E[exp D] ≈ E[D] + Var[D] / 2 over the posterior, the standard error of the log evidence
has two parts: the largest of the account, the mean of D over particles and its standard error; and
half the mean over particles of D², or of its variance if that is larger. Above
`MAX_RESERVOIR_ERROR`, the nodes are given up.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia.data.arrays import with_rows
from evidentia.evidence.population.particles import Particles, some_of
from evidentia.evidence.population.warning_signs import MAX_RESERVOIR_ERROR
from evidentia.model.bound import BoundModel
from evidentia.online import cells as trees
from evidentia.online import reservoir as reservoirs
from evidentia.online.cells import Cells, Points, Quadratics, Values
from evidentia.online.reservoir import STAGE, Exchange, Reservoir
from evidentia.posterior.rows import Window
from evidentia.system.compilation import jitted

MOST_COLUMNS = 3  # of a row: cells of half the width are 2ᵈ times as many
NUM_PARTICLES = 16  # at which rows enter
NUM_CHECKED = 64  # particles of a test
GROWTH = 1.25  # of the number of rows, from test to test
BLOCKS = 1024, 8192  # rows evaluated at once, in two sizes to compile few programs


class Squashed(NamedTuple):
    """The rows seen, as nodes.

    Attributes:
        cells: a tree of cells, with the moments of all rows.
        arrays: the nodes as rows, and space for a chunk behind them.
        copies: how often each node counts.
        places: the cell of each row of the reservoir.
        account: the sum of the mean errors of the chunks, in nats.
        standard_error: of the log evidence, by the last test, when `tested_at` rows were seen.
    """

    cells: Cells
    arrays: Any
    copies: Float[Array, " rows"]
    num_nodes: int
    places: Int[np.ndarray, " kept"]
    account: float
    standard_error: float
    tested_at: int

    def window(self, kept: Window) -> Window:
        """A window that represents all rows; `kept` has the reservoir."""
        return Window(self.arrays, 0, self.num_nodes, copies=self.copies, kept=kept)

    def stage(self, chunk: Any, first_row: int) -> tuple["Squashed", Window]:
        """Copy a chunk behind the nodes; also return its window."""
        arrays, size = reservoirs.written(self.arrays, chunk, self.num_nodes)
        window = Window(arrays, self.num_nodes, self.num_nodes + size, first_row=first_row)
        return self._replace(arrays=arrays), window

    def fits(self, reservoir: Reservoir) -> bool:
        """Whether its parts agree with each other and with a reservoir."""
        size, places = len(self.cells.child), self.places
        return (
            0 < self.num_nodes <= len(self.copies) - STAGE
            and len(places) == reservoir.capacity
            and bool(np.all((places >= 0) & (places < size)))
            and bool(np.all((self.cells.child >= 0) & (self.cells.child < size)))
            and all(len(leaf) == len(self.copies) for leaf in jax.tree.leaves(self.arrays))
        )


def are_possible(model: BoundModel, reservoir: Reservoir) -> bool:
    """Whether rows have few columns, real ones, and the likelihood can be evaluated anywhere."""
    leaves = jax.tree.leaves(reservoir.arrays)
    is_real = all(leaf.dtype == np.float32 for leaf in leaves) and model.evaluations is None
    if not is_real or not 1 <= sum(leaf[0].size for leaf in leaves) <= MOST_COLUMNS:
        return False
    return all(np.isfinite(np.asarray(leaf)).all() for leaf in leaves)


def begun(model: BoundModel, reservoir: Reservoir, particles: Particles) -> Squashed | None:
    """Nodes for the rows of a reservoir that holds all; None if such nodes will not do."""
    rows = _on_host(reservoir.arrays, 0, reservoir.capacity)
    places = np.zeros(reservoir.capacity, int)
    cells = trees.empty(_points(rows).shape[1])
    start = Squashed(cells, None, jnp.zeros(0), 0, places, 0.0, 0.0, 0)
    squashed, places = _entered(model, start, reservoir, rows, particles)
    return tested(model, squashed._replace(places=places), reservoir, particles)


def absorbed(
    model: BoundModel,
    squashed: Squashed,
    reservoir: Reservoir,
    chunk: Window,
    exchange: Exchange,
    particles: Particles,
) -> Squashed | None:
    """Nodes for the rows of a chunk, too; None if a test of them fails.

    The reservoir is that after the chunk, of which it keeps some rows by the exchange.
    """
    rows = _on_host(chunk.arrays, chunk.start, chunk.stop)
    squashed, cell = _entered(model, squashed, reservoir, rows, particles)
    places = squashed.places.copy()
    places[exchange.slots] = cell[exchange.entering]
    squashed = squashed._replace(places=places)
    if reservoir.num_observations < GROWTH * squashed.tested_at:
        return squashed
    return tested(model, squashed, reservoir, particles)


def tested(
    model: BoundModel, squashed: Squashed, reservoir: Reservoir, particles: Particles
) -> Squashed | None:
    """The nodes with their error at the current particles; None if it is too large."""
    generator = np.random.default_rng([reservoir.seed, reservoir.num_observations, 1])
    kept = _on_host(reservoir.arrays, 0, reservoir.capacity)
    values = _values(model, some_of(particles, generator, NUM_CHECKED), kept)
    ids, local = np.unique(squashed.places, return_inverse=True)
    quadratics, points = Quadratics(squashed.cells.moments.at(ids), values), _points(kept)
    total, squares, mean_squares = np.zeros(NUM_CHECKED), np.zeros(NUM_CHECKED), 0.0
    for first in range(0, len(points), BLOCKS[-1]):
        block = slice(first, first + BLOCKS[-1])
        residuals = values(points[block]) - quadratics(points[block], local[block])
        total += residuals.sum(axis=0)
        squares += (residuals**2).sum(axis=0)
        mean_squares += float((residuals.mean(axis=1) ** 2).sum())
    seen, size = reservoir.num_observations, len(points)
    difference = seen / size * total
    left_out = seen**2 * (1 - size / seen) / size
    noise = left_out * np.maximum(squares / size - (total / size) ** 2, 0.0)
    noise_of_mean = left_out * max(mean_squares / size - (float(np.mean(total)) / size) ** 2, 0.0)
    shift = max(math.sqrt(noise_of_mean), abs(float(np.mean(difference))), abs(squashed.account))
    error = math.hypot(shift, 0.5 * float(np.mean(np.maximum(noise, difference**2))))
    if not error <= MAX_RESERVOIR_ERROR:
        return None
    return squashed._replace(standard_error=error, tested_at=seen)


def _entered(
    model: BoundModel, squashed: Squashed, reservoir: Reservoir, rows: Any, particles: Particles
) -> tuple[Squashed, Int[np.ndarray, " rows"]]:
    """The nodes with some rows more, and the cells of these."""
    generator = np.random.default_rng([reservoir.seed, reservoir.num_observations, 0])
    values = _values(model, some_of(particles, generator, NUM_PARTICLES), rows)
    cells, cell, error = trees.entered(squashed.cells, _points(rows), values, reservoir.capacity + STAGE)
    points, copies, _ = trees.nodes(cells.moments)
    length = reservoir.capacity + 2 * STAGE
    arrays = jax.tree.map(lambda leaf: jnp.asarray(with_rows(leaf, length)), _rows(points, rows))
    on_device = jnp.asarray(np.append(copies, np.zeros(length - len(copies))), jnp.float32)
    account = squashed.account + float(np.mean(error))
    squashed = squashed._replace(
        cells=cells, arrays=arrays, copies=on_device, num_nodes=len(copies), account=account
    )
    return squashed, cell


def _on_host(arrays: Any, start: int, stop: int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[start:stop], arrays)


def _points(rows: Any) -> Points:
    """The columns of rows side by side."""
    leaves = jax.tree.leaves(rows)
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1).astype(np.float64)


def _rows(points: Points, like: Any) -> Any:
    """Points as rows in the structure of others, float32."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    parts: Sequence[np.ndarray] = np.split(points.astype(np.float32), ends, axis=1)
    shaped = [part.reshape(len(points), *leaf.shape[1:]) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


def _values(model: BoundModel, positions: Float[np.ndarray, "particles parameters"], like: Any) -> Values:
    """The log-likelihood of a row, by its columns, at positions, float64."""
    narrow = jnp.asarray(positions, jnp.float32)

    def values(points: Points) -> Float[np.ndarray, "points particles"]:
        found = []
        for first in range(0, len(points), BLOCKS[-1]):
            block = points[first : first + BLOCKS[-1]]
            length = next(size for size in BLOCKS if size >= len(block))
            rows = jax.tree.map(lambda leaf: with_rows(leaf, length), _rows(block, like))  # noqa: B023
            found.append(np.asarray(_log_likelihoods(model, narrow, rows))[: len(block)])
        return np.concatenate(found).astype(np.float64)

    return values


@jitted(static_argnames="model")
def _log_likelihoods(model, positions, rows):
    return jax.vmap(model.log_likelihood, (0, None))(positions, rows).T
