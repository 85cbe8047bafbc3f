"""The mode of each group's local variables, and a factor of the curvature there.

The matrices are as small as the number of local variables of a group, and there are as many as
groups, so they are factorised entry by entry: batched LAPACK calls are slow, and can hang on CPU
(jax 0.10).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

NUM_STEPS = 6  # of Newton's method, from 0
LEAST_PIVOT = 0.5  # half of the prior's curvature, where a likelihood curves upwards
ROUNDING = 1e-6  # of a pivot, relative to the entry that it is taken from
CLOSE = 1e-3  # that a group has still to climb, in half nats
FALLS = 1e-3  # of the log density, in nats, that are rounding

Locals = Float[Array, "groups size"]
Values = Float[Array, " groups"]
Matrices = Float[Array, "groups size size"]
Columns = Float[Array, "groups size columns"]
LogDensity = Callable[[Locals], Values]


class Mode(NamedTuple):
    """Where a climb of each group ended.

    Attributes:
        place: the mode.
        factor: L with L Lᵀ the curvature there.
        height: of the log density; -inf if the climb did not come close to a mode.
    """

    place: Locals
    factor: Matrices
    height: Values


def expansion(log_density: LogDensity, u: Locals) -> tuple[Values, Locals, Matrices]:
    """`log_density(u) + log N(u; 0, 1)` of each group, its slope, and its curvature."""

    def target(u):
        return log_density(u) - 0.5 * jnp.sum(u**2, axis=1)

    def gradient(u):
        return jax.grad(lambda u: jnp.sum(target(u)))(u)

    slope, along = jax.linearize(gradient, u)
    columns = jax.vmap(lambda basis: along(jnp.broadcast_to(basis, u.shape)))(jnp.eye(u.shape[1]))
    return target(u), slope, -jnp.moveaxis(columns, 0, 2)


def climb(log_density: LogDensity, start: Locals, num_steps: int) -> Mode:
    """The mode of `log_density(u) + log N(u; 0, 1)` of each group.

    Newton's method takes few steps, damped for a group in which a step goes down, or to where
    derivatives overflow. It ends early if all groups are close to their modes.
    """
    groups, size = start.shape

    def step(carry):
        count, here, old, there, damping, _ = carry
        new = expansion(log_density, there)
        is_up = (new[0] >= old[0] - FALLS) & _is_finite(new)
        here, old = jax.tree.map(
            lambda new, old: jnp.where(is_up.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            (there, new),
            (here, old),
        )
        damping = jax.lax.select(is_up, 0.1 * damping, jnp.maximum(4 * damping, 4.0))
        _, slope, curvature = old
        factor = cholesky(curvature + damping[:, None, None] * identity)
        ahead = solve_transposed(factor, solve(factor, slope[:, :, None])[:, :, 0])
        is_close = is_up & (jnp.sum(slope * ahead, axis=1) < CLOSE)
        return count + 1, here, old, here + ahead, damping, is_close

    def goes_on(carry):
        count, *_, is_close = carry
        return (count <= num_steps) & ~jnp.all(is_close)

    identity, zeros = jnp.eye(size), jnp.zeros(groups)
    nowhere = zeros - jnp.inf, jnp.zeros_like(start), jnp.broadcast_to(identity, (groups, size, size))
    # The start is one more step, so that `expansion` is compiled once.
    begin = 0, start, nowhere, start, zeros, jnp.zeros(groups, bool)
    _, place, (height, _, curvature), _, _, is_close = jax.lax.while_loop(goes_on, step, begin)
    return Mode(place, cholesky(curvature), jnp.where(is_close, height, -jnp.inf))


def without_low(modes: Mode, least: float) -> Mode:
    """Modes from several starts, with the highest in place of those lower than it by `least`."""
    highest = jnp.argmax(modes.height, axis=0)
    is_kept = modes.height >= jnp.max(modes.height, axis=0) - least  # all, if no climb came close

    def kept(leaf):
        beside = [1] * (leaf.ndim - 2)
        best = jnp.take_along_axis(leaf, highest.reshape(1, -1, *beside), axis=0)
        return jnp.where(is_kept.reshape(*is_kept.shape, *beside), leaf, best)

    return jax.tree.map(kept, modes)


def _is_finite(expansion: tuple[Values, Locals, Matrices]) -> Bool[Array, " groups"]:
    value, slope, curvature = (jnp.isfinite(each) for each in expansion)
    return value & jnp.all(slope, axis=1) & jnp.all(curvature, axis=(1, 2))


def cholesky(matrices: Matrices) -> Matrices:
    """L with L Lᵀ = A, for small matrices; pivots below `LEAST_PIVOT` are raised to it."""
    return _factor(matrices, lambda pivot, entry: jnp.maximum(pivot, LEAST_PIVOT))


def exact_cholesky(matrices: Matrices) -> Matrices:
    """L with L Lᵀ = A, NaN if A is not positive definite.

    Pivots that are only rounding are `LEAST_PIVOT`: with normal rows and effects, all are ≥ 1.
    """

    def kept(pivot, entry):
        is_rounding = jnp.abs(pivot) < ROUNDING * jnp.abs(entry)
        least = jnp.full_like(pivot, LEAST_PIVOT)
        return jnp.select([is_rounding, pivot > 0], [least, pivot], jnp.nan)

    return _factor(matrices, kept)


def _factor(matrices: Matrices, kept: Callable[[Values, Values], Values]) -> Matrices:
    size = matrices.shape[-1]
    factor = [[jnp.zeros(matrices.shape[0])] * size for _ in range(size)]
    for j in range(size):
        entry = matrices[:, j, j]
        factor[j][j] = jnp.sqrt(kept(entry - sum(factor[j][m] ** 2 for m in range(j)), entry))
        for i in range(j + 1, size):
            rest = matrices[:, i, j] - sum(factor[i][m] * factor[j][m] for m in range(j))
            factor[i][j] = rest / factor[j][j]
    return jnp.stack([jnp.stack(row, axis=-1) for row in factor], axis=-2)


def solve(factor: Matrices, columns: Columns) -> Columns:
    """L⁻¹ A, with any number of columns."""
    found: list[Array] = []
    for i in range(columns.shape[1]):
        known = sum(factor[:, i, m, None] * found[m] for m in range(i))
        found.append((columns[:, i] - known) / factor[:, i, i, None])
    return jnp.stack(found, axis=1)


def solve_transposed(factor: Matrices, vectors: Locals) -> Locals:
    """L⁻ᵀ v."""
    size = vectors.shape[-1]
    found: list[Array] = [jnp.zeros(())] * size
    for i in reversed(range(size)):
        known = sum(factor[:, m, i] * found[m] for m in range(i + 1, size))
        found[i] = (vectors[:, i] - known) / factor[:, i, i]
    return jnp.stack(found, axis=-1)
