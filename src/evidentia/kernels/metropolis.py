"""What the kernels with Metropolis' correction share: whitened steps from where each particle is.

A proposal's steps are taken in coordinates q, θ = θ₀ + L q, with θ₀ the particle's place and L Lᵀ the covariance of the
density (`Scale.factor`). Far from zero, differences of whitened coordinates themselves would lose their digits.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.kernels.scale import Scale

Positions = Float[Array, "particles parameters"]
LogDensity = Callable[[Float[Array, " parameters"]], Float[Array, ""]]


def repeat(
    num_moves: int,
    key: Array,
    positions: Positions,
    log_density: LogDensity,
    scale: Scale,
    init: Callable[[Array, LogDensity], Any],
    step: Callable[[Array, Any, LogDensity], tuple[Any, Any]],
) -> Positions:
    """Positions after `num_moves` moves of a BlackJAX kernel, `state, info = step(key, state, log_density)`.

    A place where the density is NaN is one where it is zero: no particle goes there.
    """

    def density_from(origin, shift):
        density = log_density(origin + scale.factor @ shift)
        return jnp.where(jnp.isnan(density), -jnp.inf, density)

    def begin(origin):
        return init(jnp.zeros_like(origin), partial(density_from, origin))

    def move(key, origin, state):
        state, _ = step(key, state, partial(density_from, origin))
        # From its new place on; what the kernel knows of the density there stays.
        return origin + scale.factor @ state.position, state._replace(position=jnp.zeros_like(origin))

    def one(index, carry):
        keys = jax.random.split(jax.random.fold_in(key, index), len(positions))
        return jax.vmap(move)(keys, *carry)

    return jax.lax.fori_loop(0, num_moves, one, (positions, jax.vmap(begin)(positions)))[0]
