"""Langevin steps without Metropolis' correction, and the weight that makes up for what their discretisation does wrong.

With step size h, a step under the log density ℓ_k = -U_k, in coordinates in which its covariance is about one,

    x' = x + h ∇ℓ_k(x) + √(2h) ξ,    ξ ~ N(0, 1),

is followed by the increment of the log weight with which x' stands for the next log density ℓ_{k+1},

    ΔA = ℓ_{k+1}(x') - ℓ_k(x) - ½ (x' - x)·(∇ℓ_{k+1}(x') + ∇ℓ_k(x)) - (h/4) (|∇ℓ_{k+1}(x')|² - |∇ℓ_k(x)|²),

the log of π_{k+1}(x') q_{k+1}(x | x') over π_k(x) q_k(x' | x), with q_k the law of a step. So weighted means, and the ratio
of normalising constants exp(log mean A), are right on average for any h and any path of densities. One gradient a step.

Source: Cuin, Carbone, Akyildiz (2025), Eq. 2 to 4 (there -α_{k+1}(x', x) + α_k(x, x')).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.kernels.metropolis import LogDensity, Positions
from evidentia.kernels.scale import Scale

Vector = Float[Array, " parameters"]


class Place(NamedTuple):
    """Where particles are: their log density there, and its gradient."""

    position: Array
    log_density: Array
    gradient: Array


def place(log_density: LogDensity, position: Vector) -> Place:
    """One particle's place under a log density."""
    return Place(position, *jax.value_and_grad(log_density)(position))


def langevin_step(key: Array, at: Place, step_size: Array | float) -> Array:
    """Where a step leads from a place; of one particle or of all."""
    noise = jax.random.normal(key, at.position.shape, at.position.dtype)
    return at.position + step_size * at.gradient + jnp.sqrt(2 * step_size) * noise


def log_weight_increment(
    before: Place, after: Place, step_size: Array | float
) -> Float[Array, " *particles"]:
    """ΔA of a step from one place to another, each under its own log density."""
    path = (after.position - before.position) * (after.gradient + before.gradient)
    squares = after.gradient**2 - before.gradient**2
    return after.log_density - before.log_density - jnp.sum(0.5 * path + 0.25 * step_size * squares, axis=-1)


@dataclass(frozen=True)
class ULA:
    """`num_steps` Langevin steps in whitened coordinates, whose particles gain weight for what the steps do wrong.

    The step size is h = ½ `step_size`² d^(-1/3), with d the number of parameters, so that `step_size` means what it does in
    `MALA`, whose refusals are weights here. Long steps cost effective sample size, and no bias.

    Raises:
        ConfigurationError: a field that is out of range.

    Source: Cuin, Carbone, Akyildiz (2025), Eq. 2 to 4, with a path that stands still.
    """

    step_size: float = 0.5
    num_steps: int = 10

    def __post_init__(self):
        if self.step_size <= 0:
            raise ConfigurationError(f"step_size must be positive; got {self.step_size}.")
        if self.num_steps < 1:
            raise ConfigurationError(f"num_steps must be at least 1; got {self.num_steps}.")

    def move(
        self, key: Array, positions: Positions, log_density: LogDensity, scale: Scale
    ) -> tuple[Positions, Float[Array, " particles"]]:
        """Positions after the steps, and what they add to the log weights; `log_density` is that of one particle."""
        size = 0.5 * self.step_size**2 * positions.shape[1] ** (-1 / 3)
        return walk(key, positions, lambda step, x: log_density(x), self.num_steps, scale.factor, size)


def walk(
    key: Array,
    positions: Positions,
    log_density: Callable[[Array, Vector], Array],
    num_steps: int,
    factor: Float[Array, "parameters parameters"],
    step_size: Array | float,
) -> tuple[Positions, Float[Array, " particles"]]:
    """Positions after steps along a path of log densities, and the increments of their log weights, added up.

    `log_density(k, x)` is that of one particle before the step k = 0, 1, …, and after the last, k = `num_steps`. Steps are taken
    in coordinates q from where a particle is, θ = θ₀ + L q with L the `factor`.
    """

    def begin(step, origin):
        zero = jnp.zeros_like(origin)
        return place(lambda shift: log_density(step, origin + factor @ shift), zero)

    def one(step, carry):
        positions, at, gained = carry
        reached = langevin_step(jax.random.fold_in(key, step), at, step_size)
        positions = positions + reached @ factor.T
        after = jax.vmap(begin, (None, 0))(step + 1, positions)
        # From the new place on: only the difference of the two matters.
        increment = log_weight_increment(at, after._replace(position=reached), step_size)
        return positions, after, gained + increment

    origins, start = positions, jax.vmap(begin, (None, 0))(0, positions)
    carry = positions, start, jnp.zeros_like(start.log_density)
    positions, _, gained = jax.lax.fori_loop(0, num_steps, one, carry)
    # Where the density is not finite no particle can be: it loses its weight, and stands anywhere.
    is_lost = ~jnp.isfinite(gained) | ~jnp.isfinite(positions).all(1)
    return jnp.where(is_lost[:, None], origins, positions), jnp.where(is_lost, -jnp.inf, gained)
