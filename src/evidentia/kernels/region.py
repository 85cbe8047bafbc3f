"""A prior inside a likelihood contour: what the moves of nested sampling keep to.

The region is {θ : log L(θ) > log L*}, with the density of the prior inside. Where a likelihood has plateaus, or sums in
32 bits coincide, points at the contour itself are put into an order by labels u ~ Uniform(0, 1): a point is inside if
(log L, u) is larger than (log L*, u*). So ties never stop a sampler, and the prior mass inside is what it is said to be.

Source: Skilling (2006), Bayesian Analysis 1, 833, section 3 (labels against ties).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Positions = Float[Array, "points parameters"]
Values = Float[Array, " points"]


class Points(NamedTuple):
    """Points with their log-likelihoods in nats, and the labels that order equal ones."""

    positions: Positions
    log_likelihoods: Values
    labels: Values


class Region(NamedTuple):
    """What a constrained kernel knows of the density that it keeps, all as functions of many points at once.

    `threshold` and `label` are the contour; `log_likelihood` and `likelihood_gradient` belong to it. `log_density(key,
    positions)` gives the log density to sample inside, or None where that is not known, and an estimate of its gradient.
    `draw(key, count)` draws from the density without the contour, where that is possible.
    """

    threshold: Float[Array, ""] | float
    label: Float[Array, ""] | float
    log_likelihood: Callable[[Positions], Values]
    likelihood_gradient: Callable[[Positions], Positions]
    log_density: Callable[[Array, Positions], tuple[Values | None, Positions]]
    draw: Callable[[Array, int], Positions] | None = None

    def holds(self, log_likelihoods: Values, labels: Values) -> Bool[Array, " points"]:
        """Which points are inside; one whose log-likelihood is NaN is not."""
        at_contour = (log_likelihoods == self.threshold) & (labels > self.label)
        return (log_likelihoods > self.threshold) | at_contour

    def relabel(self, key: Array, log_likelihoods: Values) -> Values:
        """New labels for points inside, from their law: above the contour's own where a point lies on it."""
        lowest = jnp.where(log_likelihoods == self.threshold, self.label, 0.0)
        return lowest + (1 - lowest) * jax.random.uniform(key, log_likelihoods.shape)
