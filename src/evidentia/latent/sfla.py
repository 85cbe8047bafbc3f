"""The slow-fast Langevin algorithm: θ moves slowly, with noise, the latent variables fast."""

from dataclasses import dataclass
from typing import Any

import optax
from jaxtyping import Array

from evidentia.errors import ConfigurationError, check_positive
from evidentia.latent.pgd import PGD, with_noise


@dataclass(frozen=True, eq=False, kw_only=True)
class SFLA(PGD):
    """The slow-fast Langevin algorithm: Langevin dynamics of θ and, 1/ε times as fast, of x.

        θ ← θ + h ∇_θ log p_θ(x, data) + √(2h/β) ξ,
        x ← x + (h/ε) ∇_x log p_θ(x, data) + √(2h/ε) ξ,

    with β the `inverse_temperature`. As ε falls, θ follows the gradient of log Z, with the noise
    that gives it the law exp(β log Z(θ)). One particle is enough; with more, their mean gradient
    moves θ. `step_size` is h/ε, the step size of the latent variables.

    Attributes:
        time_scale: ε, the step size of θ relative to that of the latent variables.
        inverse_temperature: β; the law of θ concentrates at the maximisers as it grows.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Akyildiz, Ottobre, Souttar (2024), A multiscale perspective on maximum marginal
    likelihood estimation, arXiv:2406.04187.
    """

    num_particles: int = 1
    time_scale: float = 0.1
    inverse_temperature: float = 1000.0

    def __post_init__(self) -> None:
        if self.optimizer is not None:
            raise ConfigurationError(
                "optimizer must be None: SFLA adds its noise to plain gradient steps; give time_scale."
            )
        check_positive("time_scale", self.time_scale)
        check_positive("inverse_temperature", self.inverse_temperature)
        super().__post_init__()

    @property
    def transformation(self) -> Any:
        """Gradient steps of θ."""
        return optax.sgd(self.time_scale * self.step_size)

    def perturbed(self, key: Array, theta: Any, count: int) -> Any:
        """θ with noise of variance 2 h / β."""
        return with_noise(key, theta, 2 * self.time_scale * self.step_size / self.inverse_temperature)
