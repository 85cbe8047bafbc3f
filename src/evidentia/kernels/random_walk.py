"""Random-walk Metropolis: no gradient at all."""

from dataclasses import dataclass

import blackjax
import jax.numpy as jnp
from blackjax.mcmc import random_walk
from jaxtyping import Array

from evidentia.errors import ConfigurationError
from evidentia.kernels.metropolis import LogDensity, Positions, repeat
from evidentia.kernels.scale import Scale


@dataclass(frozen=True)
class RandomWalk:
    """`num_steps` times a Gaussian step in whitened coordinates q, θ = L q with L Lᵀ the covariance,

        q' = q + `step_size` d^(-1/2) ξ,    ξ ~ N(0, 1),

    accepted with Metropolis' probability; d is the number of parameters. It takes about d steps to forget a place.

    Raises:
        ConfigurationError: a field that is out of range.

    Source: Metropolis et al. (1953), Journal of Chemical Physics 21, 1087; Roberts, Gelman, Gilks (1997), Annals of
    Applied Probability 7, 110 (2.38 d^(-1/2)); the kernel is BlackJAX's.
    """

    step_size: float = 2.0
    num_steps: int = 50

    def __post_init__(self):
        if self.step_size <= 0:
            raise ConfigurationError(f"step_size must be positive; got {self.step_size}.")
        if self.num_steps < 1:
            raise ConfigurationError(f"num_steps must be at least 1; got {self.num_steps}.")

    def move(self, key: Array, positions: Positions, log_density: LogDensity, scale: Scale) -> Positions:
        """Positions after `num_steps` steps; `log_density` is that of one particle."""
        kernel = blackjax.additive_step_random_walk.build_kernel()
        size = positions.shape[1]
        proposal = random_walk.normal(jnp.full(size, self.step_size / size**0.5))

        def step(key, state, density):
            return kernel(key, state, density, proposal)

        init = blackjax.additive_step_random_walk.init
        return repeat(self.num_steps, key, positions, log_density, scale, init, step)
