"""What SGAIS is measured against: dynesty with a jitted likelihood, and a bare pass over the data."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums


def bare_pass(model: BoundModel, rows: Rows, num_particles: int) -> float:
    """Seconds to evaluate every row's log-likelihood once at `num_particles` particles, compiled before."""
    positions = 0.1 * model.sample_prior(jax.random.key(0), num_particles)
    log_likelihood_sums(model, positions, Rows(rows.arrays, 0, 1))
    started = time.perf_counter()
    log_likelihood_sums(model, positions, rows)
    return time.perf_counter() - started


def dynesty(
    model: BoundModel, rows: Rows, *, num_live: int = 250, seed: int = 0, limit_seconds: float
) -> tuple[float, float, float]:
    """Log evidence, its standard error, and seconds; NaN for both if it has not finished within the limit.

    The prior is transformed by drawing from it: all the benchmark's parameters have independent N(0, 1) priors, so the
    unit cube goes through the normal quantile function.
    """
    import dynesty as package
    from scipy.stats import norm

    @jax.jit
    def log_likelihood(position):
        return model.log_likelihood(position, rows.arrays).sum()

    log_likelihood(jnp.zeros(model.num_parameters)).block_until_ready()
    started = time.perf_counter()
    sampler = package.NestedSampler(
        lambda position: float(log_likelihood(np.asarray(position, np.float32))),
        norm.ppf,
        model.num_parameters,
        nlive=num_live,
        rstate=np.random.default_rng(seed),
    )
    for _ in sampler.sample(dlogz=0.01 + 1e-3 * (num_live - 1)):
        if time.perf_counter() - started > limit_seconds:
            return float("nan"), float("nan"), time.perf_counter() - started
    for _ in sampler.add_live_points():
        pass
    return float(sampler.results.logz[-1]), float(sampler.results.logzerr[-1]), time.perf_counter() - started
