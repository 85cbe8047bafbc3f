"""The experiment on error models in small: exact evidence, and JALA-EM along its climb."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments import error_model as experiment

pytestmark = pytest.mark.experiments


def first(data):
    return jax.tree.map(lambda leaf: leaf[0], data)


def test_the_exact_evidence_is_that_of_a_gaussian_vector():
    data = first(experiment.simulate("gaussian", 30, 1, seed=0))
    theta, v = np.array([0.3, -0.2]), data["v"].astype(float)
    covariance = np.exp(-theta[0]) * v @ v.T + np.exp(2 * theta[1]) * np.eye(30)
    expected = multivariate_normal(np.zeros(30), covariance).logpdf(data["y"])
    assert np.isclose(experiment.exact_log_evidence(theta, data), expected, rtol=1e-6)
    best = experiment.maximiser(data)
    assert experiment.exact_log_evidence(best, data) >= experiment.exact_log_evidence(best + 0.01, data)


def test_a_few_repeats_know_their_evidence_on_the_way():
    data = experiment.simulate("gaussian", 200, 6, seed=0)
    record = experiment.against_exact(experiment.climb("gaussian", data, seed=0, num_steps=50), data)
    first, last = np.array(record["log_evidence_errors"]).T
    assert record["steps"] == [0, 50] and np.allclose(first, 0, atol=1e-3)
    assert abs(last.mean()) < 4 * last.std(ddof=1) / np.sqrt(6)


def found(truth, log_bayes_factors, **more):
    return {
        f"{truth}, 500 rows": {"truth": truth, "rows": 500, "log_bayes_factors": log_bayes_factors, **more}
    }


def test_the_verdict_counts_how_often_the_truth_is_chosen():
    assert experiment.judge(found("student", [3.0] * 99 + [-1.0]) | exact()).agrees
    assert not experiment.judge(found("student", [3.0] * 90 + [-1.0] * 10) | exact()).agrees


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
