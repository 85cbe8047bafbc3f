"""Stochastic gradient Hamiltonian Monte Carlo, as published for SGAIS."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.kernels.scale import Scale

Positions = Float[Array, "particles parameters"]


@dataclass(frozen=True)
class SGHMC:
    """SGHMC in the form of Chen, Fox, Guestrin (2014), Eq. 15, with a step size that shrinks with the data.

    From v ~ N(0, η), `num_steps` times, with η = `learning_rate` / n, n the number of rows seen, α the friction and
    ∇Û an estimate of the gradient of -log π:

        v ← v - α v - η ∇Û(θ) + N(0, 2 (α - β̂) η)
        θ ← θ + v

    β̂ = 0, as published: the noise of the mini-batch is not allowed for, so the particles spread too far once
    η² n² Var ∇ℓ / B is no longer small beside 2 α η.

    Raises:
        ConfigurationError: a field that is out of range.

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 4 and Algorithm 1.
    """

    learning_rate: float = 0.1
    friction: float = 0.2
    num_steps: int = 20

    def __post_init__(self):
        if self.learning_rate <= 0:
            raise ConfigurationError(f"learning_rate must be positive; got {self.learning_rate}.")
        if not 0 < self.friction <= 1:
            raise ConfigurationError(f"friction must lie in (0, 1]; got {self.friction}.")
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

        def step(index, carry):
            positions, velocities = carry
            key_noise, key_gradient = jax.random.split(jax.random.fold_in(key_steps, index))
            noise = jnp.sqrt(2 * self.friction * rate) * jax.random.normal(key_noise, velocities.shape)
            kick = rate * gradient(key_gradient, positions)
            velocities = (1 - self.friction) * velocities + kick + noise
            return positions + velocities, velocities

        key_velocities, key_steps = jax.random.split(key)
        velocities = jnp.sqrt(rate) * jax.random.normal(key_velocities, positions.shape)
        return jax.lax.fori_loop(0, self.num_steps, step, (positions, velocities))[0]

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """Variance that noise in the gradient adds in a step, as a share of that which the kernel adds itself.

        `differences` are those of two estimates of the gradient at the same positions.
        """
        rate = self.learning_rate / scale.num_observations
        return rate * 0.5 * jnp.mean(differences**2) / (2 * self.friction)
