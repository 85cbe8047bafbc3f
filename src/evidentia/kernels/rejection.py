"""Rejection sampling from the prior: exact draws inside a likelihood contour."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import check_count
from evidentia.kernels.region import ConstrainedKernel, Points, Region

BATCH = 256  # draws per iteration


@dataclass(frozen=True)
class Rejection(ConstrainedKernel):
    """Prior draws, repeated until they fall inside the likelihood contour.

    The points are independent and exact: a reference for the other kernels. With prior mass X
    inside, a point takes 1/X draws on average, too many where the data are much more informative
    than the prior. Points that are not replaced within `max_draws` draws each do not move.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Skilling (2006), Bayesian Analysis 1, 833, section 3.
    """

    max_draws: int = 100_000

    target_acceptance: ClassVar[float] = 0.0
    target_free: ClassVar[float] = 0.0
    largest_step: ClassVar[float] = 1.0
    needs_density: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("max_draws", self.max_draws, 1)

    def move(
        self, key: Array, points: Points, region: Region, factor: Float[Array, "parameters parameters"]
    ) -> tuple[Points, Float[Array, " points"], Float[Array, " points"]]:
        """New points, and one over the draws that each took (returned twice; 0 if not replaced).

        `factor` is not used. The draws are counted as if shared equally by all points.
        """
        count = len(points.labels)
        draw = region.draw
        assert draw is not None  # rejection needs draws from the density
        max_batches = -(-self.max_draws * count // BATCH)

        def search(carry):
            points, found, batches = carry
            key_draw, key_labels = jax.random.split(jax.random.fold_in(key, batches))
            positions = draw(key_draw, BATCH)
            labels = jax.random.uniform(key_labels, (BATCH,))
            candidates = Points(positions, region.log_likelihood(positions), labels)
            inside = region.holds(candidates.log_likelihoods, labels)
            # Points found fill the free places in order; surplus points are dropped.
            places = jnp.where(inside, found + jnp.cumsum(inside) - 1, count)
            points = jax.tree.map(lambda a, b: a.at[places].set(b, mode="drop"), points, candidates)
            return points, found + jnp.sum(inside), batches + 1

        def is_searching(carry):
            _, found, batches = carry
            return (found < count) & (batches < max_batches)

        found, batches = jnp.zeros((), int), jnp.zeros((), int)
        points, found, batches = jax.lax.while_loop(is_searching, search, (points, found, batches))
        is_new = jnp.arange(count) < found
        acceptance = jnp.where(is_new, found / (batches * BATCH), 0.0)
        return points, acceptance, acceptance
