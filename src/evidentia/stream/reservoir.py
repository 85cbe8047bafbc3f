"""A uniform sample of fixed size of everything that a stream has brought, on the device.

Until the reservoir is full it holds every row. From then on the row that is the n-th of the stream enters with probability
R/n, in the place of one drawn uniformly, so that at any time each row seen is in it with the same probability.

Source: Vitter (1985), ACM Transactions on Mathematical Software 11, 37, Algorithm R.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from evidentia.rows import Rows
from evidentia.stream.arrays import with_rows

STAGE = 8192  # rows of a chunk, at most: room behind the reservoir's own rows for a chunk on its way in


class Reservoir(NamedTuple):
    """`capacity` rows of `arrays` for the sample, then room for a chunk, then as much for rows that are put side by side.

    All chunks lie in the same arrays, so that no program compiles anew for one of another length.
    """

    arrays: Any
    capacity: int
    num_observations: int = 0

    @property
    def num_kept(self) -> int:
        """Rows in the sample."""
        return min(self.num_observations, self.capacity)

    @property
    def spare(self) -> int:
        """Where the rows begin that are put side by side."""
        return self.capacity + STAGE

    @property
    def is_full(self) -> bool:
        """Whether the next row would have to take the place of another."""
        return self.num_observations >= self.capacity


class Exchange(NamedTuple):
    """Rows of a chunk, counted from its first, and the places in the reservoir that they take."""

    entering: Int[np.ndarray, " rows"]
    slots: Int[np.ndarray, " rows"]


def empty(example: Any, capacity: int) -> Reservoir:
    """A reservoir for rows like those of `example`, a pytree of arrays, of which one fills the places that are free."""
    length = capacity + 2 * STAGE
    return Reservoir(jax.tree.map(lambda leaf: jnp.asarray(with_rows(leaf[:1], length)), example), capacity)


def stage(reservoir: Reservoir, chunk: Any) -> tuple[Reservoir, Rows]:
    """A chunk, a pytree of NumPy arrays, on the device, and its window: after the last row while there is room for all.

    It is not yet part of the sample. With the window `kept` it makes one window as long as nothing was left out.
    """
    size = jax.tree.leaves(chunk)[0].shape[0]
    first = reservoir.capacity if reservoir.is_full else reservoir.num_observations
    # To a power of two, so that few programs are compiled. What lies behind the chunk is overwritten by the next one.
    length = min(STAGE, 1 << max(0, size - 1).bit_length())
    padded = jax.tree.map(lambda leaf: with_rows(leaf, length), chunk)
    arrays = _write(reservoir.arrays, padded, first)
    return reservoir._replace(arrays=arrays), Rows(
        arrays, first, first + size, number=reservoir.num_observations
    )


def room(reservoir: Reservoir) -> int:
    """Rows that the next chunk may have: it does not reach beyond the place where the reservoir is full."""
    left = reservoir.capacity - reservoir.num_observations
    return min(left, STAGE) if left > 0 else STAGE


def draw_exchange(reservoir: Reservoir, size: int, seed: int) -> Exchange:
    """Which of the next `size` rows enter a full reservoir, and where; of several for one place the last stays.

    The generator is that of the seed and the number of rows seen: the same stream fills the same reservoir.
    """
    generator = np.random.default_rng([seed, reservoir.num_observations])
    numbers = reservoir.num_observations + 1 + np.arange(size)
    slots = generator.integers(0, numbers)
    entering = np.flatnonzero(slots < reservoir.capacity)
    chosen = slots[entering]
    _, last = np.unique(chosen[::-1], return_index=True)
    keep = len(chosen) - 1 - last
    return Exchange(entering[keep], chosen[keep])


def side_by_side(reservoir: Reservoir, index: Int[np.ndarray, " rows"]) -> Rows:
    """A window over copies of rows of the arrays, by their index."""
    target = reservoir.spare + np.arange(len(index))
    return Rows(
        _copy(reservoir.arrays, *_aligned(index, target)), reservoir.spare, reservoir.spare + len(index)
    )


def exchanged(reservoir: Reservoir, exchange: Exchange) -> Reservoir:
    """The reservoir after a staged chunk's rows have taken their places."""
    source = reservoir.capacity + exchange.entering
    return reservoir._replace(arrays=_copy(reservoir.arrays, *_aligned(source, exchange.slots)))


def _aligned(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices filled up to a fixed length with targets that lie outside."""
    missing = STAGE - len(source)
    fill = np.full(missing, np.iinfo(np.int32).max)
    return np.concatenate([source, np.zeros(missing, int)]), np.concatenate([target, fill])


@jax.jit
def _write(arrays, chunk, first):
    return jax.tree.map(
        lambda leaf, new: jax.lax.dynamic_update_slice_in_dim(leaf, new, first, axis=0), arrays, chunk
    )


@jax.jit
def _copy(arrays, source, target):
    return jax.tree.map(lambda leaf: leaf.at[target].set(leaf[source], mode="drop"), arrays)
