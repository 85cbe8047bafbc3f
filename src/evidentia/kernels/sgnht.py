"""Stochastic gradient Nosé–Hoover thermostat: friction that adapts to mini-batch noise."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, as_number, check_count, check_positive
from evidentia.kernels.kernel import Density, GradientKernel, Moved, Positions, Scale, noise_variance


@dataclass(frozen=True)
class SGNHT(GradientKernel):
    """The stochastic gradient Nosé–Hoover thermostat, with a step size that shrinks with the data.

    It starts from v ~ N(0, η) and ξ = A and repeats `num_steps` times, with η = `learning_rate` /
    n, n the number of rows seen, A the diffusion, d the number of parameters and ∇Û an estimate of
    the gradient of -log π:

        v ← v - ξ v - η ∇Û(θ) + N(0, 2 A η)
        θ ← θ + v
        ξ ← ξ + n (vᵀv / d - η)

    ξ, one number per particle, is a friction that rises while the particle is too fast. It thereby
    balances noise in ∇Û, whose variance may be unknown but must be the same at all θ and in all
    directions: ξ settles near the ξ̄ with ξ̄ (2 - ξ̄) = 2 A + η n² Var ∇ℓ / B. The right side must
    stay below 1: above, no friction suffices and the velocities grow without bound.

    This is the published algorithm for √n θ, in SGHMC's notation (the paper has u for v, a for A,
    α for ξ). Applied to θ itself it lacks the n before the bracket: ξ then changes by about 1/n
    per step and has no effect within a move.

    Euler steps make positions too narrow, for a Gaussian by a factor of about 1 - ξ̄/2 in
    variance, while v has the right variance. A ξ above 2 reverses velocities and diverges; with
    few parameters, a randomly high velocity causes this at learning rates of 0.05 and more.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Ding, Fang, Babbush, Chen, Skeel, Neven (2014), Advances in Neural Information
    Processing Systems 27, 3203, Algorithm 2.
    """

    learning_rate: float = 0.02
    diffusion: float = 0.1
    num_steps: int = 50

    is_scaled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("num_steps", self.num_steps, 1)
        # At 1/2 the noise alone has the target variance of the velocities: no friction suffices.
        if not 0 < as_number(self.diffusion) < 0.5:
            raise ConfigurationError(f"diffusion must lie in (0, 0.5); got {self.diffusion}.")

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` steps."""
        rate = self.learning_rate / scale.num_observations

        def step(index, carry):
            positions, velocities, frictions = carry
            key_noise, key_gradient = jax.random.split(jax.random.fold_in(key_steps, index))
            noise = jnp.sqrt(2 * self.diffusion * rate) * jax.random.normal(key_noise, velocities.shape)
            kick = rate * density.gradient(key_gradient, positions)
            velocities = (1 - frictions) * velocities + kick + noise
            excess = jnp.mean(velocities**2, axis=1, keepdims=True) - rate
            return positions + velocities, velocities, frictions + scale.num_observations * excess

        key_velocities, key_steps = jax.random.split(key)
        velocities = jnp.sqrt(rate) * jax.random.normal(key_velocities, positions.shape)
        frictions = jnp.full((len(positions), 1), self.diffusion)
        carry = positions, velocities, frictions
        return Moved(jax.lax.fori_loop(0, self.num_steps, step, carry)[0])

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """The share of gradient noise, η² Var ∇Û over 2 A η."""
        rate = self.learning_rate / scale.num_observations
        return rate * noise_variance(differences) / (2 * self.diffusion)
