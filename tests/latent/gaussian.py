"""A model with known answers: x_i ~ N(θ, 1) and y_i ~ N(x_i, 1), so y_i ~ N(θ, 2) and
x_i given y is N((θ + y_i)/2, 1/2).
"""

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist

from evidentia.latent import LatentModel

Y = np.random.default_rng(0).normal(1.0, np.sqrt(2.0), 6).astype(np.float32)
THETA0 = 0.0


def log_prior(theta, x, data):
    return jnp.sum(dist.Normal(theta, 1.0).log_prob(x))


def log_joint(theta, x, data=None):
    return log_prior(theta, x, data) + jnp.sum(dist.Normal(x, 1.0).log_prob(data))


def sample_prior(key, theta, data):
    return theta + jax.random.normal(key, data.shape)


MODEL = LatentModel(log_joint, log_prior, sample_prior, name="two levels")


def exact_log_evidence(theta):
    """log Z at an array of θ, in nats."""
    squares = np.sum((Y - np.asarray(theta, np.float64)[..., None]) ** 2, axis=-1)
    return -0.25 * squares - 0.5 * len(Y) * np.log(4 * np.pi)


def posterior(key, theta, count):
    """Draws of x given θ and y."""
    return (theta + Y) / 2 + np.sqrt(0.5) * jax.random.normal(key, (count, len(Y)))
