"""A kernel with steps in unconstrained units, as textbooks have it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from evidentia.errors import ConfigurationError
from evidentia.kernels.kernel import Density, Kernel, Moved, Positions, Scale, check_kernel


@dataclass(frozen=True)
class Unscaled(Kernel):
    """`kernel` with the identity in place of the covariance of the posterior.

    Its step sizes are then in units of the unconstrained parameters, and must suit the narrowest
    direction at any number of rows. Use it to repeat published algorithms.

    Raises:
        ConfigurationError: `kernel` is not a kernel with a Metropolis correction.

    Example:
        >>> from evidentia.kernels import HMC
        >>> Unscaled(HMC(num_steps=10, smallest_step=0.01, largest_step=0.01))  # doctest: +SKIP

    Source: Cameron (2020), MSc thesis, Stellenbosch, Algorithms 1 and 2, whose steps are fixed and
    whose masses are one.
    """

    kernel: Any

    is_scaled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_kernel("kernel", self.kernel, "log_density")
        if self.kernel.is_reweighting:
            raise ConfigurationError(
                f"kernel must have a Metropolis correction, such as kernels.HMC(); got {self.kernel!r}."
            )

    @property
    def differentiates(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether its kernel takes derivatives of the likelihood."""
        return self.kernel.differentiates

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """The particles after a move of the kernel."""
        return self.kernel.move(key, positions, density, scale._replace(factor=jnp.eye(positions.shape[1])))
