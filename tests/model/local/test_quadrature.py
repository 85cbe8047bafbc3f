"""Integrals over the latents of a group: against sums over a fine grid in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from evidentia.model.local.mode import climb
from evidentia.model.local.quadrature import log_integral, rule_of
from evidentia.model.local.sides import half_normal_rule, halves_at

INTERCEPT = 0.3
ONES_AND_ZEROS = np.array([(1, 0), (0, 1), (16, 0), (1, 1), (4, 3), (15, 1)], np.float32)
PROBIT = jax.scipy.stats.norm.logcdf, log_ndtr
LOGIT = jax.nn.log_sigmoid, lambda eta: -np.logaddexp(0.0, -eta)


def log_likelihood(kind, scale, ones, zeros, u):
    eta = INTERCEPT + scale * u
    if kind == "poisson":
        return ones * eta - (ones + zeros) * jnp.exp(eta)
    log_probability = {"probit": PROBIT, "logit": LOGIT}[kind][0]
    return ones * log_probability(eta) + zeros * log_probability(-eta)


def exact(kind, scale, ones, zeros):
    steps = np.union1d(np.linspace(-9.5 * scale, 9.5 * scale, 20_001), np.linspace(-40, 40, 20_001))
    steps = steps[np.abs(steps) <= 9.5 * scale]
    eta = INTERCEPT + steps
    if kind == "poisson":
        found = ones * eta - (ones + zeros) * np.exp(np.minimum(eta, 300.0))
    else:
        log_probability = {"probit": PROBIT, "logit": LOGIT}[kind][1]
        found = ones * log_probability(eta) + zeros * log_probability(-eta)
    log_prior = -0.5 * (steps / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))
    return logsumexp(found + log_prior, b=np.gradient(steps))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["probit", "logit", "poisson"])
def test_binary_rows_of_groups_at_any_deviation(kind, level):
    ones, zeros = jnp.asarray(ONES_AND_ZEROS.T)

    @jax.jit
    def found(scale):
        def f(u):
            return log_likelihood(kind, scale, ones, zeros, u[:, 0])

        return log_integral(f, f, len(ONES_AND_ZEROS), rule_of(1, level))

    for scale in (0.1, 1.0, 10.0, 300.0, 3000.0):
        truth = [exact(kind, scale, *each) for each in ONES_AND_ZEROS.astype(float)]
        np.testing.assert_allclose(found(scale), truth, atol=1e-3)


def test_the_half_normal_rule_is_exact_for_polynomials():
    nodes, weights = half_normal_rule(8)
    moments = [1.0, np.sqrt(2 / np.pi), 1.0, 2 * np.sqrt(2 / np.pi), 3.0]
    for power, moment in enumerate(moments):
        assert weights @ nodes**power == pytest.approx(moment, rel=1e-9)
    assert weights @ nodes**14 == pytest.approx(135_135.0, rel=1e-7)  # 13!!, the highest even power


def test_the_sides_of_a_gaussian_have_its_deviation():
    def f(u):
        return -0.5 * (u[:, 0] - 2.0) ** 2 / 0.1**2

    deviation = 1 / np.sqrt(1 + 1 / 0.1**2)
    mode = jnp.full((1, 1), 2.0 * deviation**2 / 0.1**2)
    np.testing.assert_allclose(halves_at(f, mode).scales, deviation, rtol=0.1)


def test_a_climb_goes_around_derivatives_that_overflow():
    def clipped(u):  # as log of a clipped probability: second derivatives are 0 times infinity
        probability = jnp.clip(jax.scipy.stats.norm.cdf(100.0 * u[:, 0]), np.finfo(np.float32).tiny, 1.0)
        return jnp.log(probability)

    found = climb(clipped, jnp.zeros((1, 1)), 20)
    assert np.isfinite(found.factor).all() and 0.0 < float(found.place[0, 0]) < 0.1


FAR_ROWS = np.array([[-2.244, 0.022], [3.081, 4.905], [0.1, 3.2], [-1.9, 1.9]])  # one mode at each


def student(y, location):
    """The log density of Student's law with 2 degrees of freedom and scale 0.1, but a constant."""
    return -1.5 * jnp.log1p(0.5 * ((y - location) / 0.1) ** 2)


@pytest.mark.parametrize("level", [2, 3])
def test_modes_at_rows_that_are_far_apart_are_all_found(level):
    @jax.jit
    def found(scale):
        def f(u):
            return student(jnp.asarray(FAR_ROWS, jnp.float32), scale * u).sum(1)

        return log_integral(f, f, len(FAR_ROWS), rule_of(1, level))

    u = np.linspace(-12, 12, 200_001)
    for scale in (1.0, 2.0):
        heights = [np.asarray(student(rows[:, None], scale * u).sum(0)) - 0.5 * u**2 for rows in FAR_ROWS]
        truth = logsumexp(heights, axis=1) + np.log((u[1] - u[0]) / np.sqrt(2 * np.pi))
        # Nodes about heavy tails are within 0.03; a mode that is missed costs 0.1 and more.
        np.testing.assert_allclose(found(scale), truth, atol=0.04)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_check_starts_where_what_it_checks_does_not(size):
    checked, check = (rule_of(size, level).starts for level in (2, 3))
    new = [start for start in check if not (np.abs(checked - start).max(1) < 1e-6).any()]
    assert len(new) >= 8
