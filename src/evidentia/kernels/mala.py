"""The Metropolis-adjusted Langevin algorithm: one gradient a step, accepted or refused."""

from dataclasses import dataclass

import blackjax
from jaxtyping import Array

from evidentia.errors import ConfigurationError
from evidentia.kernels.metropolis import LogDensity, Positions, repeat
from evidentia.kernels.scale import Scale


@dataclass(frozen=True)
class MALA:
    """`num_steps` times a Langevin step in whitened coordinates q, θ = L q with L Lᵀ the covariance,

        q' = q + (h²/2) ∇ log π(L q) + h ξ,    ξ ~ N(0, 1),    h = `step_size` d^(-1/6),

    accepted with Metropolis' and Hastings' probability; d is the number of parameters. On a Gaussian, h = 1.65 d^(-1/6)
    accepts 57% of the steps; the default is shorter, for targets that are not.

    Raises:
        ConfigurationError: a field that is out of range.

    Source: Roberts, Tweedie (1996), Bernoulli 2, 341; Roberts, Rosenthal (1998), Journal of the Royal Statistical Society
    B 60, 255 (the step size); the kernel is BlackJAX's.
    """

    step_size: float = 1.0
    num_steps: int = 20

    def __post_init__(self):
        if self.step_size <= 0:
            raise ConfigurationError(f"step_size must be positive; got {self.step_size}.")
        if self.num_steps < 1:
            raise ConfigurationError(f"num_steps must be at least 1; got {self.num_steps}.")

    def move(self, key: Array, positions: Positions, log_density: LogDensity, scale: Scale) -> Positions:
        """Positions after `num_steps` steps; `log_density` is that of one particle, which `jax.grad` can differentiate."""
        kernel = blackjax.mala.build_kernel()
        # BlackJAX's step is x + ε ∇ + √(2ε) ξ.
        size = 0.5 * self.step_size**2 * positions.shape[1] ** (-1 / 3)

        def step(key, state, density):
            return kernel(key, state, density, size)

        return repeat(self.num_steps, key, positions, log_density, scale, blackjax.mala.init, step)
