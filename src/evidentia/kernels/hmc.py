"""Hamiltonian Monte Carlo with a Metropolis correction: exact for any shape of the density."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from blackjax.mcmc import hmc
from jaxtyping import Array

from evidentia.errors import ConfigurationError, as_number, check_count
from evidentia.kernels.kernel import Density, Kernel, Moved, Positions, Scale
from evidentia.kernels.metropolis import whitened


@dataclass(frozen=True)
class HMC(Kernel):
    """`num_trajectories` leapfrog trajectories of `num_steps` steps, each accepted or rejected.

    In whitened coordinates q (θ = L q with L Lᵀ the covariance), each trajectory of each particle
    draws its own step size, log-uniform between `smallest_step` and `largest_step`: some suit the
    wide parts of a density, others the narrow ones. Kernels without the correction keep a
    discretisation bias where a density is far from Gaussian: on a five-component mixture with 500
    rows, BAOAB is 5 to 50 nats too low.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Neal (2011), Handbook of Markov Chain Monte Carlo, chapter 5, sections 3 and 4.2
    (random step sizes); the kernel is BlackJAX's.
    """

    num_trajectories: int = 3
    num_steps: int = 4
    smallest_step: float = 0.08
    largest_step: float = 0.8

    differentiates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("num_trajectories", self.num_trajectories, 1)
        check_count("num_steps", self.num_steps, 1)
        if not 0 < as_number(self.smallest_step) <= as_number(self.largest_step) < math.inf:
            raise ConfigurationError(
                "smallest_step must be positive and at most largest_step; got "
                f"{self.smallest_step} and {self.largest_step}."
            )

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after the trajectories."""
        kernel = hmc.build_kernel()
        unit_mass = jnp.ones(positions.shape[1])
        bounds = jnp.log(self.smallest_step), jnp.log(self.largest_step)

        def trajectory(key, state, log_density):
            key_size, key_step = jax.random.split(key)
            size = jnp.exp(jax.random.uniform(key_size, minval=bounds[0], maxval=bounds[1]))
            return kernel(key_step, state, log_density, size, unit_mass, self.num_steps)  # pyright: ignore[reportArgumentType]

        return Moved(
            whitened(self.num_trajectories, key, positions, density.log_density, scale, hmc.init, trajectory)
        )
