"""SOUL: stochastic optimisation by an unadjusted Langevin chain for every step of θ."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from evidentia.kernels.langevin import LangevinState, langevin_step
from evidentia.latent.families import Gain, unknown
from evidentia.latent.method import ParticleMethod
from evidentia.latent.problem import Positions, Problem


class SOULState(NamedTuple):
    """θ, and all positions of the last chain; the next chain starts from the last one."""

    theta: Any
    optimizer_state: Any
    at: LangevinState


@dataclass(frozen=True, eq=False, kw_only=True)
class SOUL(ParticleMethod):
    """Stochastic optimisation via unadjusted Langevin.

    For every step of θ, one chain makes N = `num_particles` steps under the current θ, starting
    where it ended before,

        x ← x + h ∇_x log p_θ(x, data) + √(2h) ξ,
        θ ← θ + (h/N) Σ ∇_θ log p_θ(x, data) over the chain,

    with any optimiser in place of the second line. The chain starts at the first of `particles0`.
    The particles of the result are the last chain, so they are not independent.

    Attributes:
        batch_size: rows of a mini-batch, redrawn for each step of the chain; None for all data.

    Source: De Bortoli, Durmus, Pereyra, Fernandez Vidal (2021), Statistics and Computing 31, 29,
        Algorithm 1.
    """

    batch_size: int | None = None

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> SOULState:
        """The state with the whole chain at the first particle."""
        places = jnp.broadcast_to(positions[0], (self.num_particles, positions.shape[1]))
        return SOULState(theta, self.transformation.init(theta), problem.look(theta, places, key)[0])

    def update(self, problem: Problem, key: Array, state: SOULState) -> tuple[SOULState, Gain]:
        """A chain, then a step of θ along its mean gradient."""

        def look(position, key):
            at, by_theta = problem.look(state.theta, position[None], key)
            return jax.tree.map(lambda leaf: leaf[0], (at, by_theta))

        def step(at, key):
            key_step, key_batch = jax.random.split(key)
            at, by_theta = look(langevin_step(key_step, at, self.step_size), key_batch)
            return at, (at, by_theta)

        key_start, key_chain = jax.random.split(key)
        begin, _ = look(state.at.position[-1], key_start)
        _, (chain, by_theta) = jax.lax.scan(step, begin, jax.random.split(key_chain, self.num_particles))
        gradient = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), by_theta)
        theta, optimizer_state = self.ascend(state.theta, state.optimizer_state, gradient)
        return SOULState(theta, optimizer_state, chain), unknown()
