"""A uniform sample, of fixed size, of all rows of a stream so far, on the device.

Until the reservoir is full it holds every row. After that, the n-th row of the stream enters with
probability R/n and replaces a row drawn uniformly, so that at any time each row seen is in it with
the same probability.

Source: Vitter (1985), ACM Transactions on Mathematical Software 11, 37, Algorithm R.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from evidentia.data.arrays import with_rows
from evidentia.errors import ConfigurationError, check_memory
from evidentia.posterior.rows import Window

STAGE = 8192  # maximum number of rows in a chunk: the space behind the sample for a staged chunk
NUM_BINDING_ROWS = 64  # from which a model is bound again
MOST_PLACES = 2**31 - 1  # rows of the arrays that JAX can count


class Reservoir(NamedTuple):
    """`capacity` rows of `arrays` for the sample, then space for a chunk, then as much for copies.

    All chunks share these arrays, so that a chunk of another length compiles no new program. The
    random choices depend on `seed` and the number of rows seen: the same stream fills the same
    reservoir.
    """

    arrays: Any
    capacity: int
    seed: int = 0
    num_observations: int = 0

    @property
    def num_kept(self) -> int:
        """Rows in the sample."""
        return min(self.num_observations, self.capacity)

    @property
    def spare(self) -> int:
        """The first place for copies of rows, side by side."""
        return self.capacity + STAGE

    @property
    def is_full(self) -> bool:
        """Whether the next row would replace another."""
        return self.num_observations >= self.capacity


class Exchange(NamedTuple):
    """Indices in a chunk of the rows that enter the reservoir, and their places there."""

    entering: Int[np.ndarray, " rows"]
    slots: Int[np.ndarray, " rows"]


def empty(example: Any, capacity: int, seed: int = 0) -> Reservoir:
    """A reservoir for rows like those of the pytree `example`, filled with its first row.

    All its memory is taken at once. Raises ConfigurationError if the machine has too little.
    """
    length = capacity + 2 * STAGE
    num_bytes = sum(leaf[:1].nbytes for leaf in jax.tree.leaves(example))
    # Writing a chunk makes a copy of the arrays.
    check_memory(f"reservoir_size={capacity:,}", "the rows and a copy of them", 2 * length * num_bytes)
    if length > MOST_PLACES:
        raise ConfigurationError(
            f"reservoir_size must be at most {MOST_PLACES - 2 * STAGE:,}, as JAX counts places in 32 bits; got {capacity:,}."
        )
    arrays = jax.tree.map(lambda leaf: jnp.asarray(with_rows(leaf[:1], length)), example)
    return Reservoir(arrays, capacity, seed)


def stage(reservoir: Reservoir, chunk: Any) -> tuple[Reservoir, Window]:
    """Copy a chunk, a pytree of NumPy arrays, behind the sample; also return its window.

    The chunk is not yet part of the sample.
    """
    first = reservoir.capacity if reservoir.is_full else reservoir.num_observations
    arrays, size = written(reservoir.arrays, chunk, first)
    window = Window(arrays, first, first + size, first_row=reservoir.num_observations)
    return reservoir._replace(arrays=arrays), window


def written(arrays: Any, chunk: Any, first: int) -> tuple[Any, int]:
    """Arrays with the rows of a chunk from the place `first`, and their number."""
    size = jax.tree.leaves(chunk)[0].shape[0]
    # Pad to a power of two to limit compilation. The next chunk overwrites the padding.
    length = min(STAGE, 1 << max(0, size - 1).bit_length())
    padded = jax.tree.map(lambda leaf: with_rows(leaf, length), chunk)
    return _write(arrays, padded, first), size


def room(reservoir: Reservoir) -> int:
    """Maximum rows in the next chunk, which must not go past the row that fills the reservoir."""
    left = reservoir.capacity - reservoir.num_observations
    return min(left, STAGE) if left > 0 else STAGE


def draw_exchange(reservoir: Reservoir, size: int) -> Exchange:
    """Draw which of the next `size` rows enter a full reservoir, and where; the last one stays."""
    generator = np.random.default_rng([reservoir.seed, reservoir.num_observations])
    numbers = reservoir.num_observations + 1 + np.arange(size)
    slots = generator.integers(0, numbers)
    entering = np.flatnonzero(slots < reservoir.capacity)
    chosen = slots[entering]
    _, last = np.unique(chosen[::-1], return_index=True)
    keep = len(chosen) - 1 - last
    return Exchange(entering[keep], chosen[keep])


def side_by_side(reservoir: Reservoir, index: Int[np.ndarray, " rows"]) -> Window:
    """A window over copies of rows of the arrays, by their index."""
    target = reservoir.spare + np.arange(len(index))
    arrays = _copy(reservoir.arrays, *_aligned(index, target))
    return Window(arrays, reservoir.spare, reservoir.spare + len(index))


def exchanged(reservoir: Reservoir, exchange: Exchange) -> Reservoir:
    """The reservoir after the chosen rows of a staged chunk have entered."""
    source = reservoir.capacity + exchange.entering
    return reservoir._replace(arrays=_copy(reservoir.arrays, *_aligned(source, exchange.slots)))


def _aligned(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices padded to a fixed length, with targets outside the arrays."""
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
