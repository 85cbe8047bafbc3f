"""Autoregressions: the evidence from that of the regression on lagged values, and their data."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

import evidentia as ev


def exact_log_evidence(y, order):
    """∫ p(y | X, σ) InverseGamma(σ²; 1, 1) dσ², with lagged values as X, over a grid of log σ²."""
    lags = np.stack([y[order - lag : -lag] for lag in range(1, order + 1)], axis=1)
    data, logs = {"x": lags, "y": y[order:]}, np.linspace(-5, 6, 401)
    log_prior = -logs - np.exp(-logs) - gammaln(1)  # of the logarithm of σ²
    terms = [
        ev.models.linear_regression(order, noise_scale=float(np.exp(each / 2))).exact_log_evidence(data)
        for each in logs
    ]
    return logsumexp(np.array(terms) + log_prior) + np.log(logs[1] - logs[0])


def test_the_likelihood_is_that_of_each_value_given_those_before():
    """The first two values are given."""
    params = {"intercept": 0.5, "coefficients": np.array([0.6, -0.2]), "variance": 4.0}
    y = np.array([1.0, -1.0, 0.5, 2.0], np.float32)
    means = [0.5 + 0.6 * -1.0 - 0.2 * 1.0, 0.5 + 0.6 * 0.5 - 0.2 * -1.0]
    found = ev.models.autoregression(2).log_likelihood(params, {"y": y})
    np.testing.assert_allclose(found, norm(means, 2.0).logpdf(y[2:]).sum(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
def test_the_evidence_is_that_of_a_regression_on_the_values_before(order):
    model = ev.models.autoregression(order)
    data, _ = model.simulate(60, seed=0)
    found = ev.estimate(model, data)
    exact = exact_log_evidence(data["y"].astype(float), order)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1


def test_simulated_series_have_their_mean_and_spread():
    data, params = ev.models.autoregression(1, many_sequences=True).simulate(2_000, seed=1)
    slope = params["coefficients"][0]
    deviation = np.sqrt(params["variance"] / (1 - slope**2))
    last = data["y"][:, -1]
    assert abs(last.mean() - params["intercept"] / (1 - slope)) < 4 * deviation / np.sqrt(2_000)
    assert abs(last.std() / deviation - 1) < 4 / np.sqrt(2 * 2_000)


def test_bad_arguments_and_data_are_named():
    with pytest.raises(ev.ConfigurationError, match="order must be an integer of at least 1; got 0"):
        ev.models.autoregression(0)
    with pytest.raises(ev.DataError, match=r"more values than order=3, .*; got data\['y'\] of shape \(3,\)"):
        ev.estimate(ev.models.autoregression(3), {"y": np.zeros(3)})
    with pytest.raises(ev.DataError, match=r"data\['y'\] has NaN or infinite values in 1 of 4 rows"):
        ev.estimate(ev.models.autoregression(1), {"y": np.array([0, 1, np.nan, 2])})
