"""Particle gradient descent with momentum, in θ and in the latent variables."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from evidentia.errors import ConfigurationError, as_number, check_positive
from evidentia.evidence.weighted_langevin import even_log_weights
from evidentia.kernels.langevin import LangevinState
from evidentia.latent.families import Gain, unknown
from evidentia.latent.method import ParticleMethod
from evidentia.latent.problem import Positions, Problem

LARGEST = 1e100  # step size, whose square is finite


class MomentumState(NamedTuple):
    """θ, and the particles' positions, velocities and gradients with respect to θ."""

    theta: Any
    optimizer_state: Any
    at: LangevinState
    velocities: Positions
    by_theta: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentumPGD(ParticleMethod):
    """Momentum particle gradient descent: underdamped Langevin particles, and θ with momentum.

        v ← e^{-γh} v + h ∇_x log p_θ(x, data) + √(1 - e^{-2γh}) ξ,        x ← x + h v,
        u ← e^{-γh} u + h (1/N) Σ ∇_θ log p_θ(xᵢ, data),                   θ ← θ + h u,

    with h the `step_size` and γ the friction. A step of h moves about as far as a step of h² in
    `PGD`, so choose h of the order of the square root of that. Another optimiser may replace the
    second line.

    Attributes:
        friction: γ.
        batch_size: rows of the mini-batch that all particles of a step share; None for all data.

    Raises:
        ConfigurationError: a field is out of range.

    Source: Lim, Kuntz, Power, Johansen (2024), Proceedings of Machine Learning Research 235 (the
    dynamics; its discretisation is finer).
    """

    step_size: float = 0.1
    friction: float = 1.0
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_positive("friction", self.friction)
        if as_number(self.step_size) > LARGEST:
            raise ConfigurationError(f"step_size must be at most {LARGEST:g}; got {self.step_size!r}.")
        super().__post_init__()

    @property
    def transformation(self) -> Any:
        """The optimizer of θ; by default the second line, with u in units of h."""
        # u ← e^{-γh} u + gradient, θ ← θ + h² u.
        kept = math.exp(-self.friction * self.step_size)
        return self.optimizer or optax.sgd(self.step_size**2, momentum=kept)

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> MomentumState:
        """The state before the first step, with velocities from their stationary law; pure."""
        key_look, key_velocities = jax.random.split(key)
        at, by_theta = problem.look(theta, positions, key_look)
        velocities = jax.random.normal(key_velocities, positions.shape)
        return MomentumState(theta, self.transformation.init(theta), at, velocities, by_theta)

    @property
    def variance_of_short_steps(self) -> float:
        """The variance of the particles over that of the posterior, (1 + e^{-γh}) / 2.

        With γh large a step is one of Langevin dynamics with half of the noise.
        """
        return 0.5 * (1 + math.exp(-self.friction * self.step_size))

    def stable_curvature(self, state: MomentumState) -> float:
        """The largest curvature in x at which steps do not diverge, 2 (1 + e^{-γh}) / h².

        On a Gaussian with curvature L, xᵢ is an autoregression of order two, whose roots are
        inside the unit circle below it.
        """
        return 2 * (1 + math.exp(-self.friction * self.step_size)) / self.step_size**2

    def update(self, problem: Problem, key: Array, state: MomentumState) -> tuple[MomentumState, Gain]:
        """A step of θ and of the particles, at one gradient per particle."""
        key_noise, key_batch = jax.random.split(key)
        gradient = problem.mean(state.by_theta, even_log_weights(state.at))
        theta, optimizer_state = self.ascend(state.theta, state.optimizer_state, gradient)
        kept = jnp.exp(-self.friction * self.step_size)
        noise = jnp.sqrt(1 - kept**2) * jax.random.normal(key_noise, state.velocities.shape)
        velocities = kept * state.velocities + self.step_size * state.at.gradient + noise
        reached = state.at.position + self.step_size * velocities
        at, by_theta = problem.look(theta, reached, key_batch)
        return MomentumState(theta, optimizer_state, at, velocities, by_theta), unknown()
