"""Stochastic gradient Hamiltonian Monte Carlo, as published for SGAIS."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, as_number, check_count, check_positive
from evidentia.kernels.kernel import Density, GradientKernel, Moved, Positions, Scale, noise_variance
from evidentia.kernels.noise_estimate import MEASURED, MOST, NoiseEstimate, check_noise_estimate, estimated


@dataclass(frozen=True)
class SGHMC(GradientKernel):
    """SGHMC as in Chen, Fox, Guestrin (2014), Eq. 15, with a step size that shrinks with the data.

    It starts from v ~ N(0, η) and repeats `num_steps` times, with η = `learning_rate` / n, n the
    number of rows seen, α the friction and ∇Û an estimate of the gradient of -log π:

        v ← v - α v - η ∇Û(θ) + N(0, 2 (α - β̂) η)
        θ ← θ + v

    β̂ = `noise_estimate` stands for the noise of the gradient, (η/2) n² Var ∇ℓ / B. It is 0 as
    published: mini-batch noise is not corrected for, so the particles spread too far once it is no
    longer small compared with α. The β̂ of the thesis is this one divided by η. With "measured" it
    is that of each coordinate, from two more gradients at the beginning of a move, and at most
    0.95 α.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 4 and Algorithm 1; Cameron
    (2020), MSc thesis, Stellenbosch, Algorithm 4.
    """

    learning_rate: float = 0.1
    friction: float = 0.2
    num_steps: int = 20
    noise_estimate: NoiseEstimate = 0.0

    is_scaled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("num_steps", self.num_steps, 1)
        if not 0 < as_number(self.friction) <= 1:
            raise ConfigurationError(f"friction must lie in (0, 1]; got {self.friction}.")
        check_noise_estimate(
            self.noise_estimate, self.friction, f"lie between 0 and friction = {self.friction}"
        )

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` steps."""
        rate = self.learning_rate / scale.num_observations

        def step(index, carry):
            positions, velocities = carry
            key_noise, key_gradient = jax.random.split(jax.random.fold_in(key_steps, index))
            noise = deviation * jax.random.normal(key_noise, velocities.shape)
            kick = rate * density.gradient(key_gradient, positions)
            velocities = (1 - self.friction) * velocities + kick + noise
            return positions + velocities, velocities

        key_velocities, key_steps = jax.random.split(key)
        key_estimate = jax.random.fold_in(key_steps, self.num_steps)  # which no step has
        limit = self.friction
        known = estimated(self.noise_estimate, key_estimate, positions, density, 0.5 * rate, limit)
        deviation = jnp.sqrt(2 * (limit - known) * rate)
        velocities = jnp.sqrt(rate) * jax.random.normal(key_velocities, positions.shape)
        return Moved(jax.lax.fori_loop(0, self.num_steps, step, (positions, velocities))[0])

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """The share of gradient noise that β̂ does not stand for, η² Var ∇Û / 2 α η - β̂ / α."""
        rate = self.learning_rate / scale.num_observations
        share = rate * noise_variance(differences) / (2 * self.friction)
        known = MOST if self.noise_estimate == MEASURED else self.noise_estimate / self.friction
        return jnp.maximum(share - known, 0.0)
