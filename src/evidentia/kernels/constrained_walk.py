"""Random walks inside a likelihood contour: Gaussian steps, or those of differential evolution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import check_count
from evidentia.kernels.region import ConstrainedKernel, Points, Positions, Region, Values

Factor = Float[Array, "parameters parameters"]
LONG = 0.1  # share of steps as long as a whole difference, from mode to mode
JITTER = 1e-4  # of the spread, so that points do not stay in the span of a few


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
    needs_density: ClassVar[bool] = True
    is_adaptive: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        check_count("num_steps", self.num_steps, 1)

    def move(
        self, key: Array, points: Points, region: Region, factor: Factor
    ) -> tuple[Points, Values, Values]:
        """Points after the steps, and their acceptance rates (returned twice); `factor` is h L."""

        def offsets(key):
            return jax.random.normal(key, points.positions.shape) @ factor.T

        return _walk(self.num_steps, key, points, region, offsets)


@dataclass(frozen=True)
class ConstrainedDifferentialEvolution(ConstrainedKernel):
    """As `ConstrainedWalk`, with steps along differences of two other live points a and b:

        θ' = θ + γ g (a - b) + ε,    γ = 2.38 (2d)^(-1/2),  g ~ Gamma(4, 4);    γ g = 1 for a tenth

    with d parameters and a small Gaussian ε. Steps have the shape of the live points, also where
    that is not one ellipse: the long ones go from mode to mode. There is no step size to adapt.

    Raises:
        ConfigurationError: a field is out of range.

    Source: ter Braak (2006), Statistics and Computing 16, 239, Eq. 2; as a step of nested sampling
    with the random factor g, Ashton et al. (2019), Astrophysical Journal Supplement 241, 27.
    """

    num_steps: int = 50

    target_acceptance: ClassVar[float] = 0.0  # the scale of ε stays the largest
    target_free: ClassVar[float] = 0.0
    largest_step: ClassVar[float] = 1.0
    needs_density: ClassVar[bool] = True
    is_adaptive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("num_steps", self.num_steps, 1)

    def move(
        self, key: Array, points: Points, region: Region, factor: Factor
    ) -> tuple[Points, Values, Values]:
        """Points after the steps, and their acceptance rates (returned twice)."""
        live = region.live
        assert live is not None
        (count, size), others = points.positions.shape, len(live)

        def offsets(key):
            key_pairs, key_length, key_long, key_noise = jax.random.split(key, 4)
            first, shift = jax.random.randint(key_pairs, (2, count), 0, others)
            difference = live[first] - live[(first + 1 + shift % max(1, others - 1)) % others]
            stretch = jax.random.gamma(key_length, 4.0, (count, 1)) / 4
            is_long = jax.random.uniform(key_long, (count, 1)) < LONG
            length = is_long + ~is_long * 2.38 * (2 * size) ** -0.5 * stretch
            noise = jax.random.normal(key_noise, difference.shape) @ factor.T
            return length * difference + JITTER * noise

        return _walk(self.num_steps, key, points, region, offsets)


def _walk(
    num_steps: int, key: Array, points: Points, region: Region, offsets: Callable[[Array], Positions]
) -> tuple[Points, Values, Values]:
    """Points after Metropolis steps of the prior, with symmetric `offsets`, inside the contour."""
    log_density = region.log_density
    assert log_density is not None  # it must be known, not only its gradient

    def step(index, carry: tuple[Points, Values, Values]):
        here, value, taken = carry
        key_step, key_accept, _ = jax.random.split(jax.random.fold_in(key_steps, index), 3)
        there = here.positions + offsets(key_step)
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
    moved, _, taken = jax.lax.fori_loop(0, num_steps, step, carry)
    labels = region.relabel(key_labels, moved.log_likelihoods)
    return moved._replace(labels=labels), taken / num_steps, taken / num_steps
