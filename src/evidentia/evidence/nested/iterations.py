"""Iterations of a nested sampler on the device: moved points replace the lowest ones.

Live points are of two halves. Steps of copies from one half have the shape of the other: with the
shape of all, points stay long in the directions in which they are so by chance: of a regression
with 30 correlated coefficients 1.4 nats were lost on average.

Source: Goodman and Weare (2010), Communications in Applied Mathematics and Computational Science
5, 65 (the halves).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from evidentia.kernels import Points, Region
from evidentia.posterior.row_sums import sum_rows
from evidentia.posterior.target import gradient_sum, log_target
from evidentia.system.compilation import compiled

MOST_COMPARED = 256  # points with which a rank is found


class Live(NamedTuple):
    """The live points, labels that break ties in likelihood, halves, and the log step length."""

    positions: Float[Array, "points parameters"]
    labels: Float[Array, " points"]
    is_second: Bool[Array, " points"]
    log_step: Float[Array, ""]


@compiled(static_argnames=("model", "kernel", "estimator", "num_removed"))
def iterated(model, kernel, estimator, num_removed, keys, live: Live, factors, density):
    """Iterate on the device; return live points, removed points in order, and statistics.

    `factors` are the shapes of the steps for the first and the second half, or one for all. The
    statistics are those of each iteration, and the rank correlation of each coordinate over
    the moves.
    """
    region = _region(model, estimator, *density)

    def iterate(carry, key):
        live, is_second, log_step = carry
        key_starts, key_move = jax.random.split(key)
        order = jnp.lexsort((live.labels, live.log_likelihoods))
        lowest, survivors = order[:num_removed], order[num_removed:]
        removed = live.positions[lowest]
        last = lowest[-1]
        if len(factors) == 1:
            side, others = False, survivors
            starts = jax.random.choice(key_starts, survivors, (num_removed,), replace=False)
        else:  # from the smaller half
            side = 2 * jnp.sum(is_second[survivors]) < len(survivors)
            scores = jax.random.uniform(key_starts, survivors.shape)
            scores = jnp.where(is_second[survivors] == side, scores, -1.0)
            starts = survivors[jax.lax.top_k(scores, num_removed)[1]]
            others = survivors[jax.lax.top_k(-scores, len(survivors) // 2)[1]]  # at least as many
        contour = region._replace(
            threshold=live.log_likelihoods[last], label=live.labels[last], live=live.positions[others]
        )
        factor = factors[jnp.asarray(side, int)]
        copies = jax.tree.map(lambda leaf: leaf[starts], live)
        moved, acceptance, free = kernel.move(key_move, copies, contour, jnp.exp(log_step) * factor)
        products = _products_of_ranks(live.positions[survivors], copies.positions, moved.positions)
        stuck = jnp.mean(free == 0)
        shown = jnp.stack([jnp.mean(acceptance), stuck, jnp.exp(log_step)])
        live = jax.tree.map(lambda leaf, new: leaf.at[lowest].set(new), live, moved)
        excess = jnp.minimum(
            jnp.mean(acceptance) - kernel.target_acceptance, jnp.mean(free) - kernel.target_free
        )
        log_step = jnp.minimum(
            log_step + 0.5 * excess, math.log(kernel.largest_step)
        )  # at this rate it adapts
        return (live, is_second.at[lowest].set(side), log_step), (removed, shown, products)

    points = Points(live.positions, region.log_likelihood(live.positions), live.labels)
    start = points, live.is_second, live.log_step
    (points, is_second, log_step), (removed, shown, products) = jax.lax.scan(iterate, start, keys)
    moved = Live(points.positions, points.labels, is_second, log_step)
    return moved, removed.reshape(-1, live.positions.shape[1]), shown, jnp.mean(products, 0)


def _products_of_ranks(among, before, after) -> Float[Array, " parameters"]:
    """12 times the mean product of the centred ranks of coordinates before and after a move.

    Starts are chosen at random `among` the points inside, and what leaves the prior inside
    invariant arrives as if it were, so that this is the rank correlation of a coordinate.
    """
    among = among[:: max(1, len(among) // MOST_COMPARED)]

    def centred(positions):
        below = jnp.sum(among[None] < positions[:, None], axis=1)
        level = jnp.sum(among[None] == positions[:, None], axis=1)
        return (below + 0.5 * level) / len(among) - 0.5

    return 12 * jnp.mean(centred(before) * centred(after), 0)


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
