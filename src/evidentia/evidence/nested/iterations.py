"""Iterations of a nested sampler on the device: moved points replace the lowest ones."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.kernels import Points, Region
from evidentia.posterior.row_sums import sum_rows
from evidentia.posterior.target import gradient_sum, log_target
from evidentia.system.compilation import compiled


class Live(NamedTuple):
    """The live points, labels that break ties in likelihood, and the log step length."""

    positions: Float[Array, "points parameters"]
    labels: Float[Array, " points"]
    log_step: Float[Array, ""]


@compiled(static_argnames=("model", "kernel", "estimator", "num_removed"))
def iterated(model, kernel, estimator, num_removed, keys, live: Live, factor, density):
    """Iterate on the device; return live points, removed points in order, and statistics."""
    region = _region(model, estimator, *density)

    def iterate(carry, key):
        live, log_step = carry
        key_starts, key_move = jax.random.split(key)
        order = jnp.lexsort((live.labels, live.log_likelihoods))
        lowest, survivors = order[:num_removed], order[num_removed:]
        removed = live.positions[lowest]
        last = lowest[-1]
        contour = region._replace(
            threshold=live.log_likelihoods[last], label=live.labels[last], live=live.positions[survivors]
        )
        starts = jax.random.choice(key_starts, survivors, (num_removed,), replace=False)
        copies = jax.tree.map(lambda leaf: leaf[starts], live)
        moved, acceptance, free = kernel.move(key_move, copies, contour, jnp.exp(log_step) * factor)
        stuck = jnp.mean(free == 0)
        shown = jnp.stack([jnp.mean(acceptance), stuck, jnp.exp(log_step)])
        live = jax.tree.map(lambda leaf, new: leaf.at[lowest].set(new), live, moved)
        excess = jnp.minimum(
            jnp.mean(acceptance) - kernel.target_acceptance, jnp.mean(free) - kernel.target_free
        )
        log_step = log_step + 0.5 * excess  # at this rate it adapts
        return (live, jnp.minimum(log_step, math.log(kernel.largest_step))), (removed, shown)

    points = Points(live.positions, region.log_likelihood(live.positions), live.labels)
    (points, log_step), (removed, shown) = jax.lax.scan(iterate, (points, live.log_step), keys)
    moved = Live(points.positions, points.labels, log_step)
    return moved, removed.reshape(-1, live.positions.shape[1]), shown


def _region(model, estimator, target, expansion, rows, offset) -> Region:
    """The contours of the likelihood of `rows`, minus an offset per row, in `target`."""

    def log_likelihood(positions):
        def add(sums, block, weights):
            values: Array = jax.vmap(model.log_likelihood, (0, None))(positions, block)
            values = jnp.where(values == jnp.inf, jnp.nan, values)  # outside every contour
            centred: Array = values - offset
            return sums + jnp.sum(jnp.where(weights > 0, centred, 0.0), axis=1)

        return sum_rows(add, jnp.zeros(len(positions), positions.dtype), rows)

    exact, gradient = log_target(model, target), estimator.function(model, target, expansion)

    def slope(key, positions):
        if estimator.is_exact:
            return jax.vmap(jax.value_and_grad(exact))(positions)
        return None, gradient(key, positions)

    def likelihood_gradient(positions):
        return gradient_sum(model, positions, rows)

    log_density = jax.vmap(exact) if estimator.is_exact else None
    return Region(-jnp.inf, 0.0, log_likelihood, likelihood_gradient, log_density, slope, model.draw_prior)
