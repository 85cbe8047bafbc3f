"""How wide the density is that a kernel explores: what step sizes are measured in."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Scale(NamedTuple):
    """`factor` is a lower triangular L with L Lᵀ the covariance; `num_observations` is the number of rows seen."""

    factor: Float[Array, "parameters parameters"]
    num_observations: int


def posterior_scale(
    positions: Float[np.ndarray, "particles parameters"],
    weights: Float[np.ndarray, " particles"],
    num_observations: int,
) -> Scale:
    """The scale of weighted particles: the Cholesky factor of their covariance, computed in float64.

    Softmax and other models with directions that only the prior holds have correlations within 10⁻⁶ of one at 10⁶
    rows, which a float32 factor, or a ridge large enough to rescue it, would lose. With fewer than four particles for
    each parameter the sample covariance is useless off its diagonal, and only the diagonal is kept.
    """
    positions = np.asarray(positions, np.float64)
    count, size = positions.shape
    deviations = positions - weights @ positions
    covariance = (deviations * weights[:, None]).T @ deviations
    spread = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float32).tiny))
    correlation = covariance / np.outer(spread, spread)
    if count < 4 * size:
        correlation = np.eye(size)
    # The ridge only keeps the factorisation defined when particles coincide; 1e-9 is far below any true eigenvalue.
    factor = spread[:, None] * np.linalg.cholesky(correlation + 1e-9 * np.eye(size))
    return Scale(jnp.asarray(factor, jnp.float32), num_observations)
