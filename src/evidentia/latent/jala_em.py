"""JALA-EM: expectation maximisation by weighted Langevin steps, with the log evidence of every θ
on the way.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, check_target_ess
from evidentia.evidence.path.langevin import StepTaken, even_log_weights, reweigh
from evidentia.kernels.langevin import LangevinState, langevin_step, log_weight_increment
from evidentia.latent.method import ParticleMethod
from evidentia.latent.problem import Positions, Problem


class JALAEMState(NamedTuple):
    """θ, the particles' places, weights and gradients with respect to θ there, and the size of
    their next step.
    """

    theta: Any
    optimizer_state: Any
    at: LangevinState
    by_theta: Any
    log_weights: Float[Array, " particles"]
    step_size: Float[Array, ""]


@dataclass(frozen=True, eq=False, kw_only=True)
class JALAEM(ParticleMethod):
    """Jarzynski-adjusted Langevin, expectation maximisation.

    With potentials U_θ(x) = -log p_θ(x, data), weights W of the particles x, and any optimiser,

        θ_{k+1} = θ_k + step along Σ Wᵢ ∇_θ log p_θ(xᵢ, data),
        x_{k+1} = x_k - h ∇U_{θ_k}(x_k) + √(2h) ξ,
        A_{k+1} = A_k + ΔA     (`kernels.langevin`),

    and resampling below an ESS threshold. Weighted means are right on average under the posterior
    of each θ_k whatever h is, and so is the estimate of Z(θ_k) / Z(θ₀). The weights need all data
    in every step, and degenerate where θ moves fast or there are many latent variables: then take
    smaller steps, or `PGD`, which has no evidence.

    Attributes:
        ess_threshold: effective sample size, as a fraction of the particles, below which they are
            resampled.
        target_ess: that which one step is to leave of even weights. The step of θ is then cut to
            where the increments, to first order in it, leave as much; the particles' steps begin
            with a tenth of `step_size`, become longer up to it as long as what is left of the
            increments leaves more, and shorter again. None for steps as they are given.

    Raises:
        ConfigurationError: a field that is out of range.

    Example:
        >>> import optax
        >>> method = JALAEM(num_particles=50, step_size=5e-5, optimizer=optax.adam(5e-3))

    Source: Cuin, Carbone, Akyildiz (2025), Algorithm 1, Eq. 14 and 15.
    """

    ess_threshold: float = 0.5
    target_ess: float | None = None

    needs_posterior_start = True

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.ess_threshold <= 1:
            raise ConfigurationError(
                f"ess_threshold is a fraction of the particles from 0 (never) to 1; got {self.ess_threshold}."
            )
        if self.target_ess is not None:
            check_target_ess(self.target_ess)

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> JALAEMState:
        """Equal weights: particles of the posterior given θ₀."""
        at, by_theta = problem.look(theta, positions, key)
        # A first step that is far too long would cost the particles before anything is known of
        # it.
        first = self.step_size if self.target_ess is None else 0.1 * self.step_size
        size = jnp.asarray(first, at.position.dtype)
        return JALAEMState(theta, self.optimizer.init(theta), at, by_theta, even_log_weights(at), size)

    def update(self, problem: Problem, key: Array, state: JALAEMState) -> tuple[JALAEMState, StepTaken]:
        """A step of θ, of the particles and of their weights, at one gradient a particle."""
        key_step, key_resample = jax.random.split(key)
        gradient = problem.mean(state.by_theta, state.log_weights)
        theta, optimizer_state = self.ascend(state.theta, state.optimizer_state, gradient)
        theta, expected = self._cut(state, theta)
        size = state.step_size
        after, by_theta = problem.look(theta, langevin_step(key_step, state.at, size), key_step)
        next_size = self._next_size(state, after, expected)
        at, by_theta, log_weights, taken = reweigh(
            key_resample, state.at, after, state.log_weights, size, self.ess_threshold, by_theta
        )
        return JALAEMState(theta, optimizer_state, at, by_theta, log_weights, next_size), taken

    def _cut(self, state: JALAEMState, theta: Any) -> tuple[Any, Float[Array, " particles"]]:
        """θ at the end of its step, which may be cut, and the increments of the log weights to
        first order in it.
        """
        step = ravel_pytree(theta)[0] - ravel_pytree(state.theta)[0]
        expected = jax.vmap(lambda gradient: ravel_pytree(gradient)[0] @ step)(state.by_theta)
        if self.target_ess is None:
            return theta, expected
        share = jnp.sqrt(jnp.minimum(1.0, self._allowed() / _variance(expected, state.log_weights)))
        cut = jax.tree.map(lambda old, new: old + share * (new - old), state.theta, theta)
        return cut, share * expected

    def _next_size(
        self, state: JALAEMState, after: LangevinState, expected: Float[Array, " particles"]
    ) -> Float[Array, ""]:
        """The size of the particles' next step, from what the step of θ leaves unexplained of the
        increments.
        """
        if self.target_ess is None:
            return state.step_size
        left = log_weight_increment(state.at, after, state.step_size) - expected
        ratio = self._allowed() / _variance(left, state.log_weights)
        # On a Gaussian the variance grows as h³; half a correction at a time, as it is measured
        # with noise.
        change = jnp.clip(jnp.nan_to_num(ratio ** (1 / 6), nan=0.5), 0.5, 1.1)
        return jnp.minimum(self.step_size, change * state.step_size)

    def _allowed(self) -> float:
        """Variance of log weights that leaves the target: 1 / (1 + variance) of the particles,
        where it is small.
        """
        assert self.target_ess is not None
        return 1 / self.target_ess - 1

    def particles(self, state: JALAEMState) -> tuple[Positions, Float[Array, " particles"]]:
        """Flat particles of a state and their normalised log weights."""
        return state.at.position, state.log_weights


def _variance(values: Float[Array, " particles"], log_weights: Float[Array, " particles"]):
    shares = jnp.exp(log_weights)
    values = jnp.where(shares > 0, values, 0.0)  # of particles that are lost nothing is known
    return jnp.maximum(shares @ (values - shares @ values) ** 2, jnp.finfo(values.dtype).tiny)
