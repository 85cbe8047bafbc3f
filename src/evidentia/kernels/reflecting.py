"""Hamiltonian dynamics inside a likelihood contour, with reflection at the contour."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from evidentia.errors import ConfigurationError, as_number, check_count
from evidentia.kernels.region import ConstrainedKernel, Points, Positions, Region


@dataclass(frozen=True)
class ReflectingSGHMC(ConstrainedKernel):
    """SGHMC on the prior that reflects off the likelihood contour.

    It starts from v ~ N(0, η) and repeats `num_steps` times, with η the `learning_rate` and α the
    friction,

        v ← v - α v + η ∇ log p(θ) + N(0, 2 α η)
        θ' = θ + v;                                 if inside the contour: θ ← θ'
        v' = v - 2 (v·n) n,  θ'' = θ' + v';         else if inside: θ ← θ'', v ← v'
                                                    else v ← -v, as before the kick

    n is the unit gradient of the log-likelihood at θ', outside the contour. The path from θ'' with
    -v' is the same in reverse, so the prior inside the contour is invariant; reflection at the
    last point inside would not leave it invariant.

    By default there is no `learning_rate`: steps are taken in coordinates where the live points
    have unit covariance, with a step size that adapts to the shares of rejected and reflected
    steps. The kick is split into two halves around the drift and the noise is N(0, 1 - (1 - α)²),
    so that a Metropolis correction makes each step exact where the log density is known (as for a
    prior).

    Raises:
        ConfigurationError: a field is out of range.

    Source: Skilling (2012), AIP Conference Proceedings 1443, 145 (reflection from the outside
    point); Cameron (2020), MSc thesis, Stellenbosch (SGHMC on the prior); Horowitz (1991), Physics
    Letters B 268, 247 (the corrected steps).
    """

    num_steps: int = 20
    friction: float = 0.1
    learning_rate: float | None = None

    target_acceptance: ClassVar[float] = 0.8
    target_free: ClassVar[float] = 0.3
    largest_step: ClassVar[float] = 0.7
    needs_density: ClassVar[bool] = False
    differentiates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("num_steps", self.num_steps, 1)
        if not 0 < as_number(self.friction) <= 1:
            raise ConfigurationError(f"friction must lie in (0, 1]; got {self.friction}.")
        if self.learning_rate is not None and not 0 < as_number(self.learning_rate) < math.inf:
            raise ConfigurationError(
                f"learning_rate must be positive, or None for steps adapted to the live points; got {self.learning_rate}."
            )

    @property
    def is_adaptive(self) -> bool:
        """Whether the step size adapts to the region, as it does without a `learning_rate`."""
        return self.learning_rate is None

    def move(
        self, key: Array, points: Points, region: Region, factor: Float[Array, "parameters parameters"]
    ) -> tuple[Points, Float[Array, " points"], Float[Array, " points"]]:
        """Points after `num_steps` steps, their acceptance rates, and shares without reflection.

        At a contour much smaller than a step, reflections lead back to the starting point. With a
        `learning_rate`, `factor` is not used.
        """
        first, last, noise = 0.5, 0.5, (1 - (1 - self.friction) ** 2) ** 0.5
        if self.learning_rate is not None:
            factor = self.learning_rate**0.5 * jnp.eye(points.positions.shape[1])
            first, last, noise = 1.0, 0.0, (2 * self.friction) ** 0.5

        def density(key, positions):
            values, gradients = region.slope(key, positions)
            return values, gradients @ factor

        # Without the log density, or with the published steps, every step inside is accepted.
        key_velocities, key_density, key_steps, key_labels = jax.random.split(key, 4)
        value, force = density(key_density, points.positions)
        is_corrected = self.learning_rate is None and value is not None

        def step(index, carry):
            here, velocities, value, force, taken, free = carry
            key_noise, key_density, key_accept = jax.random.split(jax.random.fold_in(key_steps, index), 3)
            velocities = (1 - self.friction) * velocities
            velocities = velocities + noise * jax.random.normal(key_noise, velocities.shape)
            there, turned, is_free, inside = _drift(region, here, velocities + first * force, factor)
            value_there, force_there = density(key_density, there.positions)
            arrived = turned + last * force_there
            accept = inside & jnp.isfinite(force_there).all(1)
            if is_corrected:
                log_ratio = value_there - value + 0.5 * jnp.sum(velocities**2 - arrived**2, axis=1)
                accept &= jnp.log(jax.random.uniform(key_accept, value.shape)) < log_ratio
            state = (there, arrived, value_there, force_there), (here, -velocities, value, force)
            return *_select(accept, *state), taken + accept, free + (accept & is_free)

        velocities = jax.random.normal(key_velocities, points.positions.shape)
        none = jnp.zeros(len(points.labels))
        carry = points, velocities, value, force, none, none
        moved, _, _, _, taken, free = jax.lax.fori_loop(0, self.num_steps, step, carry)
        labels = region.relabel(key_labels, moved.log_likelihoods)
        return moved._replace(labels=labels), taken / self.num_steps, free / self.num_steps


def _drift(region: Region, here: Points, velocities: Positions, factor):
    """Points and velocities after a drift; which points met no contour, and which end inside."""

    def drift(positions, velocities) -> Points:
        there = positions + velocities @ factor.T
        return Points(there, region.log_likelihood(there), here.labels)

    there = drift(here.positions, velocities)
    inside = region.holds(there.log_likelihoods, there.labels)

    def reflect():
        normal = region.likelihood_gradient(there.positions) @ factor
        normal /= jnp.maximum(jnp.linalg.norm(normal, axis=1, keepdims=True), jnp.finfo(normal.dtype).tiny)
        turned = velocities - 2 * jnp.sum(velocities * normal, axis=1, keepdims=True) * normal
        return _select(inside, (there, velocities), (drift(there.positions, turned), turned))

    # For a single point, the gradient is computed only when needed.
    there, velocities = jax.lax.cond(jnp.all(inside), lambda: (there, velocities), reflect)
    return there, velocities, inside, region.holds(there.log_likelihoods, there.labels)


def _select(condition: Bool[Array, " points"], chosen, other):
    def select(a, b):
        return jnp.where(condition.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(select, chosen, other)
