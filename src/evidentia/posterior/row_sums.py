"""Sums over the rows of a window, block by block, at many particles.

The loop over blocks is inside one compiled program: windows of any length share a program, and no
array of size particles × rows is ever held. If the arrays of a window are spread over devices,
each device sums over its own rows.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from evidentia.model.bound import BoundModel, Observations
from evidentia.model.local.packs import PRESENT

BLOCK_SIZE = 128  # rows per block: large enough for matrix products, small enough for a cache and few rows
IN_PACKS = 512  # rows per block of packs: as four blocks of rows, since each group has many nodes
LARGE = 1 << 28  # numbers of a block, times particles, above which these take turns: 1 GiB in float32

Carry = TypeVar("Carry")
RowWeights = Callable[[Int[Array, " block"]], Float[Array, " block"]]


def sum_rows(
    function: Callable[[Carry, Observations, Float[Array, " block"]], Carry],
    initial: Carry,
    window: Any,
    row_weights: RowWeights | None = None,
) -> Carry:
    """The carry after `function(carry, block, weights)` of each block of a window's rows.

    `weights` holds the weight of each row of the block, zero for rows outside: that of the window,
    or `row_weights` of the rows' indices in the arrays. The carry is a sum over rows: if the
    arrays are spread over devices, each starts from zero, and the results are added.
    """
    shards, weights = window.shards, row_weights or (lambda _: window.weight)
    if shards is None:
        return _sum_arrays(function, initial, window.arrays, window.start, window.stop, weights)

    def on_shard(carry, arrays, rank, first, last):
        local_weights = weights if row_weights is None else (lambda row: weights(shards.number(row, rank)))
        return _sum_arrays(function, carry, arrays, first, last, local_weights)

    return shards.sum(on_shard, initial, window.arrays, window.start, window.stop)


def _sum_arrays(function, initial, arrays, start, stop, row_weights):
    capacity, size = _capacity(arrays), block_size(arrays)

    def body(index, carry):
        first = start + index * size
        # At the end of the arrays the slice is shifted back; rows seen twice get weight zero.
        shifted = jnp.minimum(first, capacity - size)
        block = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, shifted, size), arrays)
        row = shifted + jnp.arange(size)
        return function(carry, block, jnp.where((row >= first) & (row < stop), row_weights(row), 0.0))

    return jax.lax.fori_loop(0, (stop - start + size - 1) // size, body, initial)


def block_size(arrays: Observations) -> int:
    """Units per block of `sum_rows`."""
    size = BLOCK_SIZE
    if isinstance(arrays, Mapping) and PRESENT in arrays:
        size = max(1, min(size, IN_PACKS // math.prod(arrays[PRESENT].shape[1:])))
    return min(size, _capacity(arrays))


def over_positions(
    function: Callable[[Array], Array], positions: Float[Array, "particles parameters"], block: Observations
) -> Array:
    """A function of one position at each of many, on the leading axis.

    All at once, unless a block is so large that its intermediate results would not fit the memory,
    as where all data are one row.
    """
    numbers = sum(leaf.size for leaf in jax.tree.leaves(block))
    at_once = max(1, LARGE // numbers)
    if at_once >= len(positions):
        return jax.vmap(function)(positions)
    return jax.lax.map(function, positions, batch_size=at_once)


def weighted_sum(
    model: BoundModel,
    position: Float[Array, " parameters"],
    block: Observations,
    weights: Float[Array, " block"],
) -> Float[Array, ""]:
    """Weighted log-likelihood of a block's rows at a particle, in its position's precision."""
    values: Array = model.log_likelihood(position, _in_precision_of(position, block))
    return jnp.sum(jnp.where(weights > 0, weights * values, 0.0))


def _capacity(arrays: Observations) -> int:
    return jax.tree.leaves(arrays)[0].shape[0]


def _in_precision_of(position: Array, block: Observations) -> Observations:
    # In 64 bits integers are widened too, since results computed from 32 bits stay in 32 bits.
    if position.dtype != jnp.float64:
        return block
    wide = {"f": jnp.float64, "i": jnp.int64}
    return jax.tree.map(lambda leaf: leaf.astype(wide.get(leaf.dtype.kind, leaf.dtype)), block)
