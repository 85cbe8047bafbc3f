"""JALA-EM: expectation maximisation by weighted Langevin steps, with the log evidence of every θ on the way."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError
from evidentia.evidence.jarzynski_path import StepTaken, even_log_weights, reweigh
from evidentia.kernels.langevin import Place, langevin_step
from evidentia.latent.method import ParticleMethod
from evidentia.latent.problem import Positions, Problem


class JALAEMState(NamedTuple):
    """θ, and the particles' places, weights and gradients with respect to θ there."""

    theta: Any
    optimizer_state: Any
    at: Place
    by_theta: Any
    log_weights: Float[Array, " particles"]


@dataclass(frozen=True, eq=False, kw_only=True)
class JALAEM(ParticleMethod):
    """Jarzynski-adjusted Langevin, expectation maximisation.

    With potentials U_θ(x) = -log p_θ(x, data), weights W of the particles x, and any optimiser,

        θ_{k+1} = θ_k + step along Σ Wᵢ ∇_θ log p_θ(xᵢ, data),
        x_{k+1} = x_k - h ∇U_{θ_k}(x_k) + √(2h) ξ,        A_{k+1} = A_k + ΔA     (`kernels.langevin`),

    and resampling below an ESS threshold. Weighted means are right on average under the posterior of each θ_k whatever h is,
    and so is the estimate of Z(θ_k) / Z(θ₀). The weights need all data in every step, and degenerate where θ moves fast or
    there are many latent variables: then take smaller steps, or `PGD`, which has no evidence.

    Attributes:
        ess_threshold: effective sample size, as a fraction of the particles, below which they are resampled.

    Example:
        >>> import optax
        >>> method = JALAEM(num_particles=50, step_size=5e-5, optimizer=optax.adam(5e-3))

    Source: Cuin, Carbone, Akyildiz (2025), Algorithm 1, Eq. 14 and 15.
    """

    ess_threshold: float = 0.5

    needs_posterior_start = True

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.ess_threshold <= 1:
            raise ConfigurationError(
                f"ess_threshold is a fraction of the particles from 0 (never) to 1; got {self.ess_threshold}."
            )

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> JALAEMState:
        """Equal weights: particles of the posterior given θ₀."""
        at, by_theta = problem.look(theta, positions, key)
        return JALAEMState(theta, self.optimizer.init(theta), at, by_theta, even_log_weights(at))

    def update(self, problem: Problem, key: Array, state: JALAEMState) -> tuple[JALAEMState, StepTaken]:
        """A step of θ, of the particles and of their weights, at one gradient a particle."""
        key_step, key_resample = jax.random.split(key)
        gradient = problem.mean(state.by_theta, state.log_weights)
        theta, optimizer_state = self.ascend(state.theta, state.optimizer_state, gradient)
        reached = langevin_step(key_step, state.at, self.step_size)
        after, by_theta = problem.look(theta, reached, key_step)
        at, by_theta, log_weights, taken = reweigh(
            key_resample, state.at, after, state.log_weights, self.step_size, self.ess_threshold, by_theta
        )
        return JALAEMState(theta, optimizer_state, at, by_theta, log_weights), taken

    def particles(self, state: JALAEMState) -> tuple[Positions, Float[Array, " particles"]]:
        """Flat particles of a state and their normalised log weights."""
        return state.at.position, state.log_weights
