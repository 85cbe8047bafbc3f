"""Stochastic gradient Langevin dynamics."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, as_number, check_count, check_positive
from evidentia.kernels.kernel import Density, GradientKernel, Moved, Positions, Scale, noise_variance
from evidentia.kernels.noise_estimate import MEASURED, MOST, NoiseEstimate, check_noise_estimate, estimated


@dataclass(frozen=True)
class SGLD(GradientKernel):
    """Euler steps of Langevin dynamics without velocities; the step size shrinks with the data.

    It repeats `num_steps` times, with η = `learning_rate` / n, n the number of rows seen and ∇Û an
    estimate of the gradient of -log π:

        θ ← θ - (η/2) ∇Û(θ) + N(0, (1 - β̂) η)

    The paper writes ε for η and decreases it from step to step. Here that of step t = 0, 1, … of a
    move is η (1 + t)^(-`decay`): constant by default; with a decay between ½ and 1, the conditions
    of Robbins and Monro hold, and the errors of discretisation and mini-batches vanish slowly.
    The thesis has θ ← θ - η ∇Û(θ) + N(0, 2 (1 - β̂ η) η): its η is half of this one, so
    `SGLD(learning_rate=2 * r)` is its algorithm with the rate r. β̂ = `noise_estimate` stands for
    the noise of the gradient, (η/4) n² Var ∇ℓ / B, and is β̂ η in the thesis. With "measured" it is
    that of each coordinate, from two more gradients at the beginning of a move, and at most 0.95.
    A Gaussian posterior of variance s / n comes out wider by a factor of 1 / (1 - `learning_rate`
    / 4s), and diverges if `learning_rate` ≥ 4s: the narrowest direction limits the learning rate,
    the widest sets the number of steps. Without β̂, mini-batch noise adds (η²/4) n² Var ∇ℓ / B to
    the injected variance η.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Welling, Teh (2011), Proceedings of the 28th International Conference on Machine
    Learning, 681, Eq. 2 and 4; Cameron (2020), MSc thesis, Stellenbosch, Algorithm 3.
    """

    learning_rate: float = 0.1
    num_steps: int = 20
    noise_estimate: NoiseEstimate = 0.0
    decay: float = 0.0

    is_scaled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("num_steps", self.num_steps, 1)
        check_noise_estimate(self.noise_estimate, 1, "lie in [0, 1)")
        if not 0 <= as_number(self.decay) <= 1:
            raise ConfigurationError(f"decay must lie in [0, 1]; got {self.decay}.")

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` steps."""
        first_rate = self.learning_rate / scale.num_observations
        key_estimate = jax.random.fold_in(key, self.num_steps)  # which no step has
        known = estimated(self.noise_estimate, key_estimate, positions, density, 0.25 * first_rate, 1.0)

        def step(index, positions):
            key_noise, key_gradient = jax.random.split(jax.random.fold_in(key, index))
            fraction = (1.0 + index) ** -self.decay
            rate = fraction * first_rate  # β̂ is in proportion to it
            noise = jnp.sqrt((1 - fraction * known) * rate) * jax.random.normal(key_noise, positions.shape)
            return positions + 0.5 * rate * density.gradient(key_gradient, positions) + noise

        return Moved(jax.lax.fori_loop(0, self.num_steps, step, positions))

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """The share of gradient noise that β̂ does not stand for, (η/4) Var ∇Û - β̂."""
        rate = self.learning_rate / scale.num_observations
        known = MOST if self.noise_estimate == MEASURED else self.noise_estimate
        return jnp.maximum(rate * noise_variance(differences) / 4 - known, 0.0)
