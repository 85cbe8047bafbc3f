"""The experiment on error models in small: the exact evidence, and JALA-EM beside it on the way."""

import jax
import numpy as np
from scipy.stats import multivariate_normal

from experiments import latent_error_model as experiment


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


def test_a_few_repeats_know_their_evidence_on_the_way(monkeypatch):
    monkeypatch.setattr(experiment, "NUM_STEPS", 25)
    data = experiment.simulate("gaussian", 200, 6, seed=0)
    record = experiment.against_exact(experiment.climb("gaussian", data, seed=0), data)
    errors = record["log_evidence_error"]
    assert errors["steps"] == [0, 25] and errors["mean"][0] == 0
    assert abs(errors["mean"][1]) < 4 * errors["standard_deviation"][1] / np.sqrt(6)
