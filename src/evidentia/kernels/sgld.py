"""Stochastic gradient Langevin dynamics."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.kernels.scale import Scale

Positions = Float[Array, "particles parameters"]


@dataclass(frozen=True)
class SGLD:
    """Langevin dynamics without velocities, in Euler steps, with a step size that shrinks with the data.

    `num_steps` times, with η = `learning_rate` / n, n the number of rows seen and ∇Û an estimate of the
    gradient of -log π:

        θ ← θ - (η/2) ∇Û(θ) + N(0, η)

    The paper writes ε for η and lets it fall from step to step; here it is constant within a move. A Gaussian
    posterior of variance s / n comes out wider by a factor of 1 / (1 - `learning_rate` / 4s), and diverges
    from `learning_rate` = 4s on: the narrowest direction limits the learning rate, the widest sets the number
    of steps. The noise of the mini-batch is not allowed for: it adds (η²/4) n² Var ∇ℓ / B to the η of the
    noise.

    Raises:
        ConfigurationError: a field that is out of range.

    Source: Welling, Teh (2011), Proceedings of the 28th International Conference on Machine Learning, 681,
    Eq. 4.
    """

    learning_rate: float = 0.1
    num_steps: int = 20

    def __post_init__(self):
        if self.learning_rate <= 0:
            raise ConfigurationError(f"learning_rate must be positive; got {self.learning_rate}.")
        if self.num_steps < 1:
            raise ConfigurationError(f"num_steps must be at least 1; got {self.num_steps}.")

    def move(
        self,
        key: Array,
        positions: Positions,
        gradient: Callable[[Array, Positions], Positions],
        scale: Scale,
    ) -> Positions:
        """Positions after `num_steps` steps."""
        rate = self.learning_rate / scale.num_observations

        def step(index, positions):
            key_noise, key_gradient = jax.random.split(jax.random.fold_in(key, index))
            noise = jnp.sqrt(rate) * jax.random.normal(key_noise, positions.shape)
            return positions + 0.5 * rate * gradient(key_gradient, positions) + noise

        return jax.lax.fori_loop(0, self.num_steps, step, positions)

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """Variance that noise in the gradient adds in a step, as a share of that which the kernel adds itself.

        `differences` are those of two estimates of the gradient at the same positions.
        """
        rate = self.learning_rate / scale.num_observations
        return rate * 0.5 * jnp.mean(differences**2) / 4
