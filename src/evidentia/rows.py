"""Rows: a window of observations on the device, and sums over it that keep their digits.

Every sum over data in the package goes through `fold_rows`: it walks a window block by block inside one compiled
program, so a chunk of any length runs without compiling anew, and no array of size particles x rows is ever held.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from evidentia.expansion import Expansion
from evidentia.model import BoundModel

NUM_EXACT = 8  # particles whose log-likelihood is summed in float64
BLOCK_SIZE = 512  # rows per block: large enough for matrix products, small enough to stay in the cache

Carry = TypeVar("Carry")


class Sample(NamedTuple):
    """What lets rows stand for more than themselves: each counts `weight` times, `missing` is what is then still missing.

    With a sample of R of n rows, weight = n/R, the log-likelihood of all is

        Σ_{i ≤ n} ℓ_i(θ) = (n/R) Σ_{i in sample} ℓ_i(θ) + Q(θ),

    where Q is small, as the sample has about the same shape as the whole, and its expansion to second order is what
    `missing` holds. Source: Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical Association 114, Eq. 5
    (the difference estimator, of which this is the same sample at every position).
    """

    weight: float
    missing: Expansion


@dataclass(frozen=True)
class Rows:
    """The observations `start <= row < stop` of `arrays`, a pytree whose leaves share their leading axis.

    With a `sample` they stand for more observations than themselves, and so do the sums over them. In messages they are
    counted from `number` on in place of `start`, where that is given; programs never see it, as it outgrows 32 bits.
    """

    arrays: Any
    start: int
    stop: int
    sample: Sample | None = None
    number: int | None = None

    @property
    def size(self) -> int:
        """The number of observations in the window."""
        return self.stop - self.start

    @property
    def num_observations(self) -> float:
        """The number of observations that the window stands for: its size, unless it is a sample."""
        return self.size if self.sample is None else self.sample.weight * self.size

    @property
    def span(self) -> str:
        """The rows in words."""
        first = self.start if self.number is None else self.number
        return f"rows {first} to {first + self.size - 1}"

    def whole(self, window_sum: Array, missing: Callable[[Expansion], Array]) -> Array:
        """A sum over all that the window stands for, from that over its rows and what the expansion has to say of it."""
        if self.sample is None:
            return window_sum
        return self.sample.weight * window_sum + missing(self.sample.missing)


jax.tree_util.register_pytree_node(
    Rows, lambda rows: ((rows.arrays, rows.start, rows.stop, rows.sample), None), lambda _, parts: Rows(*parts)
)


def joined(past: Rows, chunk: Rows) -> Rows | None:
    """Two windows as one; None unless they lie side by side in the same arrays, the first at their beginning."""
    if follows(chunk, past) and past.start == 0:
        return Rows(past.arrays, 0, chunk.stop)
    return None


def follows(chunk: Rows, past: Rows) -> bool:
    """Whether a window begins where another ends, in the same arrays, and none stands for more than its rows."""
    is_plain = past.sample is None and chunk.sample is None
    return is_plain and chunk.arrays is past.arrays and past.stop == chunk.start


def next_round_number(num_rows: int, smallest: int = 500) -> int:
    """The first of 500 (or `smallest`), 1000, 2000, 5000, … that is larger: where trajectories can be compared."""
    power = 10 ** max(0, len(str(num_rows)) - 1)
    return next(
        mark
        for mark in (smallest, power, 2 * power, 5 * power, 10 * power)
        if mark > num_rows and mark >= smallest
    )


def next_stop(start: int, size: int, total: int, *, round_above: int | None = None) -> int:
    """The row up to which a chunk of `size` rows from `start` on reaches, where there are `total`.

    A chunk that does not reach the end stops at the first round number above `round_above`, 1, 2 or 5 times a power of
    ten, so that the trajectories of different runs can be compared there.
    """
    stop = min(start + size, total)
    if round_above is not None and stop < total:
        stop = min(stop, next_round_number(round_above))
    return stop


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

    The log-likelihood of 10⁶ rows is about -10⁶, where float32 steps by 0.06 nats; and rounding of single rows adds up
    where data take few values, such as counts. So each row's average over the particles is taken out, and the small
    deviations are summed in float32. The offset is what makes a few of the particles right on average, whose sums are
    computed in float64 too. Particle i has the log-likelihood `deviations[i] + offset`.

    A particle that gives -inf to a row has the deviation -inf; one that gives NaN or +inf has NaN.
    """
    deviations = np.asarray(_deviations(model, positions, rows), np.float64)
    few = np.argsort(~np.isfinite(deviations), kind="stable")[:NUM_EXACT]
    exact = exact_log_likelihood_sums(model, positions[few], rows)
    finite = np.isfinite(deviations[few]) & np.isfinite(exact)
    return deviations, float(np.mean(exact[finite] - deviations[few][finite])) if finite.any() else 0.0


def exact_log_likelihood_sums(
    model: BoundModel, positions: Float[Array, "particles parameters"], rows: Rows
) -> Float[np.ndarray, " particles"]:
    """Log-likelihood of `rows` at a few particles, in float64, inside a context that leaves JAX's own setting alone."""
    with jax.enable_x64(True):
        return np.asarray(_exact_sums(model, jnp.asarray(positions, jnp.float64), rows))


def masked_sum(
    model: BoundModel, position: Float[Array, " parameters"], block: Any, mask: Bool[Array, " block"]
) -> Float[Array, ""]:
    """Log-likelihood of the rows of a block that the mask shows, at one particle, in the precision of its position."""
    return jnp.sum(jnp.where(mask, model.log_likelihood(position, _in_precision_of(position, block)), 0.0))


def _in_precision_of(position: Array, block: Any) -> Any:
    # In 64 bits integers are widened too: what is computed from 32 bits stays there.
    if position.dtype != jnp.float64:
        return block
    wide = {"f": jnp.float64, "i": jnp.int64}
    return jax.tree.map(lambda leaf: leaf.astype(wide.get(leaf.dtype.kind, leaf.dtype)), block)


@partial(jax.jit, static_argnames="model")
def _deviations(model, positions, rows):
    def add(deviations, block, mask):
        values = jax.vmap(model.log_likelihood, (0, None))(positions, block)
        values = jnp.where(mask, values, 0.0)
        finite = jnp.isfinite(values)
        average = jnp.where(finite, values, 0.0).sum(0) / jnp.maximum(finite.sum(0), 1)
        values = jnp.where(values == jnp.inf, jnp.nan, values - average)
        return deviations + values.sum(1)

    # Constants do not matter here: the offset makes up for them.
    return rows.whole(fold_rows(add, jnp.zeros_like(positions[:, 0]), rows), lambda q: q.rise(positions))


@partial(jax.jit, static_argnames="model")
def _exact_sums(model, positions, rows):
    def add(sums, block, mask):
        return sums + jax.vmap(masked_sum, (None, 0, None, None))(model, positions, block, mask)

    sums = fold_rows(add, jnp.zeros_like(positions[:, 0]), rows)
    return rows.whole(sums, lambda q: q.value + q.rise(positions))
