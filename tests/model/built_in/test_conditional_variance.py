"""GARCH: the recursion in plain loops, evidence by quadrature, data."""

import numpy as np
import pytest
from scipy import stats

import evidentia as ev
from tests.exact_volatility import exact_garch

PARAMS = {"mean": np.float32(0.1), "scale": np.float32(1.3), "shares": np.array([0.2, 0.7, 0.1], np.float32)}


@pytest.mark.parametrize("errors", ["normal", "student_t"])
def test_each_variance_is_a_mean_of_error_variance_and_one(errors):
    y = np.random.default_rng(0).normal(size=20).astype(np.float32)
    variance, exact = 1.3**2, 0.0
    for value in y:
        error = value - 0.1
        if errors == "normal":
            exact += stats.norm.logpdf(error, 0, np.sqrt(variance))
        else:  # six degrees of freedom, whose variance is 6/4
            exact += stats.t.logpdf(error, 6, 0, np.sqrt(variance * 4 / 6))
        variance = 0.2 * error**2 + 0.7 * variance + 0.1 * 1.3**2
    params = PARAMS if errors == "normal" else {**PARAMS, "tail": np.float32(4.0)}
    found = ev.models.garch(errors=errors).log_likelihood(params, {"y": y})
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def series(seed):
    """Ten standardised values: nodes for all means and scales are few at one of them."""
    y = ev.models.garch().simulate(10, seed)[0]["y"]
    return {"y": (y - y.mean()) / y.std()}


@pytest.mark.slow
def test_the_evidence_is_that_of_a_quadrature_over_the_parameters():
    data = series(seed=0)
    found = ev.estimate(ev.models.garch(), data)
    exact = exact_garch(data["y"].astype(float))
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1


@pytest.mark.reference
def test_standard_errors_cover_the_evidence_of_many_series():
    """20 series: the root mean square of 20 standard normals is below 1.5 but for 1 in 10⁴."""
    scores = []
    for seed in range(20):
        data = series(seed)
        found = ev.estimate(ev.models.garch(), data, seed=seed)
        scores.append((found.log_evidence - exact_garch(data["y"].astype(float))) / found.standard_error)
    assert np.sqrt(np.mean(np.square(scores))) < 1.5


@pytest.mark.parametrize("errors", ["normal", "student_t"])
def test_series_have_the_variance_scale_squared(errors):
    """Shares far from one of arch keep the fourth moment finite: 40,000 values in 400 series."""
    model = ev.models.garch(errors=errors)
    draws = {"mean": np.zeros(400), "scale": np.full(400, 1.5), "shares": np.tile([0.1, 0.3, 0.6], (400, 1))}
    draws |= {"tail": np.full(400, 8.0)} if errors == "student_t" else {}
    y = model.predict(draws, {"y": np.zeros(100)}, 0)["y"]
    assert y.shape == (400, 100)
    assert abs(np.mean(y**2) - 1.5**2) < 4 * np.std(np.mean(y**2, axis=1)) / np.sqrt(400)


def test_many_series_are_independent():
    many, one = ev.models.garch(many_sequences=True), ev.models.garch()
    data, params = many.simulate(3, seed=0)
    assert data["y"].shape == (3, 100)
    expected = [one.log_likelihood(params, {"y": y}) for y in data["y"]]
    np.testing.assert_allclose(many.log_likelihood(params, data), expected, rtol=1e-5)


def test_bad_arguments_and_data_are_named():
    with pytest.raises(ev.ConfigurationError, match="errors must be one of 'normal', 'student_t'; got 't'"):
        ev.models.garch(errors="t")
    with pytest.raises(ev.DataError, match=r"data\['y'\] must have shape \(T,\), .* got \(2, 3\)"):
        ev.estimate(ev.models.garch(), {"y": np.zeros((2, 3))})
    with pytest.raises(ev.DataError, match=r"data\['y'\] has NaN or infinite values in 1 of 2 rows"):
        ev.estimate(ev.models.garch(), {"y": np.array([0.1, np.nan])})


@pytest.mark.parametrize(("errors", "others"), [("normal", 0), ("student_t", 10)])
def test_equal_values_without_noise_have_no_finite_evidence(errors, others):
    """40 values with Student t errors: 10 others are too few, as 30 - 2 · 10 > 4; 13 are not."""
    y = np.where(np.arange(40) < others, np.sin(np.arange(40)), 0.5)
    with pytest.raises(ev.DataError, match="the same value in .* of 40 rows, without noise: the evidence is"):
        ev.estimate(ev.models.garch(errors=errors), {"y": y})
    y[:13] = np.sin(np.arange(13))
    ev.models.garch(errors=errors).check_data({"y": y})
