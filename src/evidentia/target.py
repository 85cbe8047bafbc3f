"""The tempered posterior of the rows seen so far, and its exact derivatives.

    log π_λ(θ) = log p(θ) + Σ_{i ≤ n} ℓ_i(θ) + λ Σ_{i in chunk} ℓ_i(θ),       ℓ_i(θ) = log p(y_i | θ),

with θ on the unconstrained scale. Everything here visits every row, block by block; what estimates gradients from a few of
them is in `gradients`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.expansion import Expansion, add_expansions
from evidentia.model import BoundModel
from evidentia.rows import Rows, fold_rows, follows, masked_sum

Positions = Float[Array, "particles parameters"]


class Target(NamedTuple):
    """The tempered posterior: `past` counts fully, `chunk` to the power `temperature`."""

    past: Rows
    chunk: Rows
    temperature: Float[Array, ""] | float


def prior_gradient(model: BoundModel, positions: Positions) -> Positions:
    """Gradient of the log prior density at every particle."""
    return jax.vmap(jax.grad(model.log_prior))(positions)


def gradient_sum(model: BoundModel, positions: Positions, rows: Rows) -> Positions:
    """Gradient of the log-likelihood of `rows` at every particle, each row visited."""

    def add(carry, block, mask):
        gradient = jax.grad(masked_sum, argnums=1)
        return carry + jax.vmap(gradient, (None, 0, None, None))(model, positions, block, mask)

    return rows.whole(fold_rows(add, jnp.zeros_like(positions), rows), lambda q: q.slope(positions))


def log_target(
    model: BoundModel, target: Target
) -> Callable[[Float[Array, " parameters"]], Float[Array, ""]]:
    """log π_λ of one particle, exact, as a function that `jax.grad` can differentiate.

    Value and gradient come from the same walk over the rows, which JAX could not differentiate: its length is not fixed.
    """

    def value_and_gradient(position):
        def add(total, block, mask):
            here = jax.value_and_grad(masked_sum, argnums=1)(model, position, block, mask)
            return jax.tree.map(jnp.add, total, here)

        def over(rows):
            zero = jnp.zeros((), position.dtype), jnp.zeros_like(position)
            value, gradient = fold_rows(add, zero, rows)
            value = rows.whole(value, lambda q: q.value + q.rise(position))
            return value, rows.whole(gradient, lambda q: q.slope(position))

        past, chunk = over(target.past), over(target.chunk)
        prior = jax.value_and_grad(model.log_prior)(position)
        return jax.tree.map(lambda a, b, c: a + b + target.temperature * c, prior, past, chunk)

    @jax.custom_vjp
    def log_density(position):
        return value_and_gradient(position)[0]

    log_density.defvjp(value_and_gradient, lambda gradient, cotangent: (cotangent * gradient,))
    return log_density


@partial(jax.jit, static_argnames="model")
def expand(model: BoundModel, centre: Float[Array, " parameters"], rows: Rows) -> Expansion:
    """The log-likelihood of `rows` at `centre`, its gradient and its Hessian, in one pass over them.

    In the precision of the centre. In float32 the value has few digits left where rows are many.
    """

    def add(carry, block, mask):
        place = model, centre, block, mask
        value, gradient = jax.value_and_grad(masked_sum, argnums=1)(*place)
        return jax.tree.map(jnp.add, carry, (value, gradient, jax.hessian(masked_sum, argnums=1)(*place)))

    size = centre.shape[0]
    zeros = (jnp.zeros(shape, centre.dtype) for shape in ((), size, (size, size)))
    window = Expansion(centre, *fold_rows(add, tuple(zeros), rows))
    if rows.sample is None:
        return window
    return add_expansions(rows.sample.missing.about(centre), window, rows.sample.weight)


def merge_chunk(target: Target) -> Target:
    """The same target with a chunk that counts fully, and follows the past in the same arrays, taken as past."""
    past, chunk, temperature = target
    if temperature == 1.0 and follows(chunk, past):
        return Target(replace(past, stop=chunk.stop), replace(chunk, start=chunk.stop), 1.0)
    return target


def expand_target(model: BoundModel, past: Expansion, target: Target) -> Expansion:
    """The expansion of a target's log-likelihood, given that of its past."""
    if target.chunk.size == 0:
        return past
    return add_expansions(past, expand(model, past.centre, target.chunk), target.temperature)


@partial(jax.jit, static_argnames="model")
def prior_hessian(
    model: BoundModel, position: Float[Array, " parameters"]
) -> Float[Array, "parameters parameters"]:
    """Hessian of the log prior density."""
    return jax.hessian(model.log_prior)(position)
