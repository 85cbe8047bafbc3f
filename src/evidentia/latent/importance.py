"""Importance sampling of the latent variables about their mode given θ, and its log evidence."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray
from scipy.optimize import minimize

from evidentia import weights
from evidentia.latent.problem import Problem
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, log_student_t

NUM_DRAWS = 5000
MIN_EFFECTIVE = 50.0  # draws needed for a useful log evidence and useful particles
AT_ONCE = 250  # draws, so that memory does not grow with their number


class Sample(NamedTuple):
    """Draws about the mode and their importance weights, not normalised."""

    draws: Float[ndarray, "draws parameters"]
    log_weights: Float[ndarray, " draws"]

    def log_evidence(self) -> tuple[float, float]:
        """Log Z(θ) in nats, and its variance."""
        return weights.log_mean(self.log_weights), weights.relative_variance(self.log_weights)


def about_the_mode(
    problem: Problem, theta: Any, near: Float[Array, " parameters"], key: Array
) -> Sample | None:
    """`NUM_DRAWS` draws from a Student t with the curvature at the mode that a search finds.

    None if the log joint density is not strictly concave where the search from `near` ends.
    """

    def depth(position):
        value, gradient = _uphill(problem, theta, jnp.asarray(position, jnp.float32))
        is_finite = np.isfinite(value) and np.isfinite(gradient).all()
        down = -np.asarray(gradient, np.float64)
        return (-float(value), down) if is_finite else (1e300, np.zeros_like(down))

    mode = minimize(depth, np.asarray(near, np.float64), jac=True, method="L-BFGS-B").x
    precision = -np.asarray(_hessian(problem, theta, jnp.asarray(mode, jnp.float32)), np.float64)
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0:
        return None
    gaussian = LocalGaussian(mode, precision, 0.0)
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    # Rounded, so that both densities are those of the same positions.
    draws = draw_student_t(generator, gaussian, NUM_DRAWS).astype(np.float32).astype(np.float64)
    values = np.asarray(_values(problem, theta, jnp.asarray(draws, jnp.float32)), np.float64)
    log_densities = np.where(np.isfinite(values), values, -np.inf)
    return Sample(draws, log_densities - log_student_t(gaussian, draws))


def _log_joint(problem: Problem, theta):
    return partial(problem.log_joint, theta, key=jax.random.key(0))  # only mini-batches use the key


@jax.jit
def _uphill(problem: Problem, theta, position):
    return jax.value_and_grad(_log_joint(problem, theta))(position)


@jax.jit
def _hessian(problem: Problem, theta, position):
    return jax.hessian(_log_joint(problem, theta))(position)


@jax.jit
def _values(problem: Problem, theta, positions):
    return jax.lax.map(_log_joint(problem, theta), positions, batch_size=AT_ONCE)
