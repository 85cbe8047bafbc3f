"""The interacting particle Langevin algorithm: particle gradient descent with noise in θ."""

from dataclasses import dataclass
from typing import Any

import optax
from jaxtyping import Array

from evidentia.errors import ConfigurationError, check_positive
from evidentia.latent.pgd import PGD, with_noise


@dataclass(frozen=True, eq=False, kw_only=True)
class IPLA(PGD):
    """The interacting particle Langevin algorithm: particle gradient descent with noise in θ.

        θ_{k+1} = θ_k + (h/N) Σ ∇_θ log p_θ(xᵢ, data) + √(2h/N) ξ,

    so θ has a stationary law, which concentrates at the maximisers as N grows. θ takes steps of
    `theta_step_size`, by default `step_size`; no other optimiser is possible.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Akyildiz, Crucinio, Girolami, Johnston, Sabanis (2025), ESAIM: Probability and
        Statistics 29.
    """

    theta_step_size: float | None = None

    def __post_init__(self) -> None:
        if self.optimizer is not None:
            raise ConfigurationError(
                "optimizer must be None: IPLA adds its noise to plain gradient steps; give theta_step_size."
            )
        if self.theta_step_size is not None:
            check_positive("theta_step_size", self.theta_step_size)
        super().__post_init__()

    @property
    def transformation(self) -> Any:
        """Gradient steps of θ."""
        return optax.sgd(self.theta_step_size or self.step_size)

    def perturbed(self, key: Array, theta: Any, count: int) -> Any:
        """θ with noise of variance 2 h / N."""
        return with_noise(key, theta, 2 * (self.theta_step_size or self.step_size) / count)
