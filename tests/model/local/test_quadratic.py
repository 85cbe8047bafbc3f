"""Integrals of quadratic log-likelihoods: the density of a normal, with all its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.model.local.quadratic import log_integral, moments
from evidentia.system.compilation import in_float64

ROWS, GROUPS = 5, 3
RNG = np.random.default_rng(0)
Y = 3 + RNG.normal(size=(GROUPS, ROWS))


def rows():
    """A new array: JAX keeps one copy of an array in a closure, in its first precision."""
    return jnp.asarray(Y.copy())


def conditional(columns, params):
    """f(u), with rows y = μ + Z (Λ u) + ε of each group; params are μ, log Λ, log σ."""
    mu, log_sd, log_sigma = params

    def f(u):
        means = mu + jnp.einsum("grk,gk->gr", columns, jnp.exp(log_sd) * u)
        steps = (rows() - means) / jnp.exp(log_sigma)
        return jnp.sum(-0.5 * steps**2 - log_sigma - 0.5 * jnp.log(2 * jnp.pi), axis=1)

    return f


def marginal(columns, params):
    mu, log_sd, log_sigma = params
    scaled = columns * jnp.exp(log_sd)
    covariance = jnp.einsum("gik,gjk->gij", scaled, scaled) + jnp.exp(2 * log_sigma) * jnp.eye(ROWS)
    return jax.vmap(jax.scipy.stats.multivariate_normal.logpdf)(
        rows(), jnp.full((GROUPS, ROWS), mu), covariance
    )


def ours(columns, params):
    frozen = conditional(columns, jax.lax.stop_gradient(params))
    return log_integral(frozen, conditional(columns, params), GROUPS, columns.shape[2])


def to_second(function):
    return lambda params: (function(params), jax.jacrev(function)(params), jax.hessian(function)(params))


@pytest.mark.parametrize(
    "size, log_sd",
    [(1, 4.0), pytest.param(2, 0.3, marks=pytest.mark.slow), pytest.param(3, -2.0, marks=pytest.mark.slow)],
)
def test_values_and_derivatives_are_those_of_the_marginal_normal(size, log_sd):
    with in_float64():
        columns = jnp.asarray(RNG.normal(size=(GROUPS, ROWS, size)))
        params = jnp.asarray([0.4, log_sd, -1.0])
        found, exact = (
            jax.jit(to_second(lambda p, of=of: of(columns, p)))(params) for of in (ours, marginal)
        )
        for one, other in zip(found, exact, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_no_digits_cancel_where_groups_are_far_apart():
    """At u = 0 the log-likelihoods of groups 50 deviations away are in the thousands."""
    columns = np.ones((GROUPS, ROWS, 1), np.float32)
    params = np.array([-47.0, 4.0, 0.0])
    found = jax.jit(ours)(columns, jnp.asarray(params, jnp.float32))
    with in_float64():
        exact = jax.jit(marginal)(jnp.asarray(columns, float), jnp.asarray(params))
    np.testing.assert_allclose(found, exact, atol=2e-4)


def test_moments_are_conditional_means_and_variances():
    with in_float64():
        columns = jnp.asarray(RNG.normal(size=(GROUPS, ROWS, 2)))
        params = jnp.asarray([0.4, 0.3, -1.0])
        found = moments(
            conditional(columns, params), lambda u: {"sum": u @ jnp.ones(2), "both": 2 * u}, GROUPS, 2
        )
        scaled = np.asarray(columns) * np.exp(0.3)
        for group in range(GROUPS):
            covariance = np.linalg.inv(np.eye(2) + scaled[group].T @ scaled[group] * np.exp(2.0))
            mean = covariance @ scaled[group].T @ (Y[group] - 0.4) * np.exp(2.0)
            np.testing.assert_allclose(found["both"][0][group], 2 * mean, rtol=1e-8)
            np.testing.assert_allclose(found["both"][1][group], 4 * np.diag(covariance), rtol=1e-8)
            np.testing.assert_allclose(found["sum"][0][group], mean.sum(), rtol=1e-8)
            np.testing.assert_allclose(found["sum"][1][group], covariance.sum(), rtol=1e-8)


def test_effects_wider_than_the_standard_normal_are_integrated_exactly():
    """As the terms of a prior that is written as a transformed one, of variance 25, have it."""

    def log_density(u):
        return -0.5 * ((1.5 - u[:, 0]) / 4) ** 2 - 0.5 * u[:, 0] ** 2 / 25 + 0.5 * u[:, 0] ** 2

    found = log_integral(log_density, log_density, 1, 1)
    exact = -0.5 * 1.5**2 / (16 + 25) - 0.5 * np.log(1 / 16 + 1 / 25)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_an_infinite_integral_is_not_a_number():
    def log_density(u):
        return 0.6 * u[:, 0] ** 2

    assert np.isnan(log_integral(log_density, log_density, 1, 1)).all()
