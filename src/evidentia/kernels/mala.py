"""The Metropolis-adjusted Langevin algorithm: one gradient and one accept/reject per step."""

from dataclasses import dataclass
from typing import ClassVar

from blackjax.mcmc import mala
from jaxtyping import Array

from evidentia.errors import check_count, check_positive
from evidentia.kernels.kernel import Density, Kernel, Moved, Positions, Scale
from evidentia.kernels.metropolis import whitened


@dataclass(frozen=True)
class MALA(Kernel):
    """`num_steps` Langevin steps in whitened coordinates q, θ = L q with L Lᵀ the covariance:

        q' = q + (h²/2) ∇ log π(L q) + h ξ,    ξ ~ N(0, 1),    h = `step_size` d^(-1/6),

    accepted with the Metropolis-Hastings probability; d is the number of parameters. On a
    Gaussian, h = 1.65 d^(-1/6) accepts 57% of the steps; the default is shorter, for non-Gaussian
    densities.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Roberts, Tweedie (1996), Bernoulli 2, 341; Roberts, Rosenthal (1998), Journal of the
    Royal Statistical Society B 60, 255 (the step size); the kernel is BlackJAX's.
    """

    step_size: float = 1.0
    num_steps: int = 20

    differentiates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_count("num_steps", self.num_steps, 1)

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` steps."""
        kernel = mala.build_kernel()
        # BlackJAX's step is x + ε ∇ + √(2ε) ξ.
        size = 0.5 * self.step_size**2 * positions.shape[1] ** (-1 / 3)

        def step(key, state, log_density):
            return kernel(key, state, log_density, size)

        return Moved(whitened(self.num_steps, key, positions, density.log_density, scale, mala.init, step))
