"""Rejection from the prior: exact draws inside a likelihood contour."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.kernels.region import Points, Region

BATCH = 256  # draws at a time


@dataclass(frozen=True)
class Rejection:
    """Draws from the prior until they fall inside the likelihood contour.

    What it finds is independent and exact, so it tells how good the other kernels are. With a prior mass X inside, a point
    takes 1/X draws on average: it ends where the data say much more than the prior. After `max_draws` draws for each point
    those not found stay where they were.

    Raises:
        ConfigurationError: a field that is out of range.

    Source: Skilling (2006), Bayesian Analysis 1, 833, section 3.
    """

    max_draws: int = 100_000

    target_acceptance: ClassVar[float] = 0.0
    target_free: ClassVar[float] = 0.0
    largest_step: ClassVar[float] = 1.0
    is_adaptive: ClassVar[bool] = False

    def __post_init__(self):
        if self.max_draws < 1:
            raise ConfigurationError(f"max_draws must be at least 1; got {self.max_draws}.")

    def move(
        self, key: Array, points: Points, region: Region, factor: Float[Array, "parameters parameters"]
    ) -> tuple[Points, Float[Array, " points"], Float[Array, " points"]]:
        """New points in place of those given, and twice, for each, one over the draws that it took; 0 for one not found.

        `factor` is not used. The draws are counted as if shared by all points alike.
        """
        count = len(points.labels)
        draw = region.draw
        assert draw is not None  # a density that can be drawn from
        max_batches = -(-self.max_draws * count // BATCH)

        def search(carry):
            points, found, batches = carry
            key_draw, key_labels = jax.random.split(jax.random.fold_in(key, batches))
            positions = draw(key_draw, BATCH)
            labels = jax.random.uniform(key_labels, (BATCH,))
            candidates = Points(positions, region.log_likelihood(positions), labels)
            inside = region.holds(candidates.log_likelihoods, labels)
            # The first found takes the first place that is free; beyond the last place they are dropped.
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
