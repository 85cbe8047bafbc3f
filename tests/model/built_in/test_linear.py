"""Linear regression: its exact evidence, likelihood, simulation and checks."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from evidentia.errors import ConfigurationError, DataError
from evidentia.model.built_in import linear_regression
from evidentia.model.built_in.linear import ROWS_AT_ONCE


@pytest.mark.parametrize(("num_observations", "noise_scale"), [(2, 1.0), (30, 1.0), (30, 0.2), (200, 3.0)])
def test_exact_log_evidence_is_the_density_of_the_marginal_normal(num_observations, noise_scale):
    model = linear_regression(3, noise_scale)
    data, _ = model.simulate(num_observations, 0)
    design = np.column_stack([data["x"], np.ones(num_observations)]).astype(np.float64)
    covariance = noise_scale**2 * np.eye(num_observations) + design @ design.T
    expected = stats.multivariate_normal(np.zeros(num_observations), covariance).logpdf(data["y"])
    assert model.exact_log_evidence(data) == pytest.approx(expected, rel=1e-10)


def test_exact_log_evidence_of_more_rows_than_are_summed_at_once():
    model = linear_regression(2)
    data, _ = model.simulate(2 * ROWS_AT_ONCE + 7, 0)
    design, y = np.column_stack([data["x"], np.ones(len(data["y"]))]).astype(float), data["y"].astype(float)
    precision, projection = np.eye(3) + design.T @ design, design.T @ y
    squares = y @ y - projection @ np.linalg.solve(precision, projection)
    expected = -0.5 * (len(y) * np.log(2 * np.pi) + np.linalg.slogdet(precision)[1] + squares)
    assert model.exact_log_evidence(data) == pytest.approx(expected, rel=1e-12)


def test_log_likelihood_is_the_normal_density():
    model = linear_regression(2, noise_scale=0.5)
    data, params = model.simulate(50, 0)
    position = jnp.array(
        [*params["weights"], params["intercept"]]
    )  # real parameters are their own unconstrained vector
    mean = data["x"].astype(np.float64) @ params["weights"] + params["intercept"]
    expected = stats.norm(mean, 0.5).logpdf(data["y"])
    np.testing.assert_allclose(
        model.bind(data).log_likelihood(position, data), expected, rtol=1e-4, atol=1e-5
    )


def test_simulated_data_have_the_noise_asked_for():
    data, params = linear_regression(4, noise_scale=0.3).simulate(10_000, 1)
    residuals = data["y"] - data["x"] @ params["weights"] - params["intercept"]
    assert np.std(residuals) == pytest.approx(0.3, abs=4 * 0.3 / np.sqrt(2 * 10_000))
    assert data["x"].dtype == data["y"].dtype == np.float32


def test_a_seed_fixes_the_simulation():
    model = linear_regression(2)
    first, again, other = (model.simulate(5, seed)[0]["y"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


def test_equal_calls_share_a_model():
    assert linear_regression(3) is linear_regression(3, 1.0) is linear_regression(num_features=3)
    assert linear_regression(3) is not linear_regression(3, noise_scale=2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_features": 0}, "num_features must be an integer of at least 1; got 0"),
        ({"num_features": 2.5}, "num_features must be an integer of at least 1; got 2.5"),
        ({"num_features": True}, "num_features must be an integer of at least 1; got True"),
        ({"num_features": 2, "noise_scale": 0.0}, "noise_scale must be a positive number; got 0.0"),
        ({"num_features": 2, "noise_scale": float("nan")}, "noise_scale must be a positive number; got nan"),
        ({"num_features": 2, "noise_scale": "1"}, "noise_scale must be a positive number; got '1'"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        linear_regression(**arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(5), r"needs data as a mapping .*'x': \(n, 2\), 'y': \(n,\).* got ndarray"),
        ({"x": np.zeros((5, 2))}, "got the names 'x'"),
        ({"x": np.zeros((5, 2)), "y": np.zeros(5), "z": np.zeros(5)}, "got the names 'x', 'y', 'z'"),
        ({"x": np.zeros((5, 3)), "y": np.zeros(5)}, r"data\['x'\] must have shape \(n, 2\); got \(5, 3\)"),
        ({"x": np.zeros((5, 2)), "y": np.zeros((5, 1))}, r"data\['y'\] must have shape \(n,\); got \(5, 1\)"),
    ],
)
def test_data_of_another_form(data, message):
    with pytest.raises(DataError, match=message):
        linear_regression(2).check_data(data)


@pytest.mark.parametrize("name", ["x", "y"])
def test_values_whose_squares_overflow_float32_are_refused(name):
    data = {"x": np.ones((50, 1), np.float32), "y": np.ones(50, np.float32)}
    check = linear_regression(1).check_data
    check({**data, name: data[name] * 1e17})
    with pytest.raises(DataError, match=rf"data\['{name}'\] .*up to 1e\+19.*range of float32.*--standardise"):
        check({**data, name: data[name] * np.float32(1e19)})


def test_more_features_than_memory_are_refused():
    with pytest.raises(ConfigurationError, match=r"num_features=1,000,000,000,000 would need [\d,]+ GiB"):
        linear_regression(10**12)
