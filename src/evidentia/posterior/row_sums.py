"""Sums over the rows of a window, block by block, at many particles, and their derivatives.

The loop over blocks is inside one compiled program: windows of any length share a program, and no
array of size particles × rows is ever held. If the arrays of a window are spread over devices,
each device sums over its own rows.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from evidentia.errors import ModelError
from evidentia.model.bound import BoundModel, Observations
from evidentia.model.local.packs import PRESENT, are_packs
from evidentia.system.compilation import compiled

BLOCK_SIZE = 128  # rows per block: large enough for matrix products, small enough for a cache and few rows

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
    shards, weights = window.shards, row_weights or window.row_weights
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
    if are_packs(arrays):
        # Rows of packs as in four blocks of rows, since each group has many nodes.
        size = max(1, min(size, 4 * BLOCK_SIZE // math.prod(arrays[PRESENT].shape[1:])))
    return min(size, _capacity(arrays))


def over_positions(
    function: Callable[[Array], Array], positions: Float[Array, "particles parameters"], block: Observations
) -> Array:
    """A function of one position at each of many, on the leading axis.

    All at once, unless a block is so large that its intermediate results would not fit the memory,
    as where all data are one row.
    """
    numbers = sum(leaf.size for leaf in jax.tree.leaves(block))
    at_once = max(1, (1 << 28) // numbers)  # 1 GiB in float32
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


def draw_rows(
    key: Array, rows: Any, shape: tuple[int, ...]
) -> tuple[Observations, Float[Array, "*shape"] | None]:
    """Rows drawn with replacement: a pytree with `shape` in place of the leading axis.

    With them, how often each counts, if the rows are nodes.
    """
    index = jax.random.randint(key, shape, rows.start, rows.stop)
    if rows.shards is not None:
        return rows.shards.take(rows.arrays, index), None
    copies = None if rows.copies is None else rows.copies[index]
    return jax.tree.map(lambda leaf: leaf[index], rows.arrays), copies


def drawn_sum(
    model: BoundModel, position: Array, batch: Observations, copies: Float[Array, " batch"] | None
) -> Float[Array, ""]:
    """The log-likelihood of a batch, each row as often as it counts."""
    values: Array = model.log_likelihood(position, batch)
    return jnp.sum(values if copies is None else copies * values)


def _capacity(arrays: Observations) -> int:
    return jax.tree.leaves(arrays)[0].shape[0]


def _in_precision_of(position: Array, block: Observations) -> Observations:
    # In 64 bits integers are widened too, since results computed from 32 bits stay in 32 bits.
    if position.dtype != jnp.float64:
        return block
    wide = {"f": jnp.float64, "i": jnp.int64}
    return jax.tree.map(lambda leaf: leaf.astype(wide.get(leaf.dtype.kind, leaf.dtype)), block)


@compiled(static_argnames="model")
def deviations(model: BoundModel, positions: Float[Array, "particles parameters"], window: Any) -> Array:
    """Log-likelihoods at positions, but for a constant, whose digits float32 would lose."""

    def add(carry, block: Observations, weights: Array):
        values = over_positions(lambda one: model.log_likelihood(one, block), positions, block)
        values = jnp.where(weights > 0, values, 0.0)
        finite = jnp.isfinite(values)
        average = jnp.where(finite, values, 0.0).sum(0) / jnp.maximum(finite.sum(0), 1)
        values = jnp.where(values == jnp.inf, jnp.nan, values - average)
        # Compensated: what rounding loses in one block is added in the next (Kahan 1965).
        deviations, lost = carry
        increments = jnp.where(weights > 0, weights * values, 0.0).sum(1) - lost
        sums = deviations + increments
        return sums, jnp.where(jnp.isfinite(sums), (sums - deviations) - increments, 0.0)

    zeros = jnp.zeros(len(positions), positions.dtype)
    deviations, _ = sum_rows(add, (zeros, zeros), window)
    # Constants do not matter here: the offset absorbs them.
    return deviations if window.remainder is None else deviations + window.remainder.rise(positions)


@compiled(static_argnames="model")
def exact_sums(model, positions, window):
    """Log-likelihoods at positions, in their precision."""

    def add(sums, block, weights):
        return sums + over_positions(lambda one: weighted_sum(model, one, block, weights), positions, block)

    sums = sum_rows(add, jnp.zeros(len(positions), positions.dtype), window)
    remainder = window.remainder
    return sums if remainder is None else sums + remainder.value + remainder.rise(positions)


@compiled(static_argnames=("model", "hessian"))
def expand(model, centre, window, hessian):
    """Value, gradient and Hessian of the weighted sum over the window's rows."""

    def look(position, block, weights):
        value, gradient = jax.value_and_grad(weighted_sum, argnums=1)(model, position, block, weights)
        return gradient, (value, gradient)

    def add(carry, block, weights):
        if hessian:
            curvature, (value, gradient) = _jacobian(look, centre, block, weights)
        else:
            curvature, (value, gradient) = 0.0, look(centre, block, weights)[1]
        return jax.tree.map(jnp.add, carry, (value, gradient, curvature))

    size = centre.shape[0]
    zeros = (jnp.zeros(shape, centre.dtype) for shape in ((), size, (size, size)))
    return sum_rows(add, tuple(zeros), window)


def _jacobian(function, *arguments):
    """The Jacobian of a function with auxiliary results.

    In reverse mode, which takes longer, if a `jax.custom_vjp` has no other, as in
    `jax.experimental.ode`.
    """
    try:
        return jax.jacfwd(function, has_aux=True)(*arguments)
    except TypeError as error:
        if "custom_vjp" not in str(error):
            raise
    try:
        return jax.jacrev(function, has_aux=True)(*arguments)
    except TypeError as error:
        raise ModelError(
            "the log-likelihood has only first derivatives (a jax.custom_vjp whose backward pass has none); second ones are "
            "needed. Use method=AMIS(), which needs none."
        ) from error
