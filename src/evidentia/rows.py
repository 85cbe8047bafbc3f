"""Rows: a window of observations on the device, and sums over it that keep their digits.

Every sum over data in the package goes through `fold_rows`: it walks a window block by block inside one compiled
program, so a chunk of any length runs without compiling anew, and no array of size particles x rows is ever held.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from evidentia.model import BoundModel

BLOCK_SIZE = 1024  # rows per block: large enough for matrix products, small enough to stay in the cache

Carry = TypeVar("Carry")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """The observations `start <= row < stop` of `arrays`, a pytree whose leaves share their leading axis."""

    arrays: Any
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of observations in the window."""
        return self.stop - self.start


def fold_rows(
    function: Callable[[Carry, Any, Bool[Array, " block"]], Carry], initial: Carry, rows: Rows
) -> Carry:
    """Fold `function(carry, block, mask)` over the rows; `mask` is False for rows outside the window."""
    capacity, size = _capacity(rows), block_size(rows)

    def body(index, carry):
        first = rows.start + index * size
        # At the end of the arrays the slice moves back; the mask hides the rows that it shows for a second time.
        shifted = jnp.minimum(first, capacity - size)
        block = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, shifted, size), rows.arrays)
        index_of_row = shifted + jnp.arange(size)
        return function(carry, block, (index_of_row >= first) & (index_of_row < rows.stop))

    return jax.lax.fori_loop(0, (rows.size + size - 1) // size, body, initial)


def block_size(rows: Rows) -> int:
    """Rows in a block of `fold_rows`."""
    return min(BLOCK_SIZE, _capacity(rows))


def _capacity(rows: Rows) -> int:
    return jax.tree.leaves(rows.arrays)[0].shape[0]


def log_likelihood_sums(
    model: BoundModel, positions: Float[Array, "particles parameters"], rows: Rows
) -> tuple[Float[np.ndarray, " particles"], float]:
    """Log-likelihood of `rows` at every particle, as float64 deviations from a common offset, in nats.

    The log-likelihood of 10⁶ rows is about -10⁶, where float32 steps by 0.06 nats. So each row's average over the
    particles is taken out: the average goes to a compensated offset and only the small deviations are summed in
    float32. Particle i has the log-likelihood `deviations[i] + offset`.

    A particle that gives -inf to a row has the deviation -inf; one that gives NaN or +inf has NaN.
    """
    deviations, high, low = _log_likelihood_sums(model, positions, rows)
    offset = np.sum(np.asarray(high, np.float64)) + np.sum(np.asarray(low, np.float64))
    return np.asarray(deviations, np.float64), float(offset)


@partial(jax.jit, static_argnames="model")
def _log_likelihood_sums(model, positions, rows):
    def add(carry, block, mask):
        deviations, high, low = carry
        values = jax.vmap(model.log_likelihood, (0, None))(positions, block)
        values = jnp.where(mask, values, 0.0)
        finite = jnp.isfinite(values)
        average = jnp.where(finite, values, 0.0).sum(0) / jnp.maximum(finite.sum(0), 1)
        values = jnp.where(values == jnp.inf, jnp.nan, values - average)
        # One compensated sum for each place in the block; the host adds them up.
        high, error = two_sum(high, average)
        return deviations + values.sum(1), high, low + error

    zeros = jnp.zeros(block_size(rows), positions.dtype)
    return fold_rows(add, (jnp.zeros_like(positions[:, 0]), zeros, zeros), rows)


def two_sum(a: Float[Array, " n"], b: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The rounded sum of `a` and `b` and its exact rounding error (Knuth, TAOCP vol. 2, section 4.2.2, Theorem B)."""
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)
