"""Eight problems for samplers of any kind: independent normal or uniform priors and one function.

Their truths are exact, integrals over one variable, or a long importance sampling. This module
needs JAX, NumPy and SciPy only, so that a sampler's time is its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp as log_sum
from scipy import optimize, stats
from scipy.special import expit, logsumexp, ndtri

LOG_TWO_PI = float(np.log(2 * np.pi))


class Problem(NamedTuple):
    """A log-likelihood of a vector x in JAX, and its priors: normal(at, scale) or uniform."""

    size: int
    log_likelihood: Callable[[Any], Any]
    is_normal: bool
    low: float  # or the mean
    high: float  # or the standard deviation
    truth: Callable[[], float]

    def from_cube(self, cube: np.ndarray) -> np.ndarray:
        """The parameters at a place in the unit cube."""
        if self.is_normal:
            return self.low + self.high * ndtri(cube)
        return self.low + (self.high - self.low) * cube


def normal_prior(size: int, log_likelihood: Callable, truth: Callable[[], float]) -> Problem:
    return Problem(size, log_likelihood, True, 0.0, 1.0, truth)


def uniform_prior(size: int, low: float, high: float, log_likelihood: Callable, truth: float) -> Problem:
    return Problem(size, log_likelihood, False, low, high, lambda: truth)


def linear() -> Problem:
    """Six coefficients, 1,000 rows, known noise; exact."""
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.normal(size=(1000, 5)), np.ones(1000)])
    y = x @ generator.normal(size=6) + generator.normal(size=1000)

    def truth():
        precision = x.T @ x + np.eye(6)
        mean = np.linalg.solve(precision, x.T @ y)
        return -0.5 * (1000 * LOG_TWO_PI + np.linalg.slogdet(precision)[1] + y @ y - mean @ precision @ mean)

    rows, target = jnp.asarray(x), jnp.asarray(y)
    return normal_prior(6, lambda w: -0.5 * jnp.sum((target - rows @ w) ** 2) - 500 * LOG_TWO_PI, truth)


def logistic() -> Problem:
    """Ten coefficients, 500 rows; 10⁶ importance draws from a Student t about the mode."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(500, 10))
    y = (generator.random(500) < expit(x @ generator.normal(size=10))).astype(float)

    def log_joint(w):
        z = w @ x.T
        return z @ y - np.logaddexp(0, z).sum(-1) + stats.norm.logpdf(w).sum(-1)

    def truth():
        mode = optimize.minimize(lambda w: -log_joint(w), np.zeros(10)).x
        p = expit(x @ mode)
        density = stats.multivariate_t(mode, np.linalg.inv((x.T * (p * (1 - p))) @ x + np.eye(10)), df=10)
        found = []
        for seed in range(10):
            draws = density.rvs(100_000, random_state=seed)
            found.append(log_joint(draws) - density.logpdf(draws))
        return float(logsumexp(found) - np.log(1_000_000))

    rows, target = jnp.asarray(x), jnp.asarray(y)

    def log_likelihood(w):
        z = rows @ w
        return z @ target - jnp.sum(jnp.logaddexp(0.0, z))

    return normal_prior(10, log_likelihood, truth)


def correlated_normal() -> Problem:
    """20 dimensions with correlations of 0.4 in a box."""
    covariance = 0.6 * np.eye(20) + 0.4
    precision = jnp.asarray(np.linalg.inv(covariance))
    constant = -0.5 * (np.linalg.slogdet(covariance)[1] + 20 * LOG_TWO_PI)
    return uniform_prior(
        20, -5.0, 5.0, lambda x: -0.5 * x @ precision @ x + constant, -20 * float(np.log(10))
    )


def egg_box() -> Problem:
    """Eighteen peaks in two dimensions; quadrature."""
    edges = np.linspace(0, 10 * np.pi, 4002)
    nodes = 0.5 * (edges[1:] + edges[:-1])  # the function's period divides the box
    terms = logsumexp((2 + np.cos(nodes[:, None] / 2) * np.cos(nodes / 2)) ** 5)
    return uniform_prior(
        2,
        0.0,
        10 * np.pi,
        lambda x: (2 + jnp.cos(x[0] / 2) * jnp.cos(x[1] / 2)) ** 5,
        float(terms - 2 * np.log(len(nodes))),
    )


def spike_in_slab() -> Problem:
    """100 N(0.031, 0.01²) + N(0, 0.1²) in ten dimensions."""

    def log_normal(x, mean, deviation):
        return -0.5 * jnp.sum(((x - mean) / deviation) ** 2) - 10 * (np.log(deviation) + 0.5 * LOG_TWO_PI)

    def log_likelihood(x):
        return jnp.logaddexp(np.log(100.0) + log_normal(x, 0.031, 0.01), log_normal(x, 0.0, 0.1))

    return uniform_prior(10, -0.5, 0.5, log_likelihood, float(np.log(101)))


def rosenbrock() -> Problem:
    """A thin curved ridge in five dimensions; a chain of integrals."""

    def log_likelihood(x):
        return -jnp.sum((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2)

    return uniform_prior(5, -5.0, 5.0, log_likelihood, _log_rosenbrock(5))


def _log_rosenbrock(size: int) -> float:
    """By the trapezoidal rule along the chain of coordinates, mean over the box."""
    x = np.linspace(-5, 5, 4001)
    log_width = np.log(x[1] - x[0]) - np.log(10)
    step = -((1 - x[:, None]) ** 2) - 100 * (x[None, :] - x[:, None] ** 2) ** 2
    log_mass = np.full(len(x), log_width)
    for _ in range(size - 1):
        log_mass = logsumexp(log_mass[:, None] + step, axis=0) + log_width
    return float(logsumexp(log_mass))


def funnel() -> Problem:
    """Eight group means exp(2 s) z, each measured twice with noise of 3; an integral over s."""
    y = 3 * np.random.default_rng(2).normal(size=(8, 2)) + np.random.default_rng(3).normal(size=(8, 1))

    def truth():
        s = np.linspace(-8, 8, 8001)
        total, difference = (y[:, 0] + y[:, 1]) / np.sqrt(2), (y[:, 0] - y[:, 1]) / np.sqrt(2)
        deviations = np.sqrt(9 + 2 * np.exp(4 * s))[:, None]
        terms = stats.norm.logpdf(s) + stats.norm.logpdf(total, 0, deviations).sum(1)
        return float(logsumexp(terms) + np.log(s[1] - s[0]) + stats.norm.logpdf(difference, 0, 3).sum())

    rows = jnp.asarray(y)

    def log_likelihood(x):
        means = jnp.exp(2 * x[0]) * x[1:]
        return jnp.sum(-0.5 * ((rows - means[:, None]) / 3) ** 2 - np.log(3.0) - 0.5 * LOG_TWO_PI)

    return normal_prior(9, log_likelihood, truth)


def mixture() -> Problem:
    """Three normals of equal shares, means N(0, 4²), twelve rows; all 3¹² assignments."""
    y = np.random.default_rng(4).normal(np.repeat([-4.0, 0.0, 3.0], 4), 1.0)

    def truth():
        labels = np.stack(np.meshgrid(*[np.arange(3)] * 12, indexing="ij"), -1).reshape(-1, 12)
        total = np.full(len(labels), -12 * np.log(3) - 6 * LOG_TWO_PI - 0.5 * np.sum(y**2))
        for component in range(3):
            own = labels == component
            precision = own.sum(1) + 1 / 16
            total += 0.5 * (own @ y) ** 2 / precision - 0.5 * np.log(16 * precision)
        return float(logsumexp(total))

    rows = jnp.asarray(y)

    def log_likelihood(x):
        parts = -0.5 * (rows[:, None] - 4 * x) ** 2 - 0.5 * LOG_TWO_PI - np.log(3.0)
        return jnp.sum(log_sum(parts, axis=1))

    return normal_prior(3, log_likelihood, truth)


PROBLEMS = {
    "linear regression, 6": linear,
    "logistic regression, 10": logistic,
    "correlated normal, 20": correlated_normal,
    "egg box, 2": egg_box,
    "spike in a slab, 10": spike_in_slab,
    "Rosenbrock, 5": rosenbrock,
    "funnel, 9": funnel,
    "mixture of three, 3": mixture,
}
