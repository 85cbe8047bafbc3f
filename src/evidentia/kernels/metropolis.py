"""Whitened steps from each particle's position, shared by kernels with a Metropolis correction.

Proposals are made in coordinates q, θ = θ₀ + L q, with θ₀ the particle's position and L Lᵀ the
covariance of the density (`Scale.factor`). Differences of absolute whitened coordinates would lose
precision far from zero.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from evidentia.kernels.kernel import LogDensity, Positions, Scale


def whitened(
    num_moves: int,
    key: Array,
    positions: Positions,
    log_density: LogDensity,
    scale: Scale,
    init: Callable[[Array, LogDensity], Any],
    step: Callable[[Array, Any, LogDensity], tuple[Any, Any]],
) -> Positions:
    """Positions after `num_moves` moves of a BlackJAX kernel in whitened coordinates.

    `init(position, log_density)` makes a state, and `state, info = step(key, state, log_density)`
    moves it. A NaN density counts as zero.
    """

    def density_from(origin, shift):
        density = log_density(origin + scale.factor @ shift)
        return jnp.where(jnp.isnan(density), -jnp.inf, density)

    def begin(origin):
        return init(jnp.zeros_like(origin), partial(density_from, origin))

    def move(key, origin, state):
        state, _ = step(key, state, partial(density_from, origin))
        # The next step starts from here; the density and gradient in the state stay valid.
        return origin + scale.factor @ state.position, state._replace(position=jnp.zeros_like(origin))

    def one(index, carry):
        keys = jax.random.split(jax.random.fold_in(key, index), len(positions))
        return jax.vmap(move)(keys, *carry)

    return jax.lax.fori_loop(0, num_moves, one, (positions, jax.vmap(begin)(positions)))[0]
