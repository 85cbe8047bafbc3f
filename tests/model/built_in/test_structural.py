"""Structural time series: multivariate normal densities, evidence by quadrature, data."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.model.built_in.structural import Parts, moved, system_of

NONE = Parts(level=True, trend=False, seasonal=0, autoregression=0, num_features=0)


def covariance(parts, params, x):
    """Cov(y) = Z Cov(states) Zᵀ + variance I, with Cov(s_u, s_t) = transition^{u-t} Cov(s_t)."""
    noise, start, observed, variance = (np.asarray(each, float) for each in system_of(parts, params))
    transition = np.asarray(moved(parts, params, np.eye(len(start), dtype=np.float32)), float)
    rows = np.concatenate([np.tile(observed, (len(x), 1)), x], axis=1)
    of_states = np.zeros((len(x), len(start), len(x), len(start)))
    now = np.diag(start)
    for t in range(len(x)):
        later = now
        for u in range(t, len(x)):
            of_states[u, :, t], of_states[t, :, u] = later, later.T
            later = transition @ later
        now = transition @ now @ transition.T + np.diag(noise)
    return np.einsum("ti,tiuj,uj->tu", rows, of_states, rows) + variance * np.eye(len(x))


@pytest.mark.parametrize(
    "parts",
    [
        NONE,
        NONE._replace(trend=True),
        NONE._replace(seasonal=4),
        NONE._replace(level=False, autoregression=2),
        NONE._replace(trend=True, seasonal=3, autoregression=2, num_features=2),
    ],
)
def test_the_filter_gives_the_multivariate_normal_of_the_observations(parts):
    """Without the missing values, which the filter passes over."""
    model = ev.models.state_space(**parts._asdict())
    data, params = model.simulate(30, seed=3)
    data["y"][[0, 7, 8, 29]] = np.nan
    known = ~np.isnan(data["y"])
    whole = covariance(parts, params, data.get("x", np.zeros((30, 0))))
    exact = multivariate_normal(cov=whole[np.ix_(known, known)]).logpdf(data["y"][known])
    np.testing.assert_allclose(model.log_likelihood(params, data), exact, atol=1e-3)


def test_a_small_noise_leaves_the_covariance_positive():
    """Noise of a deviation of 10⁻⁴, where P - k zᵀP has no digits in float32."""
    params = {"noise_scale": np.float32(1e-4), "level_scale": np.float32(1e-3)}
    y = np.cumsum(1e-3 * np.random.default_rng(0).normal(size=200)).astype(np.float32)
    exact = multivariate_normal(cov=covariance(NONE, params, np.zeros((200, 0)))).logpdf(y)
    np.testing.assert_allclose(ev.models.state_space().log_likelihood(params, {"y": y}), exact, atol=0.05)


def exact_local_level(y, size=240):
    """The evidence of a local level: trapezoidal rule over the logarithms of both scales."""
    logs = np.linspace(-12, 2.2, size)
    noise, level = np.meshgrid(np.exp(logs), np.exp(logs), indexing="ij")
    total = np.log(2 / np.pi) - 0.5 * (noise**2 + level**2) + np.log(noise * level)
    mean, variance = np.zeros_like(noise), np.full_like(noise, 4.0)
    for value in y:
        if not np.isnan(value):
            of_value = variance + noise**2
            total -= 0.5 * ((value - mean) ** 2 / of_value + np.log(2 * np.pi * of_value))
            mean = mean + variance / of_value * (value - mean)
            variance = variance * noise**2 / of_value
        variance = variance + level**2
    return logsumexp(total) + 2 * np.log(logs[1] - logs[0])


def local_level(seed, length=60):
    data, _ = ev.models.state_space().simulate(length, seed)
    data["y"][20:25] = np.nan
    return data


@pytest.mark.slow
def test_the_evidence_is_that_of_a_quadrature_over_the_scales():
    data = local_level(seed=2)
    found = ev.estimate(ev.models.state_space(), data)
    exact = exact_local_level(data["y"].astype(float))
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1
    assert found.num_observations == 60


@pytest.mark.reference
def test_standard_errors_cover_the_evidence_of_many_series():
    """20 series: the root mean square of 20 standard normals is below 1.5 but for 1 in 10⁴."""
    scores = []
    for seed in range(20):
        data = local_level(seed)
        found = ev.estimate(ev.models.state_space(), data, seed=seed)
        scores.append(
            (found.log_evidence - exact_local_level(data["y"].astype(float))) / found.standard_error
        )
    assert np.sqrt(np.mean(np.square(scores))) < 1.5


def test_many_series_are_independent():
    many = ev.models.state_space(many_sequences=True, num_features=1)
    data, params = many.simulate(3, seed=0)
    assert data["y"].shape == (3, 100) and data["x"].shape == (3, 100, 1)
    one = ev.models.state_space(num_features=1)
    expected = [
        one.log_likelihood(params, {name: array[i] for name, array in data.items()}) for i in range(3)
    ]
    np.testing.assert_allclose(many.log_likelihood(params, data), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seasonal": 1}, "seasonal must be a period of at least 2 rows, or 0 for none; got 1"),
        ({"level": False, "trend": True}, "trend=True needs level=True"),
        ({"level": False}, "needs a level, seasons, an autoregression or features; got none"),
        ({"autoregression": -1}, "autoregression must be an integer of at least 0; got -1"),
        ({"trend": 2}, "trend must be True or False; got 2"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.models.state_space(**arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": np.zeros(5)}, "the model needs data with 'x', 'y'; got 'y'"),
        ({"y": np.zeros(5), "x": np.zeros((5, 2))}, r"must have shape \(T, 1\), .* \(5,\); got \(5, 2\)"),
        (
            {"y": np.zeros(5), "x": np.full((5, 1), np.nan)},
            r"data\['x'\] has NaN or infinite values in 5 of 5",
        ),
    ],
)
def test_bad_data_are_named(data, message):
    with pytest.raises(ev.DataError, match=message):
        ev.estimate(ev.models.state_space(num_features=1), data)


T = np.arange(40.0)


@pytest.mark.parametrize(
    ("parts", "data"),
    [
        ({}, {"y": np.where(T == 3, np.nan, 2.0)}),
        ({"trend": True, "seasonal": 4, "autoregression": 1}, {"y": 0.1 * T + T % 4}),
        ({"num_features": 1}, {"y": 3 * np.sin(T) + 1, "x": np.sin(T)[:, None]}),
        ({"many_sequences": True}, {"y": np.ones((3, 40)) * np.arange(3)[:, None]}),
    ],
)
def test_a_series_without_noise_has_no_finite_evidence(parts, data):
    """∫ s^(m - n + k - 1) ds diverges at 0; a single value that is no fit bounds the density."""
    model = ev.models.state_space(**parts)
    with pytest.raises(ev.DataError, match=r"fitted exactly by the states .* the evidence is infinite"):
        ev.estimate(model, data)
    data["y"][..., -1] += 1e-3
    model.check_data(data)


def test_few_values_are_fitted_by_any_model():
    ev.models.state_space().check_data({"y": np.ones(2)})
