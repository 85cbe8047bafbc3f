"""Particle gradient descent: θ and the particles of the latent variables move together."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from evidentia.evidence.weighted_langevin import even_log_weights
from evidentia.kernels.langevin import LangevinState, langevin_step
from evidentia.latent.families import Gain, unknown
from evidentia.latent.method import ParticleMethod
from evidentia.latent.problem import Positions, Problem


class PGDState(NamedTuple):
    """θ, and the particles' positions and gradients with respect to θ."""

    theta: Any
    optimizer_state: Any
    at: LangevinState
    by_theta: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class PGD(ParticleMethod):
    """Particle gradient descent: a free energy's gradient flow in θ and the particles' law.

        θ_{k+1} = θ_k + (h/N) Σ ∇_θ log p_θ(xᵢ, data),
        xᵢ ← xᵢ + h ∇_x log p_θ(xᵢ, data) + √(2h) ξᵢ,

    with any optimiser in place of the first line. It gives no evidence, and has a bias in x of
    order h.

    Attributes:
        batch_size: rows of the mini-batch that all particles of a step share; None for all data.

    Source: Kuntz, Lim, Johansen (2023), Proceedings of Machine Learning Research 206, Algorithm 1.
    """

    batch_size: int | None = None

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> PGDState:
        """The state before the first step; pure."""
        return PGDState(theta, self.transformation.init(theta), *problem.look(theta, positions, key))

    def update(self, problem: Problem, key: Array, state: PGDState) -> tuple[PGDState, Gain]:
        """A step of θ and of the particles, at one gradient per particle."""
        key_step, key_theta, key_batch = jax.random.split(key, 3)
        gradient = problem.mean(state.by_theta, even_log_weights(state.at))
        theta, optimizer_state = self.ascend(state.theta, state.optimizer_state, gradient)
        theta = self.inside(self.perturbed(key_theta, theta, len(state.at.log_density)))
        reached = langevin_step(key_step, state.at, self.step_size)
        return PGDState(theta, optimizer_state, *problem.look(theta, reached, key_batch)), unknown()

    def perturbed(self, key: Array, theta: Any, count: int) -> Any:
        """θ unchanged; subclasses add noise."""
        return theta


def with_noise(key: Array, theta: Any, variance: Array | float) -> Any:
    """θ plus Gaussian noise of the given variance in each number."""
    normal = optax.tree_utils.tree_random_like(key, theta)
    return jax.tree.map(lambda leaf, draw: leaf + jnp.sqrt(variance) * draw, theta, normal)
