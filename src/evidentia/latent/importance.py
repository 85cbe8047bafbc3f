"""Importance sampling of the latent variables about their mode given θ, and its log evidence.

Searches from several places show whether there are other modes, which the draws miss.
"""

import math
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
NUM_SEARCHES = 8  # for modes
APART = 2.0  # standard deviations between two modes
DIP = 0.5  # nats of the log density between them, at one of
NUM_BETWEEN = 17  # positions
SMALLEST_SHARE = 0.01  # of a mode that matters, relative to the heaviest
AT_ONCE = 250  # draws, so that memory does not grow with their number


class Sample(NamedTuple):
    """Draws about the mode and their importance weights, not normalised.

    `num_modes` counts the modes that the searches found and that weigh more than `SMALLEST_SHARE`;
    the draws are about the heaviest.
    """

    draws: Float[ndarray, "draws parameters"]
    log_weights: Float[ndarray, " draws"]
    num_modes: int = 1

    def log_evidence(self) -> tuple[float, float]:
        """Log Z(θ) in nats, and its variance."""
        return weights.log_mean(self.log_weights), weights.relative_variance(self.log_weights)


def about_the_mode(
    problem: Problem, theta: Any, starts: Float[Array, "starts parameters"], key: Array
) -> Sample | None:
    """`NUM_DRAWS` draws from a Student t with the curvature at the heaviest mode that is found.

    None if the log joint density is strictly concave nowhere where a search from `starts` ends.
    """
    modes = _modes(problem, theta, starts)
    if not modes:
        return None
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    # Rounded, so that both densities are those of the same positions.
    draws = draw_student_t(generator, modes[0], NUM_DRAWS).astype(np.float32).astype(np.float64)
    values = np.asarray(_values(problem, theta, jnp.asarray(draws, jnp.float32)), np.float64)
    log_densities = np.where(np.isfinite(values), values, -np.inf)
    return Sample(draws, log_densities - log_student_t(modes[0], draws), len(modes))


def _modes(problem: Problem, theta: Any, starts: Float[Array, "starts parameters"]) -> list[LocalGaussian]:
    """Gaussians about the modes that matter, by Laplace's approximation, the heaviest first."""
    found: list[LocalGaussian] = []
    for start in starts:
        mode, height = _search(problem, theta, start)
        if any(not _is_apart(problem, theta, other, mode) for other in found):
            continue
        precision = -np.asarray(_hessian(problem, theta, jnp.asarray(mode, jnp.float32)), np.float64)
        if np.isfinite(precision).all() and np.linalg.eigvalsh(precision)[0] > 0:
            log_mass = height - 0.5 * np.linalg.slogdet(precision)[1]
            found.append(LocalGaussian(mode, precision, float(log_mass)))
    found.sort(key=lambda gaussian: -gaussian.log_mass)
    return [one for one in found if one.log_mass > found[0].log_mass + math.log(SMALLEST_SHARE)]


def _search(problem: Problem, theta: Any, start: Float[Array, " parameters"]) -> tuple[ndarray, float]:
    """Where a search from `start` ends, and the log joint density there."""

    def depth(position):
        value, gradient = _uphill(problem, theta, jnp.asarray(position, jnp.float32))
        is_finite = np.isfinite(value) and np.isfinite(gradient).all()
        down = -np.asarray(gradient, np.float64)
        return (-float(value), down) if is_finite else (1e300, np.zeros_like(down))

    found = minimize(depth, np.asarray(start, np.float64), jac=True, method="L-BFGS-B")
    return found.x, -float(found.fun)


def _is_apart(problem: Problem, theta: Any, gaussian: LocalGaussian, position: ndarray) -> bool:
    """Whether a position is far from a mode, with a dip of the log density in between.

    In float32, a search along a long valley ends far from its mode, but without a dip.
    """
    off = position - gaussian.centre
    if off @ gaussian.precision @ off < APART**2:
        return False
    between = gaussian.centre + np.linspace(0, 1, NUM_BETWEEN)[:, None] * off
    values = np.asarray(_values(problem, theta, jnp.asarray(between, jnp.float32)), np.float64)
    return not values.min() > min(values[0], values[-1]) - DIP


def _log_joint(problem: Problem, theta):
    return partial(problem.log_joint, theta, key=jax.random.key(0))  # only mini-batches use the key


@jax.jit
def _uphill(problem: Problem, theta, position):
    return jax.value_and_grad(_log_joint(problem, theta))(position)


@jax.jit
def _hessian(problem: Problem, theta, position):
    # Reverse mode twice, as some functions have no forward mode (`jax.custom_vjp`).
    return jax.jacrev(jax.grad(_log_joint(problem, theta)))(position)


@jax.jit
def _values(problem: Problem, theta, positions):
    return jax.lax.map(_log_joint(problem, theta), positions, batch_size=AT_ONCE)
