"""Targets and checks that the tests of several kernels share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import skew

from evidentia.kernels import Density, Scale

NUM_PARTICLES = 20_000
NUM_OBSERVATIONS = 50
SAMPLING_ERROR = 4 * np.sqrt(2 / NUM_PARTICLES)  # four standard errors of a Gaussian's variance, relative


def scale(num_observations):
    return Scale(jnp.ones((1, 1)), num_observations)  # the published kernels do not use the factor


def density(log_density=None, gradient=None):
    """A density for a kernel that uses only one part of it."""
    return Density(log_density, gradient)  # pyright: ignore[reportArgumentType]


def moved_along(kernel, key, positions, gradient, scale):
    """Positions after a move along a gradient."""
    return kernel.move(key, positions, density(gradient=gradient), scale).positions


def moved_under(kernel, key, positions, log_density, scale):
    """Positions after a move that needs the log density."""
    return kernel.move(key, positions, density(log_density=log_density), scale).positions


def gaussian_gradient(key, positions):  # of log N(0, 1/n)
    return -NUM_OBSERVATIONS * positions


def gumbel_gradient(key, positions):  # of -x - e^{-x}, the log density of -log of an exponential variable
    return jnp.exp(-positions) - 1


def assert_keeps_a_skewed_target(kernel, bias_of_mean, bias_of_variance):
    """Check the moments of a Gumbel variable to four standard errors plus discretisation bias."""
    start = -jnp.log(jax.random.exponential(jax.random.key(1), (NUM_PARTICLES, 1)))
    moved = np.asarray(moved_along(kernel, jax.random.key(0), start, gumbel_gradient, scale(1)), np.float64)
    four_errors = 4 / np.sqrt(NUM_PARTICLES)
    # The start is forgotten, so the kernel itself keeps the target.
    assert abs(np.corrcoef(start[:, 0], moved[:, 0])[0, 1]) < four_errors
    variance, kurtosis = np.pi**2 / 6, 5.4
    mean_error = four_errors * np.sqrt(variance)
    variance_error = four_errors * variance * np.sqrt(kurtosis - 1)
    assert np.mean(moved) == pytest.approx(np.euler_gamma, abs=mean_error + bias_of_mean)
    assert np.var(moved) == pytest.approx(variance, abs=variance_error + bias_of_variance)
    # The standard error of the skewness of M such variables is 5.5/√M, measured on 300 samples.
    assert skew(moved[:, 0]) == pytest.approx(1.14, abs=5.5 * four_errors)


def assert_follows_the_number_of_rows(kernel):
    """With 10⁶ rows, posterior and particle paths are those of one row, 1000 times narrower."""
    start = jax.random.normal(jax.random.key(1), (100, 2))
    one = moved_along(kernel, jax.random.key(0), start, lambda key, x: -x, scale(1))
    million = moved_along(kernel, jax.random.key(0), start / 1e3, lambda key, x: -1e6 * x, scale(10**6))
    np.testing.assert_allclose(1e3 * million, one, atol=1e-3)


def assert_keys_matter(kernel):
    start = jnp.zeros((3, 1))
    first, second = (
        moved_along(kernel, jax.random.key(seed), start, gaussian_gradient, scale(NUM_OBSERVATIONS))
        for seed in (0, 1)
    )
    assert not np.any(np.asarray(first) == np.asarray(second))
