"""Laplace's approximation of a posterior: its mode, the precision there, and draws from a Student t of that shape.

Gradient and Hessian are computed in float64, inside a context that leaves JAX's own setting alone: a direction that only
the prior holds has a precision of one beside 10⁹ for others at 10⁶ rows, which a float32 Hessian drowns in rounding.
One gradient costs three evaluations of the likelihood, the Hessian about three for each parameter.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.gradients import expand, gradient_sum, prior_gradient, prior_hessian
from evidentia.model import BoundModel
from evidentia.rows import Rows

MAX_STEPS = 50  # of Newton's method
TOLERANCE = 0.01  # squared distance to the mode at which it stops, in posterior standard deviations


class Laplace(NamedTuple):
    """Mode and precision (the negative Hessian of the log-posterior at the mode), float64 on the host."""

    mode: Float[np.ndarray, " parameters"]
    precision: Float[np.ndarray, "parameters parameters"]


def laplace_approximation(
    model: BoundModel,
    rows: Rows,
    start: Float[np.ndarray, " parameters"],
    precision: Float[np.ndarray, "parameters parameters"] | None = None,
) -> Laplace | None:
    """The mode near `start`, by Newton's method; None if it is not found or the curvature there is not definite.

    A `precision` that is about right (that of fewer rows, scaled) saves Hessians: it is used for as long as each step
    leaves a quarter of the way at most, else the Hessian is computed at the position reached. Where that is not definite
    its eigenvalues count with their absolute values, so that a step leads uphill away from a saddle, and not too far
    (Dauphin et al. 2014, Advances in Neural Information Processing Systems 27, Algorithm 1).
    """
    position, previous, is_current = np.asarray(start, np.float64), np.inf, False
    metric = precision
    for _ in range(MAX_STEPS):
        gradient = log_posterior_gradient(model, rows, position)
        if metric is None or not _squared_length(gradient, metric) < previous / 4:
            precision, is_current = posterior_precision(model, rows, position), True
            if not np.isfinite(precision).all():
                return None
            metric = _absolute(precision)
        distance = _squared_length(gradient, metric)
        if not np.isfinite(distance):
            return None
        if distance < TOLERANCE:
            if precision is None or not is_current:
                precision = posterior_precision(model, rows, position)
            return Laplace(position, precision) if _is_definite(precision) else None
        step = np.linalg.solve(metric, gradient)
        if is_current and precision is not None and not _is_definite(precision):
            step *= min(1.0, np.sqrt(len(position) / distance))
        position, previous, is_current = position + step, distance, False
    return None


def log_posterior_gradient(
    model: BoundModel, rows: Rows, position: Float[np.ndarray, " parameters"]
) -> Float[np.ndarray, " parameters"]:
    """Gradient of the log prior and the log-likelihood of all rows, in float64."""
    with jax.enable_x64(True):
        positions = jnp.asarray(position, jnp.float64)[None]
        return np.asarray(_gradients(model, positions, rows)[0])


def posterior_precision(
    model: BoundModel, rows: Rows, position: Float[np.ndarray, " parameters"]
) -> Float[np.ndarray, "parameters parameters"]:
    """The negative Hessian of the log-posterior of all rows, in float64."""
    with jax.enable_x64(True):
        centre = jnp.asarray(position, jnp.float64)
        return -np.asarray(expand(model, centre, rows).hessian + prior_hessian(model, centre))


def draw_student_t(key: Array, laplace: Laplace, count: int) -> Float[Array, "draws parameters"]:
    """Draws from the multivariate Student t with the mode as its centre and the inverse precision as its scale, float32.

    Its tails are heavier than a Gaussian's, so that importance weights stay bounded on posteriors with heavier ones, and
    lighter the more parameters there are, where heavy tails would put most draws too far out.
    """
    size = len(laplace.mode)
    key_normal, key_stretch = jax.random.split(key)
    normal = np.asarray(jax.random.normal(key_normal, (count, size)), np.float64)
    freedom = degrees_of_freedom(size)
    stretch = np.sqrt(np.asarray(jax.random.chisquare(key_stretch, freedom, (count,)), np.float64) / freedom)
    # precision = R Rᵀ, so R⁻ᵀ z has the inverse precision as its covariance.
    steps = np.linalg.solve(np.linalg.cholesky(laplace.precision).T, normal.T).T
    return jnp.asarray(laplace.mode + steps / stretch[:, None], jnp.float32)


def log_student_t(
    laplace: Laplace, positions: Float[Array, "draws parameters"]
) -> Float[np.ndarray, " draws"]:
    """Log density of `draw_student_t` at positions, in float64."""
    size = len(laplace.mode)
    freedom, root = degrees_of_freedom(size), np.linalg.cholesky(laplace.precision)
    distance = np.sum(((np.asarray(positions, np.float64) - laplace.mode) @ root) ** 2, axis=1)
    constant = (
        math.lgamma((freedom + size) / 2) - math.lgamma(freedom / 2) - 0.5 * size * math.log(freedom * np.pi)
    )
    return constant + np.log(np.diag(root)).sum() - 0.5 * (freedom + size) * np.log1p(distance / freedom)


def degrees_of_freedom(num_parameters: int) -> int:
    """Of the Student t. On a Gaussian posterior draws are worth 0.99 of their number at 1, 0.95 at 44 parameters."""
    return 10 + 2 * num_parameters


@partial(jax.jit, static_argnames="model")
def _gradients(model, positions, rows):
    return prior_gradient(model, positions) + gradient_sum(model, positions, rows)


def _squared_length(gradient: np.ndarray, metric: np.ndarray) -> float:
    """gᵀ P⁻¹ g: the squared length of Newton's step in posterior standard deviations."""
    return float(gradient @ np.linalg.solve(metric, gradient))


def _is_definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _absolute(matrix: np.ndarray) -> np.ndarray:
    """The matrix with its eigenvalues' absolute values; near zero a millionth of the largest."""
    if _is_definite(matrix):
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.abs(values)
    return (vectors * np.maximum(sizes, 1e-6 * sizes.max())) @ vectors.T
