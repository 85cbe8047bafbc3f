"""Laplace's approximation: the exact posterior of linear regression, directions that only the prior holds, Student's t."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_t

import evidentia as ev
from evidentia import weights as log_weights
from evidentia.laplace import (
    LocalGaussian,
    degrees_of_freedom,
    draw_student_t,
    laplace_approximation,
    log_student_t,
)
from evidentia.rows import Rows

MODEL = ev.models.linear_regression(num_features=3)


def linear_rows(num_rows=3000):
    data, _ = MODEL.simulate(num_rows, 0)
    design = np.c_[data["x"], np.ones(num_rows)].astype(float)
    precision = design.T @ design + np.eye(4)
    mode = np.linalg.solve(precision, design.T @ data["y"])
    return data, Rows(jax.tree.map(jnp.asarray, data), 0, num_rows), mode, precision


def test_linear_regression_has_its_exact_posterior():
    data, rows, mode, precision = linear_rows()
    for guess in (None, 0.8 * precision):
        found = laplace_approximation(MODEL.bind(data), rows, np.zeros(4), guess)
        # The tolerance on the mode is a tenth of a standard deviation.
        assert np.linalg.norm(np.linalg.cholesky(precision).T @ (found.mode - mode)) < 0.1
        np.testing.assert_allclose(found.precision, precision, rtol=1e-9, atol=1e-6)
        exact = MODEL.exact_log_evidence(data)  # of a posterior that is a Gaussian
        assert found.log_mass == pytest.approx(exact, abs=0.5 * 0.1**2 + 1e-6 * abs(exact))


def test_directions_that_only_the_prior_holds_keep_their_precision():
    # Adding the same to the logits of all classes changes nothing: the prior's precision of one, beside 10⁹ for others.
    model = ev.models.softmax_regression(num_features=2, num_classes=2)
    generator = np.random.default_rng(0)
    data = {"x": (255 * generator.random((50_000, 2))).astype(np.float32)}
    data["y"] = generator.binomial(1, 1 / (1 + np.exp(0.02 * (data["x"][:, 0] - 128)))).astype(np.int32)
    rows = Rows(jax.tree.map(jnp.asarray, data), 0, 50_000)
    found = laplace_approximation(model.bind(data), rows, np.zeros(6))
    values = np.linalg.eigvalsh(found.precision)
    assert values[-1] > 1e7
    np.testing.assert_allclose(values[:3], 1.0, rtol=1e-4)


def test_steps_that_overshoot_are_halved():
    # Newton's step for -log cosh is -sinh θ cosh θ: from 3 it leads to -200 and, unhalved, off to infinity.
    model = ev.Model(
        prior={"m": dist.Normal(0, 100)},
        log_likelihood=lambda params, y: -jnp.log(jnp.cosh(params["m"])) + 0 * y,
    )
    y = np.zeros(10, np.float32)
    found = laplace_approximation(model.bind(y), Rows(jnp.asarray(y), 0, 10), np.array([3.0]))
    assert abs(found.mode[0]) < 0.1 * np.sqrt(1 / 10)  # the tolerance


def test_no_mode_where_the_curvature_is_not_definite():
    # Two modes at -1 and 1: started between them, where the density is lowest, Newton's method has no way down.
    model = ev.Model(
        prior={"m": dist.Normal(0, 10)},
        log_likelihood=lambda params, y: -((params["m"] ** 2 - 1) ** 2) + 0 * y,
    )
    y = np.zeros(100, np.float32)
    assert laplace_approximation(model.bind(y), Rows(jnp.asarray(y), 0, 100), np.zeros(1)) is None


def test_student_t_density_is_scipys_and_draws_follow_it():
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    laplace = LocalGaussian(np.array([1.0, -2.0]), precision, 0.0)
    draws = draw_student_t(np.random.default_rng(0), laplace, 50_000)
    freedom = degrees_of_freedom(2)
    peer = multivariate_t(laplace.mode, np.linalg.inv(precision), df=freedom)
    np.testing.assert_allclose(log_student_t(laplace, draws[:50]), peer.logpdf(draws[:50]), rtol=1e-9)
    covariance = np.linalg.inv(precision) * freedom / (freedom - 2)
    # Five standard errors of a variance, which heavy tails make a little larger than a Gaussian's √(2/n).
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * np.sqrt(2.5 / 50_000) * covariance.max())


@pytest.mark.parametrize(("size", "efficiency"), [(1, 0.99), (44, 0.95)])
def test_draws_about_a_gaussian_are_worth_nearly_their_number(size, efficiency):
    laplace = LocalGaussian(np.zeros(size), np.eye(size), 0.0)
    draws = draw_student_t(np.random.default_rng(0), laplace, 100_000)
    weights = -0.5 * np.sum(draws**2, 1) - log_student_t(laplace, draws)
    assert log_weights.ess(weights) / 100_000 == pytest.approx(efficiency, abs=0.02)
