"""A prior inside a likelihood contour, and the protocol of nested sampling moves.

The region is {θ : log L(θ) > log L*}, with the density of the prior inside. Where a likelihood has
plateaus, or 32-bit sums coincide, points at the contour are ordered by labels u ~ Uniform(0, 1): a
point is inside if (log L, u) is larger than (log L*, u*). So ties never stop a sampler, and the
prior mass inside is known.

Source: Skilling (2006), Bayesian Analysis 1, 833, section 3 (labels against ties).
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from evidentia.errors import ConfigurationError

Positions = Float[Array, "points parameters"]
Values = Float[Array, " points"]


class Points(NamedTuple):
    """Points with their log-likelihoods in nats, and labels that break ties."""

    positions: Positions
    log_likelihoods: Values
    labels: Values


class Region(NamedTuple):
    """A contour and the density to sample inside it; the functions take many points at once.

    Attributes:
        threshold, label: log L* and u*.
        log_likelihood, likelihood_gradient: log L and its gradient.
        log_density: the log density to sample inside, if it is known.
        slope: `(key, positions) -> values, gradients`: the same (None if unknown), and an estimate
            of its gradient.
        draw: `(key, count) -> positions`: draws from the density without the contour, if possible.
        live: live points inside, whose differences show the shape of the region; from 16 points
            on those of the half that is not moved.
    """

    threshold: Float[Array, ""] | float
    label: Float[Array, ""] | float
    log_likelihood: Callable[[Positions], Values]
    likelihood_gradient: Callable[[Positions], Positions]
    log_density: Callable[[Positions], Values] | None
    slope: Callable[[Array, Positions], tuple[Values | None, Positions]]
    draw: Callable[[Array, int], Positions] | None = None
    live: Positions | None = None

    def holds(self, log_likelihoods: Values, labels: Values) -> Bool[Array, " points"]:
        """Which points are inside; those with a NaN log-likelihood are not."""
        at_contour = (log_likelihoods == self.threshold) & (labels > self.label)
        return (log_likelihoods > self.threshold) | at_contour

    def relabel(self, key: Array, log_likelihoods: Values) -> Values:
        """New labels for points inside: uniform; above the contour's label for points on it."""
        lowest = jnp.where(log_likelihoods == self.threshold, self.label, 0.0)
        return lowest + (1 - lowest) * jax.random.uniform(key, log_likelihoods.shape)


@runtime_checkable
class ConstrainedKernel(Protocol):
    """A move of points inside a region.

    Attributes:
        target_acceptance: the acceptance rate at which the step size stays the same.
        target_free: the same for the share of steps without a reflection.
        largest_step: the largest step size, in units of the points' spread.
        needs_density: whether the log density must be known, not only estimates of its gradient.
        is_adaptive: whether the step size adapts to the region.
        differentiates: whether it takes derivatives of the likelihood.
    """

    target_acceptance: ClassVar[float]
    target_free: ClassVar[float]
    largest_step: ClassVar[float]
    needs_density: ClassVar[bool]
    differentiates: ClassVar[bool] = False

    @property
    def is_adaptive(self) -> bool:
        """Whether the step size adapts to the region."""
        ...

    def move(
        self, key: Array, points: Points, region: Region, factor: Float[Array, "parameters parameters"]
    ) -> tuple[Points, Values, Values]:
        """The moved points, their acceptance rates, and the shares of steps without a reflection.

        `factor` times a standard normal vector is the length of one step.
        """
        ...


def check_constrained_kernel(field: str, kernel: Any) -> None:
    """Raise ConfigurationError unless `kernel` moves points inside a region."""
    if isinstance(kernel, type) or not hasattr(kernel, "target_free") or not hasattr(kernel, "move"):
        raise ConfigurationError(
            f"{field} must be a move inside a likelihood contour, such as kernels.ReflectingSGHMC(), "
            f"kernels.ConstrainedWalk() or kernels.Rejection(); got {kernel!r}."
        )
