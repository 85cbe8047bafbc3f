"""JALA-EM: expectation maximisation by weighted Langevin steps, with the log evidence of θ."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from evidentia.errors import ConfigurationError, as_number, check_target_ess
from evidentia.evidence.weighted_langevin import even_log_weights, reweigh
from evidentia.kernels.langevin import LangevinState, langevin_step, log_weight_increment
from evidentia.latent.families import Gain, gain
from evidentia.latent.method import ParticleMethod
from evidentia.latent.problem import Positions, Problem


class JALAEMState(NamedTuple):
    """θ, the particles with weights, gradients and initial ancestors, and their next step size."""

    theta: Any
    optimizer_state: Any
    at: LangevinState
    by_theta: Any
    log_weights: Float[Array, " particles"]
    families: Int[Array, " particles"]
    step_size: Float[Array, ""]


@dataclass(frozen=True, eq=False, kw_only=True)
class JALAEM(ParticleMethod):
    """Expectation maximisation by the Jarzynski-adjusted Langevin algorithm.

    With potentials U_θ(x) = -log p_θ(x, data), weights W of the particles x, and any optimiser,

        θ_{k+1} = θ_k + step along Σ Wᵢ ∇_θ log p_θ(xᵢ, data),
        x_{k+1} = x_k - h ∇U_{θ_k}(x_k) + √(2h) ξ,
        A_{k+1} = A_k + ΔA     (`kernels.langevin`),

    with resampling below an ESS threshold. For every h, weighted means are correct on average
    under the posterior given each θ_k, and so is the estimate of Z(θ_k) / Z(θ₀). The weights need
    all data in every step, and degenerate if θ moves fast or there are many latent variables; then
    take smaller steps, or `PGD`, which gives no evidence.

    Attributes:
        ess_threshold: effective sample size, as a fraction of the particles, below which they are
            resampled.
        target_ess: effective sample size that one step should leave of equal weights. The step of
            θ is shortened until its increments, to first order, meet this target. The particles'
            step size starts at a tenth of `step_size`; it grows, up to `step_size`, while the
            remaining increments meet the target, and shrinks otherwise. None for fixed steps.
        metropolis: accept or reject the particles' steps under the new θ, as MALA does, at two
            gradients per particle. Then A gains log p_{θ_{k+1}}(x_k, data) - log p_{θ_k}(x_k,
            data) alone, as in annealed importance sampling, so that long steps of the particles
            cost no effective sample size.

    Raises:
        ConfigurationError: a field is out of range.

    Example:
        >>> import optax
        >>> method = JALAEM(num_particles=50, step_size=5e-5, optimizer=optax.adam(5e-3))

    Source: Cuin, Carbone, Akyildiz (2025), Algorithm 1, Eq. 14 and 15; `metropolis`: its outlook,
    and Neal (2001), Statistics and Computing 11, 125.
    """

    ess_threshold: float = 0.5
    target_ess: float | None = None
    metropolis: bool = False

    has_weights = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= as_number(self.ess_threshold) <= 1:
            raise ConfigurationError(
                f"ess_threshold is a fraction of the particles from 0 (never) to 1; got {self.ess_threshold}."
            )
        if self.target_ess is not None:
            check_target_ess(self.target_ess)

    def init(self, problem: Problem, key: Array, theta: Any, positions: Positions) -> JALAEMState:
        """Equal weights, for particles from the posterior given θ₀."""
        at, by_theta = problem.look(theta, positions, key)
        # A first step that is far too long would lose the particles before it can be adapted.
        first = self.step_size if self.target_ess is None else 0.1 * self.step_size
        size = jnp.asarray(first, at.position.dtype)
        families = jnp.arange(len(positions))
        return JALAEMState(
            theta, self.transformation.init(theta), at, by_theta, even_log_weights(at), families, size
        )

    def update(self, problem: Problem, key: Array, state: JALAEMState) -> tuple[JALAEMState, Gain]:
        """A step of θ, of the particles and of their weights."""
        key_step, key_resample = jax.random.split(key)
        gradient = problem.mean(state.by_theta, state.log_weights)
        theta, optimizer_state = self.ascend(state.theta, state.optimizer_state, gradient)
        theta, expected = self._cut(state, theta)
        after, by_theta, gained = self._moved(problem, key_step, theta, state)
        next_size = self._next_size(state, gained - expected)
        beside = by_theta, state.families
        at, (by_theta, families), log_weights, taken = reweigh(
            key_resample, gained, after, state.log_weights, self.ess_threshold, beside
        )
        following = JALAEMState(theta, optimizer_state, at, by_theta, log_weights, families, next_size)
        return following, gain(taken, log_weights, families)

    def _moved(
        self, problem: Problem, key: Array, theta: Any, state: JALAEMState
    ) -> tuple[LangevinState, Any, Float[Array, " particles"]]:
        """The particles under the new θ, their gradients by θ, and what their log weights gain."""
        if not self.metropolis:
            after, by_theta = problem.look(theta, langevin_step(key, state.at, state.step_size), key)
            return after, by_theta, log_weight_increment(state.at, after, state.step_size)
        key_step, key_accept = jax.random.split(key)
        stay = problem.look(theta, state.at.position, key)
        go = problem.look(theta, langevin_step(key_step, stay[0], state.step_size), key)
        # Under one density, the increment is the log of the Metropolis-Hastings ratio.
        ratio = log_weight_increment(stay[0], go[0], state.step_size)
        accepted = jnp.log(jax.random.uniform(key_accept, ratio.shape)) < ratio
        after, by_theta = jax.tree.map(
            lambda new, old: jnp.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old), go, stay
        )
        return after, by_theta, stay[0].log_density - state.at.log_density

    def _cut(self, state: JALAEMState, theta: Any) -> tuple[Any, Float[Array, " particles"]]:
        """θ after its step, perhaps shortened, and the log weights' increments to first order."""
        step = ravel_pytree(theta)[0] - ravel_pytree(state.theta)[0]
        expected = jax.vmap(lambda gradient: ravel_pytree(gradient)[0] @ step)(state.by_theta)
        if self.target_ess is None:
            return theta, expected
        share = jnp.sqrt(jnp.minimum(1.0, self._allowed() / _variance(expected, state.log_weights)))
        cut = jax.tree.map(lambda old, new: old + share * (new - old), state.theta, theta)
        return cut, share * expected

    def _next_size(self, state: JALAEMState, left: Float[Array, " particles"]) -> Float[Array, ""]:
        """The particles' next step size, from increments not explained by the step of θ."""
        if self.target_ess is None:
            return state.step_size
        ratio = self._allowed() / _variance(left, state.log_weights)
        # On a Gaussian the variance grows as h³. Correct by half, as the measurement is noisy.
        change = jnp.clip(jnp.nan_to_num(ratio ** (1 / 6), nan=0.5), 0.5, 1.1)
        return jnp.minimum(self.step_size, change * state.step_size)

    def _allowed(self) -> float:
        """The variance of log weights that meets the target, where ESS = 1 / (1 + variance)."""
        assert self.target_ess is not None
        return 1 / self.target_ess - 1

    def stable_curvature(self, state: JALAEMState) -> float:
        """The largest curvature in x at which the next step does not diverge, 2 / h.

        Infinite if steps that go too far are rejected.
        """
        return math.inf if self.metropolis else 2 / float(state.step_size)

    def particles(self, state: JALAEMState) -> tuple[Positions, Float[Array, " particles"]]:
        """Flat particles of a state and their normalised log weights."""
        return state.at.position, state.log_weights


def _variance(values: Float[Array, " particles"], log_weights: Float[Array, " particles"]):
    shares = jnp.exp(log_weights)
    values = jnp.where(shares > 0, values, 0.0)  # unknown for lost particles
    return jnp.maximum(shares @ (values - shares @ values) ** 2, jnp.finfo(values.dtype).tiny)
