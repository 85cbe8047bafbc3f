"""Student t about a mode: its density, its draws and their relative ESS."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from evidentia import weights as log_weights
from evidentia.posterior.gaussian import (
    LocalGaussian,
    degrees_of_freedom,
    draw_student_t,
    is_definite,
    log_student_t,
)


def test_student_t_density_is_scipys_and_draws_follow_it():
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    laplace = LocalGaussian(np.array([1.0, -2.0]), precision, 0.0)
    draws = draw_student_t(np.random.default_rng(0), laplace, 50_000)
    freedom = degrees_of_freedom(2)
    peer = multivariate_t(laplace.centre, np.linalg.inv(precision), df=freedom)
    np.testing.assert_allclose(log_student_t(laplace, draws[:50]), peer.logpdf(draws[:50]), rtol=1e-9)
    covariance = np.linalg.inv(precision) * freedom / (freedom - 2)
    # Five standard errors of a variance: slightly above a Gaussian's √(2/n), for the heavy tails.
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * np.sqrt(2.5 / 50_000) * covariance.max())


@pytest.mark.parametrize(("size", "efficiency"), [(1, 0.99), (44, 0.95)])
def test_draws_about_a_gaussian_are_worth_nearly_their_number(size, efficiency):
    laplace = LocalGaussian(np.zeros(size), np.eye(size), 0.0)
    draws = draw_student_t(np.random.default_rng(0), laplace, 100_000)
    weights = -0.5 * np.sum(draws**2, 1) - log_student_t(laplace, draws)
    assert log_weights.ess(weights) / 100_000 == pytest.approx(efficiency, abs=0.02)


def test_definite_matrices_of_any_units_and_singular_ones():
    scale = 10.0 ** np.array([-6, 0, 8])
    definite = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
    assert is_definite(definite * np.outer(scale, scale))
    direction = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert not is_definite(direction.T @ np.diag([1e5, 1e-12]) @ direction)  # singular but for rounding
    correlated = np.full((33, 33), 1 - 1e-14) + 1e-14 * np.eye(33)  # rounding decides in other units
    assert not is_definite(correlated) and is_definite(correlated + 1e-12 * np.eye(33))
    assert not is_definite(np.diag([1.0, 0.0])) and not is_definite(np.diag([1.0, np.nan]))
