"""Stochastic volatility: the filter against integrals over paths, its measured error, evidence."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import evidentia as ev
from evidentia.estimation.inner_error import inner_error
from evidentia.model.built_in.volatility import recursion
from evidentia.posterior.rows import Window
from evidentia.posterior.units import bound_to
from tests.exact_volatility import exact_stochastic_volatility


def params_of(log_variance, persistence, volatility):
    values = {"log_variance": log_variance, "persistence": persistence, "volatility": volatility}
    return {name: np.float32(value) for name, value in values.items()}


def over_paths(y, log_variance, persistence, volatility, size):
    """log ∫ p(y | h) p(h) dh by Gauss–Hermite rules, with a normal variate for each t."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(size)
    log_weights, terms = np.log(weights / weights.sum()), []
    deviation = volatility / np.sqrt(1 - persistence**2)
    for path in itertools.product(range(size), repeat=len(y) - 1):
        h, total = log_variance + deviation * nodes, log_weights  # of the first, all nodes at once
        for index, value in zip((None, *path), y, strict=True):
            if index is not None:
                h = log_variance + persistence * (h - log_variance) + volatility * nodes[index]
                total = total + log_weights[index]
            if not np.isnan(value):
                total = total + stats.norm.logpdf(value, 0, np.exp(h / 2))
        terms.append(total)
    return logsumexp(terms)


@pytest.mark.parametrize("y", [[0.4], [1.0, -2.0], [0.5, np.nan, 3.0]])
def test_the_likelihood_is_the_integral_over_all_paths(y):
    exact = over_paths(np.array(y), 0.3, 0.8, 0.5, size=40)
    data = {"y": np.array(y, np.float32)}
    found = ev.models.stochastic_volatility().log_likelihood(params_of(0.3, 0.8, 0.5), data)
    np.testing.assert_allclose(found, exact, atol=1e-5)


@pytest.mark.parametrize(("persistence", "error"), [(0.9, 1e-3), (0.98, 1e-3), (0.995, 0.05)])
def test_the_grid_is_fine_enough_for_persistent_series(persistence, error):
    """300 rows, against eight times the points; float32 alone takes the first 10⁻³."""
    model = ev.models.stochastic_volatility()
    params = params_of(0.0, persistence, 0.2)
    draws = {name: value[None] for name, value in params.items()}
    data = {"y": model.predict(draws, {"y": np.zeros(300)}, 0)["y"][0].astype(np.float32)}
    exact = recursion(1024)(params, data)
    assert abs(model.log_likelihood(params, data) - exact) < error


def test_a_coarse_grid_is_reported():
    """Draws at a persistence of 0.9998, where 128 points are too far apart, of 300 rows."""
    model = ev.models.stochastic_volatility()
    params = params_of(0.0, 0.9998, 0.1)
    data = {"y": model.predict({k: v[None] for k, v in params.items()}, {"y": np.zeros(300)}, 0)["y"][0]}
    units = bound_to(model, data)
    position = np.asarray(units.model.unconstrain(params))
    found = inner_error(units.model, Window(units.arrays, 0, 1), np.tile(position, (64, 1)), np.zeros(64))
    assert found is not None and abs(found.shift) > 0.2
    assert "the integrals over hidden states are uncertain by" in found.signs["coarse inner integrals"]


def series(seed):
    """Ten values in their own deviations, as nodes for all scales are few at a small one."""
    y = ev.models.stochastic_volatility().simulate(10, seed)[0]["y"]
    return {"y": y / y.std()}


@pytest.mark.slow
def test_the_evidence_is_that_of_a_quadrature_over_the_parameters():
    data = series(seed=0)
    found = ev.estimate(ev.models.stochastic_volatility(), data)
    exact = exact_stochastic_volatility(data["y"].astype(float), count=30, points=300)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1
    assert abs(found.diagnostics["inner_shift"]) < found.standard_error / 2


@pytest.mark.reference
def test_standard_errors_cover_the_evidence_of_many_series():
    """20 series: the root mean square of 20 standard normals is below 1.5 but for 1 in 10⁴."""
    scores = []
    for seed in range(20):
        data = series(seed)
        found = ev.estimate(ev.models.stochastic_volatility(), data, seed=seed)
        exact = exact_stochastic_volatility(data["y"].astype(float), count=30, points=300)
        scores.append((found.log_evidence - exact) / found.standard_error)
    assert np.sqrt(np.mean(np.square(scores))) < 1.5


def test_many_series_are_independent():
    many, one = ev.models.stochastic_volatility(many_sequences=True), ev.models.stochastic_volatility()
    data, params = many.simulate(3, seed=0)
    assert data["y"].shape == (3, 100)
    expected = [one.log_likelihood(params, {"y": y}) for y in data["y"]]
    np.testing.assert_allclose(many.log_likelihood(params, data), expected, rtol=1e-5)


def test_bad_data_are_named():
    with pytest.raises(ev.DataError, match=r"data\['y'\] must have shape \(T,\), .* got \(2, 3\)"):
        ev.estimate(ev.models.stochastic_volatility(), {"y": np.zeros((2, 3))})
    with pytest.raises(ev.DataError, match="must have an observation; all values are NaN"):
        ev.estimate(ev.models.stochastic_volatility(), {"y": np.full(3, np.nan)})
    with pytest.raises(ev.DataError, match="zero in all rows, without noise: the evidence is infinite"):
        ev.estimate(ev.models.stochastic_volatility(), {"y": np.zeros(30)})


def test_a_zero_has_a_density_where_the_variance_underflows():
    """log N(0; 0, exp(h)) = -(log 2π + h) / 2, also for h = -100, whose exp(-h) is no float32."""
    params = {
        "log_variance": jnp.float32(-100.0),
        "persistence": jnp.float32(0.5),
        "volatility": jnp.float32(1e-3),
    }
    value, gradient = jax.value_and_grad(recursion(16))(params, {"y": jnp.zeros(2)})
    np.testing.assert_allclose(value, 100 - np.log(2 * np.pi), rtol=1e-5)
    np.testing.assert_allclose(gradient["log_variance"], -1.0, rtol=1e-5)
