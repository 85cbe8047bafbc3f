"""The experiment on error models in small: exact evidence, and JALA-EM along its climb."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments import error_model as experiment
from experiments import error_model_runs as runs
from experiments import error_models

pytestmark = pytest.mark.experiments


def first(data):
    return jax.tree.map(lambda leaf: leaf[0], data)


def test_the_exact_evidence_is_that_of_a_gaussian_vector():
    data = first(error_models.simulate("gaussian", 30, 1, seed=0))
    theta, v = np.array([0.3, -0.2]), data["v"].astype(float)
    covariance = np.exp(-theta[1]) * v @ v.T + np.exp(theta[0]) * np.eye(30)
    expected = multivariate_normal(np.zeros(30), covariance).logpdf(data["y"])
    assert np.isclose(error_models.exact_log_evidence(theta, data), expected, rtol=1e-6)
    best = error_models.maximiser(data)
    assert error_models.exact_log_evidence(best, data) >= error_models.exact_log_evidence(best + 0.01, data)


def test_a_few_repeats_know_their_evidence_on_the_way():
    data = error_models.simulate("gaussian", 200, 6, seed=0)
    start = runs.starts("gaussian", data, seed=0)["published"]
    record = runs.against_exact(runs.climb("gaussian", data, start, 0, num_steps=50), data)
    first, last = np.array(record["log_evidence_errors"]).T
    assert record["steps"] == [0, 50] and np.allclose(first, 0, atol=1e-3)
    assert abs(last.mean()) < 4 * last.std(ddof=1) / np.sqrt(6)


def test_importance_sampling_is_exact_for_gaussian_errors():
    data = first(error_models.simulate("gaussian", 50, 1, seed=0))
    theta = np.array([0.3, -0.2])
    draws, found = error_models.by_importance("gaussian", theta, data, 2000, np.random.default_rng(0))
    assert found == pytest.approx(error_models.exact_log_evidence(theta, data), abs=1e-3)
    mean, precision = error_models.conjugate(theta, data)
    np.testing.assert_allclose(draws.mean(0), mean, atol=4 * np.sqrt(np.linalg.inv(precision).max() / 2000))


def test_student_errors_have_their_evidence_without_the_prior_of_the_degrees_of_freedom():
    data = error_models.simulate("student", 200, 4, seed=0)
    start = runs.starts("student", data, seed=0)
    errors = runs.end_errors(runs.climb("student", data, start["importance"], 0, 50), data, 0)
    assert abs(np.mean(errors)) < 4 * np.std(errors, ddof=1) / np.sqrt(4) + 0.01
    thetas, _ = runs.climb("student", data, start["importance"], 0, 50)
    assert np.all(thetas[..., 2] <= runs.UPPER[2])


def test_short_chains_end_wider_than_the_posterior():
    data = first(error_models.simulate("student", 500, 1, seed=0))
    theta = jnp.asarray(runs.THETA0["student"])
    chains = error_models.short_chains("student", jax.random.key(0), theta, 400, data)
    exact, _ = error_models.by_importance("student", theta, data, 400, np.random.default_rng(0))
    assert np.std(chains) > 1.5 * np.std(exact - exact.mean(0)) and np.std(chains - exact.mean(0)) < 1


def found(truth, log_bayes_factors, **more):
    both = {"published": log_bayes_factors, "importance": log_bayes_factors}
    errors = {"published": [-8.0, -9.0], "importance": [0.1, -0.1]}
    record = {"truth": truth, "rows": 500, "log_bayes_factors": both, "student_errors": errors}
    return {f"{truth}, 500 rows": {**record, **more}}


def test_the_verdict_counts_how_often_the_truth_is_chosen():
    assert experiment.judge(found("student", [3.0] * 99 + [-1.0]) | exact()).agrees
    assert not experiment.judge(found("student", [3.0] * 60 + [-1.0] * 40) | exact()).agrees


def test_the_verdict_sees_a_biased_evidence():
    assert not experiment.judge(exact(bias=0.5)).agrees


def exact(bias=0.0):
    """A hundred repeats with Gaussian errors; mean Ẑ/Z is 1 but for a bias of the log evidence."""
    errors = np.random.default_rng(0).normal(-0.005 + bias, 0.1, (100, 2))
    return found(
        "gaussian",
        [9.0] * 100,
        steps=[0, 250],
        log_evidence_errors=errors.tolist(),
        theta_minus_maximiser=np.zeros((100, 2, 2)).tolist(),
    )
