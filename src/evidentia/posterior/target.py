"""The tempered posterior of the rows seen so far, and its exact derivatives.

    log π_λ(θ) = log p(θ) + Σ_{past} ℓ_i(θ) + λ Σ_{chunk} ℓ_i(θ),       ℓ_i(θ) = log p(y_i | θ),

with θ on the unconstrained scale. Everything here visits every row, block by block; `gradients`
has estimates from a few rows.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.row_sums import RowWeights, over_positions, sum_rows, weighted_sum
from evidentia.posterior.rows import Positions, Window
from evidentia.system.compilation import compiled


class Target(NamedTuple):
    """The tempered posterior of a window.

    Rows before `boundary` are the past and count fully; the others count λ times.
    """

    window: Window
    boundary: Int[Array, ""] | int
    temperature: Float[Array, ""] | float = 1.0

    @property
    def past(self) -> Window:
        """The rows that count fully, with the rows that they represent."""
        return replace(self.window, stop=self.boundary)

    @property
    def chunk(self) -> Window:
        """The rows that count λ times."""
        window = self.window
        return Window(window.arrays, self.boundary, window.stop, shards=window.shards, counts=window.counts)  # type: ignore[arg-type]

    @property
    def num_observations(self) -> float:
        """The number of rows in past and chunk."""
        return self.past.num_observations + self.chunk.num_observations

    def row_weights(self, index: Int[Array, " block"]) -> Float[Array, " block"]:
        """The weight of each row of the window, by its index in the arrays."""
        return jnp.where(index < self.boundary, self.window.row_weights(index), self.temperature)


def tempered(past: Window, chunk: Window, temperature: float = 1.0) -> Target:
    """The target of a chunk that follows the past in the same arrays."""
    assert past.arrays is chunk.arrays and past.stop == chunk.start
    return Target(replace(past, stop=chunk.stop), chunk.start, temperature)


def posterior(window: Window) -> Target:
    """The target of all rows of a window."""
    return Target(window, window.stop)


def prior_gradient(model: BoundModel, positions: Positions) -> Positions:
    """Gradient of the log prior density at every particle."""
    return jax.vmap(jax.grad(model.log_prior))(positions)


def gradient_sum(
    model: BoundModel, positions: Positions, window: Window, row_weights: RowWeights | None = None
) -> Positions:
    """Gradient of the log-likelihood of all rows at every particle; weights as in `sum_rows`."""

    def add(carry, block, weights):
        gradient = jax.grad(lambda one: weighted_sum(model, one, block, weights))
        return carry + over_positions(gradient, positions, block)

    gradients = sum_rows(add, jnp.zeros_like(positions), window, row_weights)
    return gradients if window.remainder is None else gradients + window.remainder.slope(positions)


def log_target(
    model: BoundModel, target: Target
) -> Callable[[Float[Array, " parameters"]], Float[Array, ""]]:
    """Exact log π_λ of one particle, as a function that `jax.grad` can differentiate.

    One pass over the rows gives value and gradient; JAX cannot differentiate its dynamic length.
    """
    remainder = target.window.remainder

    def over_rows(function, start, position):
        def add(total, block, weights):
            return jax.tree.map(jnp.add, total, function(model, position, block, weights))

        return sum_rows(add, start(position), target.window, target.row_weights)

    @jax.custom_vjp
    def log_density(position):
        value = over_rows(weighted_sum, model.log_prior, position)
        return value if remainder is None else value + remainder.value + remainder.rise(position)

    def value_and_gradient(position):
        of_block = jax.value_and_grad(weighted_sum, argnums=1)
        value, gradient = over_rows(of_block, jax.value_and_grad(model.log_prior), position)
        if remainder is not None:
            value = value + remainder.value + remainder.rise(position)
            gradient = gradient + remainder.slope(position)
        return value, gradient

    log_density.defvjp(value_and_gradient, lambda gradient, cotangent: (cotangent * gradient,))
    return log_density


def expand_target(model: BoundModel, past: Expansion, target: Target) -> Expansion:
    """The expansion of a target's log-likelihood, given that of its past."""
    if target.chunk.size == 0:
        return past
    return past.plus(target.chunk.expand(model, past.centre), float(target.temperature))


def expand_prior(model: BoundModel, centre: Float[np.ndarray, " parameters"]) -> Expansion:
    """The log prior density with its gradient and Hessian, in float64 on the host."""
    with model.in_float64():
        parts = _expand_prior(model, np.asarray(centre, np.float64))
        return Expansion(np.asarray(centre, np.float64), *(np.asarray(part) for part in parts))


@compiled(static_argnames="model")
def _expand_prior(model, centre):
    return *jax.value_and_grad(model.log_prior)(centre), jax.hessian(model.log_prior)(centre)
