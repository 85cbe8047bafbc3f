"""The log density of a multivariate normal from its covariance matrix, with cheap derivatives.

With r = y - mean, α = K⁻¹ r and the Cholesky factor L of K = L Lᵀ,

    log p = -½ rᵀα - Σ log L_ii - n/2 log 2π,
    d log p = ½ αᵀ dK α - ½ tr(K⁻¹ dK) - αᵀ dr,    dK⁻¹ = -K⁻¹ dK K⁻¹.

The rules of JAX differentiate through the factor instead, which takes several times as long.

Source: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, Eq. 5.8 and 5.9.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float


@jax.custom_jvp
def log_normal_density(
    covariance: Float[Array, "rows rows"], residual: Float[Array, " rows"]
) -> Float[Array, ""]:
    """log N(residual; 0, covariance) in nats; NaN if the matrix has no Cholesky factor."""
    factor = jnp.linalg.cholesky(covariance, symmetrize_input=False)
    whitened = solve_triangular(factor, residual, lower=True)
    log_norm = jnp.sum(jnp.log(jnp.diag(factor))) + 0.5 * len(residual) * np.log(2 * np.pi)
    return -0.5 * whitened @ whitened - log_norm


@jax.custom_jvp
def inverse(covariance: Float[Array, "rows rows"]) -> Float[Array, "rows rows"]:
    """The inverse of a covariance matrix, by its Cholesky factor."""
    factor = jnp.linalg.cholesky(covariance, symmetrize_input=False)
    return cho_solve((factor, True), jnp.eye(len(covariance), dtype=covariance.dtype))


@log_normal_density.defjvp
def _(primals, tangents):
    (covariance, residual), (of_covariance, of_residual) = primals, tangents
    precision = inverse(covariance)
    alpha = precision @ residual
    of_matrix = 0.5 * (alpha @ (of_covariance @ alpha) - jnp.sum(precision * of_covariance))
    return log_normal_density(covariance, residual), of_matrix - alpha @ of_residual


@inverse.defjvp
def _(primals, tangents):
    precision = inverse(*primals)
    return precision, -precision @ tangents[0] @ precision
