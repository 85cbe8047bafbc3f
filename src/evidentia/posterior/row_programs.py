"""The compiled sums of a window's rows: log-likelihoods, and their derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ModelError
from evidentia.model.bound import BoundModel, Observations
from evidentia.posterior.row_sums import over_positions, sum_rows, weighted_sum
from evidentia.system.compilation import compiled


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
