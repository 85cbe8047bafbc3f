"""The polynomial order in small: exact evidence, least squares, one program, verdict."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from experiments import polynomial_order as experiment

pytestmark = pytest.mark.experiments

ROWS, REPEATS = 40, 3
INPUTS, Y = experiment.simulate(3, ROWS, REPEATS, seed=0)
DATA = experiment.summarise(INPUTS, Y)


def marginal(theta, repeat, order):
    """log Z as the density of a Gaussian vector, in its textbook form."""
    powers = INPUTS[repeat][:, None] ** np.arange(order + 1)
    covariance = np.exp(-theta[0]) * powers @ powers.T + np.exp(2 * theta[1]) * np.eye(ROWS)
    return multivariate_normal(np.zeros(ROWS), covariance).logpdf(Y[repeat])


def test_the_exact_evidence_of_all_candidates_is_that_of_gaussian_vectors():
    theta = np.array([-0.7, 0.9])
    found = experiment.exact_log_evidence(theta, DATA)
    expected = [
        [marginal(theta, repeat, order) for order in experiment.CANDIDATES] for repeat in range(REPEATS)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_its_maximum_is_where_a_search_over_both_variances_ends():
    found = experiment.maximum_log_evidence(DATA)[0]
    for order in (1, 3, 7):
        search = minimize(lambda theta, k=order: -marginal(theta, 0, k), [0.0, 1.0], method="Nelder-Mead")
        assert found[order - 1] == pytest.approx(-search.fun, abs=1e-3)


def test_least_squares_of_all_candidates_come_from_one_decomposition():
    for order in (1, 4, 10):
        coefficients = np.polynomial.polynomial.polyfit(INPUTS[1], Y[1], order)
        squares = np.sum((Y[1] - np.polynomial.polynomial.polyval(INPUTS[1], coefficients)) ** 2)
        assert DATA["left"][1, order - 1] == pytest.approx(squares)
        expected = ROWS * np.log(squares / ROWS) + (order + 2) * np.log(ROWS)
        assert experiment.bic(DATA)[1, order - 1] == pytest.approx(expected)


def test_the_log_joint_is_that_of_the_rows_and_blind_to_powers_that_a_candidate_has_not():
    order, theta = 4, jnp.array([0.3, 0.8])
    candidate = jax.tree.map(lambda leaf: jnp.asarray(leaf[2, order - 1], jnp.float32), DATA)
    x = np.random.default_rng(0).standard_normal(experiment.NUM_POWERS)
    mean = INPUTS[2][:, None] ** np.arange(order + 1) @ x[: order + 1]
    expected = multivariate_normal(mean, np.exp(1.6) * np.eye(ROWS)).logpdf(Y[2])
    expected += multivariate_normal(np.zeros(order + 1), np.exp(-0.3) * np.eye(order + 1)).logpdf(
        x[: order + 1]
    )
    value, gradient = jax.value_and_grad(experiment.log_joint, 1)(
        theta, jnp.asarray(x, jnp.float32), candidate
    )
    assert float(value) == pytest.approx(expected, rel=1e-5)
    assert np.all(gradient[order + 1 :] == 0) and np.all(gradient[: order + 1] != 0)


def test_jala_em_knows_the_evidence_of_every_candidate_on_its_way():
    """A few steps of 50 particles: the mean error is zero within four standard errors."""
    data = experiment.summarise(*experiment.simulate(4, 100, 12, seed=1))
    theta, log_evidence = experiment.fit(data, seed=0, num_steps=20)
    fits = slice(3, None)  # candidates with all powers of the data
    errors = (log_evidence - experiment.exact_log_evidence(theta, data))[:, fits].mean(1)
    assert np.abs(theta - experiment.THETA0).mean() > 0.1
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(12) and np.abs(errors).max() < 0.5


def record(jala_em):
    """Three settings in which all criteria but JALA-EM's are off by a half on average."""
    shared = {"exact_value": [0.5, 0.05], "exact_maximum": [0.5, 0.05], "ols_bic": [0.5, 0.05]}
    row = {"error": {"jala_em": [jala_em, 0.05], **shared}}
    row["jala_em_minus"] = {name: [jala_em - 0.5, 0.05] for name in shared}
    stable = [{"range": reach, "rows": 100, "largest": 0.3} for reach in experiment.RANGES]
    return {"settings": [row] * 3, "stability": stable}


def test_the_verdict_follows_the_numbers():
    assert experiment.EXPERIMENT.judge(record(0.52)).agrees
    worse = experiment.EXPERIMENT.judge(record(0.9))
    assert not worse.agrees and "worse in 3" in worse.measured and "better in 0" in worse.measured
    assert not experiment.EXPERIMENT.judge(record(0.2)).agrees  # better than its own exact evidence
    unstable = copy.deepcopy(record(0.52))
    unstable["stability"][2]["largest"] = 2.5
    assert not experiment.EXPERIMENT.judge(unstable).agrees
