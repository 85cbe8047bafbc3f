"""Initial particles: from the prior, or from the posterior given θ₀ with its log evidence."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from scipy.optimize import minimize

from evidentia import weights
from evidentia.errors import EstimationError
from evidentia.latent.model import LatentModel
from evidentia.latent.problem import Positions, Problem
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, log_student_t

NUM_DRAWS = 5000  # of importance sampling
MIN_ESS = 50.0  # effective draws needed for a useful log evidence and useful particles


class Start(NamedTuple):
    """Flat particles, one with its structure, and log Z(θ₀) in nats, NaN if unknown."""

    positions: Positions
    example: Any
    log_evidence: float = float("nan")


def from_prior(model: LatentModel, theta: Any, data: Any, count: int, key: Array) -> Start:
    """Independent draws of the latent variables given θ."""
    assert model.sample_prior is not None
    draws = [model.sample_prior(one, theta, data) for one in jax.random.split(key, count)]
    return Start(jnp.stack([ravel_pytree(x)[0] for x in draws]), draws[0])


def from_laplace(model: LatentModel, theta: Any, data: Any, count: int, key: Array) -> Start:
    """Posterior draws given θ, with the log evidence, by importance sampling about the mode.

    The proposal is a Student t with the curvature at the mode, with `NUM_DRAWS` draws.

    Raises EstimationError if no mode is found, or if the effective sample size is too small.
    """
    key_prior, key_draws, key_resample = jax.random.split(key, 3)
    start = from_prior(model, theta, data, 1, key_prior)
    problem = Problem(model, start.example, data)

    def depth(position):
        value, gradient = _uphill(problem, theta, jnp.asarray(position, jnp.float32))
        is_finite = np.isfinite(value) and np.isfinite(gradient).all()
        down = -np.asarray(gradient, np.float64)
        return (-float(value), down) if is_finite else (1e300, np.zeros_like(down))

    mode = minimize(depth, np.asarray(start.positions[0], np.float64), jac=True, method="L-BFGS-B").x
    precision = -np.asarray(_hessian(problem, theta, jnp.asarray(mode, jnp.float32)), np.float64)
    advice = "Give particles0, draws of the posterior given theta0, and log_evidence0 if known."
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0:
        raise EstimationError(
            f"no mode of the latent variables given theta0 was found: where the search ended, the log joint density is not "
            f"strictly concave. {advice}"
        )
    gaussian = LocalGaussian(mode, precision, 0.0)
    draws = draw_student_t(
        np.random.default_rng(np.asarray(jax.random.key_data(key_draws))), gaussian, NUM_DRAWS
    )
    values = _values(problem, theta, jnp.asarray(draws, jnp.float32))
    log_weights = np.nan_to_num(np.asarray(values, np.float64), nan=-np.inf) - log_student_t(gaussian, draws)
    if weights.ess(log_weights) < MIN_ESS:
        raise EstimationError(
            f"importance sampling about the mode of the latent variables given theta0 has an effective sample size of {weights.ess(log_weights):.0f} "
            f"of {NUM_DRAWS} draws, which is too few. {advice}"
        )
    parents = np.asarray(weights.resample(key_resample, log_weights, count))
    positions = jnp.asarray(draws[parents], jnp.float32)
    return Start(positions, start.example, weights.log_mean(log_weights))


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
    return jax.vmap(_log_joint(problem, theta))(positions)
