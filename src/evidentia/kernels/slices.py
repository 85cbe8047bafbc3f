"""Slices along random lines, without gradients and without a step size to tune."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from blackjax.mcmc import slice as lines
from jaxtyping import Array, Float

from evidentia.errors import check_count, check_positive
from evidentia.kernels.kernel import Density, Kernel, Moved, Positions, Scale
from evidentia.kernels.metropolis import whitened
from evidentia.kernels.region import ConstrainedKernel, Points, Region

MOST_EXPANSIONS, MOST_SHRINKS = 8, 30
SLICED = lines.build_kernel(lines.stepping_out, MOST_EXPANSIONS, MOST_SHRINKS)


@dataclass(frozen=True)
class Slice(Kernel):
    """`num_steps` slices, each along a random direction in whitened coordinates.

    On the line through a position q, an interval of the given `width` is widened until its ends
    leave the slice {q': p(q') > u p(q)}, u ~ Uniform(0, 1), and a point of it is drawn, with
    shrinkage. There is nothing to tune, and a slice reaches across skewed and heavy tails; it
    takes about six likelihoods, where a step of `RandomWalk` takes one. Positions decorrelate in
    about d slices.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Neal (2003), Annals of Statistics 31, 705, sections 4 and 5; the kernel is BlackJAX's.
    """

    width: float = 2.0
    num_steps: int = 10

    def __post_init__(self) -> None:
        check_positive("width", self.width)
        check_count("num_steps", self.num_steps, 1)

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after `num_steps` slices."""
        along = lines.direction_proposal()

        def step(key, state, log_density):
            return SLICED(key, state, log_density, along, self.width)

        return Moved(whitened(self.num_steps, key, positions, density.log_density, scale, lines.init, step))


@dataclass(frozen=True)
class ConstrainedSlice(ConstrainedKernel):
    """`num_steps` slices of the prior inside a likelihood contour, each along a random line.

    As `Slice`, of the density p(θ) where log L > log L*, along directions shaped by the covariance
    of the live points. It needs no gradients, and its intervals find the contour by themselves.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Neal (2003), Annals of Statistics 31, 705; Handley, Hobson, Lasenby (2015), Monthly
    Notices of the Royal Astronomical Society 453, 4384 (slices in nested sampling).
    """

    width: float = 2.0
    num_steps: int = 10

    target_acceptance: ClassVar[float] = 1.0  # the step size stays the same
    target_free: ClassVar[float] = 1.0
    largest_step: ClassVar[float] = 1.0
    needs_density: ClassVar[bool] = True
    is_adaptive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("width", self.width)
        check_count("num_steps", self.num_steps, 1)

    def move(
        self, key: Array, points: Points, region: Region, factor: Float[Array, "parameters parameters"]
    ) -> tuple[Points, Float[Array, " points"], Float[Array, " points"]]:
        """Points after the slices, and the share of them that found another point, twice."""
        log_density = region.log_density
        assert log_density is not None  # it must be known, not only its gradient
        key_steps, key_labels = jax.random.split(key)

        def density_of(label):
            def inside(position):
                log_likelihoods = region.log_likelihood(position[None])
                is_inside = region.holds(log_likelihoods, label[None])[0]
                return jnp.where(is_inside, log_density(position[None])[0], -jnp.inf)

            return inside

        def along(key, position, density):
            direction = factor @ jnp.asarray(lines.sample_direction(key, position))

            def at(t):
                there = position + t * direction
                return lines.SliceState(there, density(there)), True

            return at

        def one(key, position, label):
            density = density_of(label)

            def step(index, carry):
                state, taken = carry
                state, info = SLICED(jax.random.fold_in(key, index), state, density, along, self.width)
                return state, taken + info.is_accepted

            start = lines.init(position, density), jnp.zeros(())
            state, taken = jax.lax.fori_loop(0, self.num_steps, step, start)
            return state.position, taken / self.num_steps

        keys = jax.random.split(key_steps, len(points.labels))
        positions, taken = jax.vmap(one)(keys, points.positions, points.labels)
        log_likelihoods = region.log_likelihood(positions)
        labels = region.relabel(key_labels, log_likelihoods)
        return Points(positions, log_likelihoods, labels), taken, taken
