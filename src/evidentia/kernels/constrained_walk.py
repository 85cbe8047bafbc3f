"""A random walk inside a likelihood contour."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import check_count
from evidentia.kernels.region import ConstrainedKernel, Points, Region, Values


@dataclass(frozen=True)
class ConstrainedWalk(ConstrainedKernel):
    """Random-walk Metropolis on the prior, with rejection at the likelihood contour.

    It repeats `num_steps` times, with L Lᵀ the covariance of the live points and a step size h
    that adapts to the acceptance rate,

        θ' = θ + h L N(0, 1);      inside the contour: θ ← θ' with probability min(1, p(θ') / p(θ))

    It needs no gradients, but many more steps than `ReflectingSGHMC` for the same distance.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Skilling (2006), Bayesian Analysis 1, 833, section 4.
    """

    num_steps: int = 50

    target_acceptance: ClassVar[float] = 0.4
    target_free: ClassVar[float] = 0.0
    largest_step: ClassVar[float] = 1.0
    is_adaptive: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self):
        check_count("num_steps", self.num_steps, 1)

    def move(
        self, key: Array, points: Points, region: Region, factor: Float[Array, "parameters parameters"]
    ) -> tuple[Points, Float[Array, " points"], Float[Array, " points"]]:
        """Points after the steps, and their acceptance rates (returned twice); `factor` is h L."""
        log_density = region.log_density
        assert log_density is not None  # it must be known, not only its gradient

        def step(index, carry: tuple[Points, Values, Values]):
            here, value, taken = carry
            key_step, key_accept, _ = jax.random.split(jax.random.fold_in(key_steps, index), 3)
            there = here.positions + jax.random.normal(key_step, here.positions.shape) @ factor.T
            log_likelihoods: Array = region.log_likelihood(there)
            value_there = log_density(there)
            accept: Array = jnp.log(jax.random.uniform(key_accept, value.shape)) < value_there - value
            accept &= region.holds(log_likelihoods, here.labels)
            positions = jnp.where(accept[:, None], there, here.positions)
            log_likelihoods = jnp.where(accept, log_likelihoods, here.log_likelihoods)
            here = Points(positions, log_likelihoods, here.labels)
            return here, jnp.where(accept, value_there, value), taken + accept

        _, key_steps, key_labels = jax.random.split(key, 3)
        carry = points, log_density(points.positions), jnp.zeros(len(points.labels))
        moved, _, taken = jax.lax.fori_loop(0, self.num_steps, step, carry)
        labels = region.relabel(key_labels, moved.log_likelihoods)
        return moved._replace(labels=labels), taken / self.num_steps, taken / self.num_steps
