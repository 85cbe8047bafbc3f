"""True log evidences by importance sampling about the mode, with float64 likelihoods."""

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.model.bound import BoundModel
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window
from evidentia.weights import log_sum_exp, relative_variance

DEGREES_OF_FREEDOM = 10  # of the multivariate t proposal: heavier tails than any posterior here


def importance_sampling(
    model: BoundModel, rows: Window, start: np.ndarray, *, num_draws: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """Log evidence and its standard error, from a multivariate t about the mode near `start`.

    Exact up to the standard error for a posterior with one mode; for K well separated modes of
    equal weight (the permutations of a mixture) it is the contribution of one.
    """
    found = newton(model, rows, start)
    if found is None:
        return float("nan"), float("nan")
    mode, precision = found.centre, found.precision
    size, rng = len(mode), np.random.default_rng(seed)
    normal = rng.normal(size=(num_draws, size))
    stretch = np.sqrt(rng.chisquare(DEGREES_OF_FREEDOM, size=num_draws) / DEGREES_OF_FREEDOM)[:, None]
    # precision = L Lᵀ, so L⁻ᵀ z has covariance precision⁻¹.
    draws = mode + np.linalg.solve(np.linalg.cholesky(precision).T, normal.T).T / stretch
    log_proposal = _log_density_t(((normal / stretch) ** 2).sum(1), size, np.linalg.slogdet(precision)[1])
    positions = jnp.asarray(draws, jnp.float32)
    log_priors = np.asarray(jax.vmap(model.log_prior)(positions), np.float64)
    log_weights = log_priors - log_proposal
    for first in range(0, num_draws, 500):
        batch = slice(first, first + 500)
        log_weights[batch] += rows.exact_log_likelihoods(model, positions[batch])
    return log_sum_exp(log_weights) - np.log(num_draws), float(np.sqrt(relative_variance(log_weights)))


def _log_density_t(squared_distance: np.ndarray, size: int, log_det_precision: float) -> np.ndarray:
    from scipy.special import gammaln

    nu = DEGREES_OF_FREEDOM
    constant = gammaln((nu + size) / 2) - gammaln(nu / 2) - 0.5 * size * np.log(nu * np.pi)
    return constant + 0.5 * log_det_precision - 0.5 * (nu + size) * np.log1p(squared_distance / nu)
