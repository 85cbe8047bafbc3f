"""Unadjusted Langevin steps, and the weights that correct their discretisation.

In coordinates with a covariance of about one, a step of size h under the log density ℓ_k = -U_k,

    x' = x + h ∇ℓ_k(x) + √(2h) ξ,    ξ ~ N(0, 1),

adds to the log weight of x', which then represents the next log density ℓ_{k+1}, the increment

    ΔA = ℓ_{k+1}(x') - ℓ_k(x) - ½ (x' - x)·(∇ℓ_{k+1}(x') + ∇ℓ_k(x))
         - (h/4) (|∇ℓ_{k+1}(x')|² - |∇ℓ_k(x)|²),

the log of π_{k+1}(x') q_{k+1}(x | x') over π_k(x) q_k(x' | x), with q_k the transition density of
a step. Weighted means, and the ratio of normalising constants, the mean of exp(A), are therefore
right on average for any h and any path of densities. Each step takes one gradient.

Source: Cuin, Carbone, Akyildiz (2025), Eq. 2 to 4 (there -α_{k+1}(x', x) + α_k(x, x')).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import check_count, check_positive
from evidentia.kernels.kernel import Density, Kernel, LogDensity, Moved, Positions, Scale

Vector = Float[Array, " parameters"]


class LangevinState(NamedTuple):
    """Positions of one particle or all, with the log density there and its gradient."""

    position: Array
    log_density: Array
    gradient: Array


def langevin_state(log_density: LogDensity, position: Vector) -> LangevinState:
    """The state of one particle under a log density."""
    return LangevinState(position, *jax.value_and_grad(log_density)(position))


def langevin_step(key: Array, at: LangevinState, step_size: Array | float) -> Array:
    """Positions of one particle or all after a step."""
    noise = jax.random.normal(key, at.position.shape, at.position.dtype)
    return at.position + step_size * at.gradient + jnp.sqrt(2 * step_size) * noise


def log_weight_increment(
    before: LangevinState, after: LangevinState, step_size: Array | float
) -> Float[Array, " *particles"]:
    """ΔA of a step between two states, each under its own log density."""
    path = (after.position - before.position) * (after.gradient + before.gradient)
    squares = after.gradient**2 - before.gradient**2
    return after.log_density - before.log_density - jnp.sum(0.5 * path + 0.25 * step_size * squares, axis=-1)


@dataclass(frozen=True)
class ULA(Kernel):
    """`num_steps` Langevin steps in whitened coordinates; weights correct the discretisation.

    The step size is h = ½ `step_size`² d^(-1/3), with d the number of parameters: `step_size`
    means the same as in `MALA`, which rejects steps where this kernel reweights. Long steps cost
    effective sample size, not bias.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Cuin, Carbone, Akyildiz (2025), Eq. 2 to 4, with a constant path.
    """

    step_size: float = 0.5
    num_steps: int = 10

    is_reweighting: ClassVar[bool] = True
    differentiates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_count("num_steps", self.num_steps, 1)

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after the steps, and the increments of the log weights."""
        size = 0.5 * self.step_size**2 * positions.shape[1] ** (-1 / 3)
        return walk(
            key, positions, lambda step, x: density.log_density(x), self.num_steps, scale.factor, size
        )


def walk(
    key: Array,
    positions: Positions,
    log_density: Callable[[Array, Vector], Array],
    num_steps: int,
    factor: Float[Array, "parameters parameters"],
    step_size: Array | float,
) -> Moved:
    """Positions after steps along a path of log densities, and their total log weight increments.

    `log_density(k, x)` is the log density of one particle before step k = 0, 1, …, and after the
    last, k = `num_steps`. Steps are taken in coordinates q from the particle's position, θ = θ₀ +
    L q with L the `factor`.
    """

    def begin(step, origin):
        zero = jnp.zeros_like(origin)
        return langevin_state(lambda shift: log_density(step, origin + factor @ shift), zero)

    def one(step, carry):
        positions, at, gained = carry
        reached = langevin_step(jax.random.fold_in(key, step), at, step_size)
        positions = positions + reached @ factor.T
        after = jax.vmap(begin, (None, 0))(step + 1, positions)
        # Only the difference between the two positions matters.
        increment = log_weight_increment(at, after._replace(position=reached), step_size)
        return positions, after, gained + increment

    origins, start = positions, jax.vmap(begin, (None, 0))(0, positions)
    carry = positions, start, jnp.zeros_like(start.log_density)
    gained: Array
    positions, _, gained = jax.lax.fori_loop(0, num_steps, one, carry)
    # A particle outside the support has weight zero from then on; its position is irrelevant.
    is_lost = ~jnp.isfinite(gained) | ~jnp.isfinite(positions).all(1)
    return Moved(jnp.where(is_lost[:, None], origins, positions), jnp.where(is_lost, -jnp.inf, gained))
