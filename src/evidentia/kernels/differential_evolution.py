"""Differential evolution: steps along the differences of other particles, without gradients."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from evidentia.errors import check_count, check_positive
from evidentia.kernels.kernel import Density, Kernel, Moved, Positions, Scale

LONG = 10  # every so many steps, one is as long as a whole difference, from mode to mode
JITTER = 1e-4  # of the scale, so that the particles do not stay in the span of a few


@dataclass(frozen=True)
class DifferentialEvolution(Kernel):
    """`num_steps` Metropolis steps along differences of two other particles a and b:

        θ' = θ + γ (a - b) + ε,    γ = `step_size` (2d)^(-1/2), in every tenth step 1,

    with d parameters and a small Gaussian ε. The particles are those at the start of the move, so
    that steps have the shape of the density, also where that is not one ellipse.

    Raises:
        ConfigurationError: a field is out of range.

    Source: ter Braak (2006), Statistics and Computing 16, 239, Eq. 2 (step size 2.38; every tenth
    step long).
    """

    step_size: float = 2.0
    num_steps: int = 50

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_count("num_steps", self.num_steps, 1)

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` steps."""
        count, size = positions.shape
        short = self.step_size / (2 * size) ** 0.5

        def heights(places):
            found = jax.vmap(density.log_density)(places)
            return jnp.where(jnp.isnan(found), -jnp.inf, found)

        def step(index, carry):
            here, height = carry
            key_first, key_second, key_noise, key_accept = jax.random.split(jax.random.fold_in(key, index), 4)
            # Others than oneself, and than each other: offsets from 1 to count - 1, all different.
            first = jax.random.randint(key_first, (count,), 1, max(2, count))
            second = 1 + (first + jax.random.randint(key_second, (count,), 0, max(1, count - 2))) % (
                count - 1
            )
            own = jnp.arange(count)
            difference = positions[(own + first) % count] - positions[(own + second) % count]
            length = jnp.where((index + 1) % LONG == 0, 1.0, short)
            noise = JITTER * jax.random.normal(key_noise, here.shape) @ scale.factor.T
            there = here + length * difference + noise
            height_there = heights(there)
            accept = jnp.log(jax.random.uniform(key_accept, height.shape)) < height_there - height
            return jnp.where(accept[:, None], there, here), jnp.where(accept, height_there, height)

        start = positions, heights(positions)
        return Moved(jax.lax.fori_loop(0, self.num_steps, step, start)[0])
