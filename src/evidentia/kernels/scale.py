"""The scale of the density that a kernel explores: the unit of its step sizes."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

AGREEMENT = 2.0  # factor by which the mean squared distance may differ from a Gaussian's


class Scale(NamedTuple):
    """`factor` is L, with L Lᵀ the covariance of the density; `num_observations` counts rows."""

    factor: Float[Array, "parameters parameters"]
    num_observations: float


def posterior_scale(
    positions: Float[np.ndarray, "particles parameters"],
    weights: Float[np.ndarray, " particles"],
    precision: Float[np.ndarray, "parameters parameters"] | None,
    num_observations: float,
) -> Scale:
    """Scale of a density from its weighted particles and, if known, the curvature at their mean.

    The inverse of `precision`, the negative Hessian of the log density, is a covariance without
    sampling error. That of M particles in d dimensions has whitened variances between
    (1 - √(d/M))² and (1 + √(d/M))², and particles moved by it stay too narrow where it is.
    The curvature is trusted if it is positive definite and the particles' mean squared distance
    under it is that of a Gaussian to within a factor of `AGREEMENT`. Both are factored in float64:
    softmax and other models with directions that only the prior informs have correlations within
    10⁻⁶ of one at 10⁶ rows.
    """
    deviations = positions - weights @ positions
    factor = _particle_factor(deviations, weights)
    if precision is not None and (root := cholesky(precision)) is not None:
        distance = weights @ np.sum((deviations @ root) ** 2, axis=1) / len(precision)
        if 1 / AGREEMENT < distance < AGREEMENT:
            factor = np.linalg.inv(root).T
    # A float, since an integer above 2³¹ cannot be put on the device.
    return Scale(jnp.asarray(factor, jnp.float32), float(num_observations))


def _particle_factor(deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cholesky factor of the weighted covariance; diagonal below four particles per parameter."""
    count, size = deviations.shape
    covariance = (deviations * weights[:, None]).T @ deviations
    spread = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float32).tiny))
    if count < 4 * size:
        return np.diag(spread)
    # The ridge matters only when particles coincide: 1e-9 is far below any true eigenvalue.
    correlation = covariance / np.outer(spread, spread) + 1e-9 * np.eye(size)
    return spread[:, None] * np.linalg.cholesky(correlation)


def cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """The lower Cholesky factor; None if the matrix is not positive definite."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
