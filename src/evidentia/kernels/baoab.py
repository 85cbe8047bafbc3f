"""Preconditioned underdamped Langevin dynamics with the BAOAB splitting: the default move."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, as_number, check_count, check_positive
from evidentia.kernels.kernel import Density, GradientKernel, Moved, Positions, Scale, noise_variance

MAX_FORCE = 5.0  # relative to the norm of the whitened force at a typical particle
MAX_STEPS = 8  # largest multiple of the configured number of steps, for rough targets


@dataclass(frozen=True)
class BAOAB(GradientKernel):
    """Langevin dynamics in whitened coordinates q: θ = L q, with L Lᵀ the particles' covariance.

    It starts from velocities v ~ N(0, 1 - h²/4) and repeats `num_steps` times, with h the step
    size, α the friction and f(q) = Lᵀ ∇ log π(L q):

        v ← v + (h/2) f(q)                                  (B, kick)
        q ← q + (h/2) v                                     (A, drift)
        v ← e^{-αh} v + √(1 - e^{-2αh}) ξ,  ξ ~ N(0, 1)     (O, friction and noise)
        q ← q + (h/2) v                                     (A)
        v ← v + (h/2) f(q)                                  (B)

    Each step takes one gradient. For a Gaussian target the positions have the exact covariance at
    any stable step size (h < 2); otherwise the bias is O(h²) times the departure from a Gaussian.

    Two safeguards handle densities far from Gaussian. E|f|²/d is the mean curvature in whitened
    coordinates (Fisher's identity): one for a Gaussian, large where particles sit in several
    narrow modes. Where its median over the particles exceeds one, h is divided by the square root
    of that median (α is multiplied by it), and the number of steps grows by the same factor, up to
    `MAX_STEPS`. A force longer than `MAX_FORCE` times the typical one is clipped, so that a
    particle on a steep wall (a log scale far below its posterior) returns instead of diverging.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Leimkuhler, Matthews (2013), Applied Mathematics Research eXpress 2013(1), Eq. 10.
    """

    step_size: float = 0.5
    friction: float = 1.0
    num_steps: int = 8

    def __post_init__(self) -> None:
        if not 0 < as_number(self.step_size) < 2:
            raise ConfigurationError(f"step_size must lie in (0, 2), the stable range; got {self.step_size}.")
        check_positive("friction", self.friction)
        check_count("num_steps", self.num_steps, 1)

    def move(self, key: Array, positions: Positions, density: Density, scale: Scale) -> Moved:
        """Positions after the steps; particles with a non-finite last gradient stay in place."""

        def force(key, positions):
            return density.gradient(key, positions) @ scale.factor

        def drift(positions, velocities):
            return positions + half * velocities @ scale.factor.T

        def step(index, carry):
            positions, velocities, forces = carry
            key_noise, key_force = jax.random.split(jax.random.fold_in(key_steps, index))
            velocities = velocities + half * cut(forces)
            positions = drift(positions, velocities)
            noise = jax.random.normal(key_noise, velocities.shape)
            velocities = decay * velocities + jnp.sqrt(1 - decay**2) * noise
            positions = drift(positions, velocities)
            forces = force(key_force, positions)
            return positions, velocities + half * cut(forces), forces

        key_velocities, key_force, key_steps = jax.random.split(key, 3)
        # On a unit Gaussian, the stationary velocities between steps have variance 1 - h²/4; any
        # other start widens the positions until friction has damped it.
        velocities = jnp.sqrt(1 - self.step_size**2 / 4) * jax.random.normal(key_velocities, positions.shape)
        forces = force(key_force, positions)
        curvature = jnp.median(jnp.sum(forces**2, axis=1)) / positions.shape[1]
        roughness = jnp.sqrt(jnp.maximum(1.0, jnp.nan_to_num(curvature)))
        half, decay = 0.5 * self.step_size / roughness, jnp.exp(-self.friction * self.step_size)
        longest = MAX_FORCE * roughness * positions.shape[1] ** 0.5

        def cut(forces):
            length = jnp.linalg.norm(forces, axis=1, keepdims=True)
            return forces * jnp.minimum(1.0, longest / jnp.maximum(length, 1e-30))

        num_steps = jnp.ceil(self.num_steps * jnp.minimum(roughness, MAX_STEPS)).astype(int)
        carry = positions, velocities, forces
        moved: Array
        moved, _, forces = jax.lax.fori_loop(0, num_steps, step, carry)
        is_finite = jnp.isfinite(moved + forces).all(1, keepdims=True)
        return Moved(jnp.where(is_finite, moved, positions))

    def noise_share(self, differences: Positions, scale: Scale) -> Float[Array, ""]:
        """The share of gradient noise; half a kick acts on each side of the drift.

        An upper bound where the target is rough, since steps are shorter there.
        """
        added = self.step_size**2 * noise_variance(differences @ scale.factor)
        return added / (1 - jnp.exp(-2 * self.friction * self.step_size))
