"""A regression with Gaussian or Student-t errors: density, exact evidence and first particles.

Latent weights x ~ N(0, I e^{-θ₁}), errors of scale e^{θ₀/2}, and e^{θ₂} degrees of freedom with
the prior Exp(0.1). Draws of the posterior with Gaussian errors, which is conjugate, are the
proposals of importance sampling with Student-t errors.

Source: Cuin, Carbone, Akyildiz (2025), appendix C.4.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from evidentia import weights

NUM_WEIGHTS, FREEDOM, FREEDOM_RATE = 8, 4.0, 0.1
NAMES = "gaussian", "student"
NUM_DRAWS = 5000


def log_errors(name, errors, theta):
    scale = jnp.exp(0.5 * theta[0])
    if name == "gaussian":
        return jax.scipy.stats.norm.logpdf(errors, 0, scale)
    return jax.scipy.stats.t.logpdf(errors, jnp.exp(theta[2]), 0, scale)


def log_joint(name, theta, x, data):
    log_prior = jax.scipy.stats.norm.logpdf(x, 0, jnp.exp(-0.5 * theta[1])).sum()
    log_prior_freedom = 0.0 if name == "gaussian" else log_freedom(theta)
    return log_prior + log_errors(name, data["y"] - data["v"] @ x, theta).sum() + log_prior_freedom


def log_freedom(theta):
    """log p(ν)."""
    return jnp.log(FREEDOM_RATE) - FREEDOM_RATE * jnp.exp(theta[2])


def sample_prior(key, theta, data):
    return jnp.exp(-0.5 * theta[1]) * jax.random.normal(key, (NUM_WEIGHTS,))


def simulate(name, num_rows, repeats, seed):
    """Data of all repeats: v (repeats, rows, weights), y (repeats, rows)."""
    generator = np.random.default_rng([seed, num_rows, NAMES.index(name)])
    v = generator.standard_normal((repeats, num_rows, NUM_WEIGHTS))
    x = generator.standard_normal((repeats, NUM_WEIGHTS, 1))
    shape = repeats, num_rows
    errors = generator.standard_normal(shape) if name == "gaussian" else generator.standard_t(FREEDOM, shape)
    return {"v": v.astype(np.float32), "y": ((v @ x)[..., 0] + errors).astype(np.float32)}


def conjugate(theta, data):
    """Mean and precision of the posterior of the weights with Gaussian errors, in float64."""
    v, y = (np.asarray(data[name], np.float64) for name in ("v", "y"))
    variance = np.exp(float(theta[0]))
    precision = v.T @ v / variance + np.exp(float(theta[1])) * np.eye(NUM_WEIGHTS)
    return np.linalg.solve(precision, v.T @ y / variance), precision


def exact_log_evidence(theta, data):
    """log Z(θ) with Gaussian errors in float64, by 8 by 8 matrices.

    It is the log density of y ~ N(0, e^{-θ₁} V Vᵀ + e^{θ₀} I).
    """
    y, (mean, precision) = np.asarray(data["y"], np.float64), conjugate(theta, data)
    quadratic = y @ y * np.exp(-theta[0]) - mean @ precision @ mean
    log_det = np.linalg.slogdet(precision)[1] - NUM_WEIGHTS * theta[1] + len(y) * theta[0]
    return -0.5 * (quadratic + log_det + len(y) * np.log(2 * np.pi))


def maximiser(data):
    """θ at the maximum of the exact evidence with Gaussian errors."""
    return minimize(lambda theta: -exact_log_evidence(theta, data), np.zeros(2), method="L-BFGS-B").x


def exact_draws(theta, data, count, generator):
    """Draws of the posterior of the weights with Gaussian errors."""
    mean, precision = conjugate(theta, data)
    noise = generator.standard_normal((NUM_WEIGHTS, count))
    return mean + np.linalg.solve(np.linalg.cholesky(precision).T, noise).T


def by_importance(name, theta, data, count, generator):
    """Particles and log Z(θ) without log p(ν), from draws of the conjugate posterior."""
    mean, precision = conjugate(theta, data)
    draws = exact_draws(theta, data, NUM_DRAWS, generator)
    log_q = multivariate_normal(mean, np.linalg.inv(precision)).logpdf(draws)
    values = _log_joints(name, jnp.asarray(theta), jnp.asarray(draws, jnp.float32), data)
    log_weights = np.asarray(values, np.float64) - log_q
    shares = np.exp(weights.normalise(log_weights))
    log_prior = 0.0 if name == "gaussian" else float(log_freedom(theta))
    return draws[generator.choice(NUM_DRAWS, count, p=shares)], weights.log_mean(log_weights) - log_prior


@partial(jax.jit, static_argnums=0)
def _log_joints(name, theta, positions, data):
    return jax.vmap(lambda x: log_joint(name, theta, x, data))(positions)


@partial(jax.jit, static_argnums=(0, 3))
def short_chains(name, key, theta, count, data):
    """The paper's particles: the last states of 200 adaptive Langevin steps from the prior."""
    slope = jax.grad(lambda x: log_joint(name, theta, x, data))

    def chain(key):
        def step(state, key):
            x, size = state
            gradient = slope(x)
            norm = jnp.linalg.norm(gradient)
            x = x + size * gradient + jnp.sqrt(2 * size) * jax.random.normal(key, x.shape)
            shorter = (norm > 1000 * NUM_WEIGHTS) & (size > 1e-6)
            longer = (norm < 10 * NUM_WEIGHTS) & (size < 0.1)
            return (x, size * jnp.where(shorter, 0.9, jnp.where(longer, 1.05, 1.0))), None

        first = sample_prior(key, theta, data), 1e-3
        return jax.lax.scan(step, first, jax.random.split(key, 200))[0][0]

    return jax.vmap(chain)(jax.random.split(key, count))
