"""Random-walk Metropolis, without gradients."""

from dataclasses import dataclass

import jax.numpy as jnp
from blackjax.mcmc import random_walk
from jaxtyping import Array

from evidentia.errors import check_count, check_positive
from evidentia.kernels.kernel import Density, Kernel, Moved, Positions, Scale
from evidentia.kernels.metropolis import whitened


@dataclass(frozen=True)
class RandomWalk(Kernel):
    """`num_steps` Gaussian steps in whitened coordinates q, θ = L q with L Lᵀ the covariance:

        q' = q + `step_size` d^(-1/2) ξ,    ξ ~ N(0, 1),

    accepted with the Metropolis probability; d is the number of parameters. Positions decorrelate
    in about d steps.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Metropolis et al. (1953), Journal of Chemical Physics 21, 1087; Roberts, Gelman, Gilks
    (1997), Annals of Applied Probability 7, 110 (2.38 d^(-1/2)); the kernel is BlackJAX's.
    """

    step_size: float = 2.0
    num_steps: int = 50

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_count("num_steps", self.num_steps, 1)

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` steps."""
        kernel = random_walk.build_additive_step()
        size = positions.shape[1]
        proposal = random_walk.normal(jnp.full(size, self.step_size / size**0.5))

        def step(key, state, log_density):
            return kernel(key, state, log_density, proposal)

        return Moved(
            whitened(self.num_steps, key, positions, density.log_density, scale, random_walk.init, step)
        )
