"""Integration over deviations: masses against quadrature, evidences against dense ones."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.errors import ConfigurationError, EstimationError
from evidentia.evidence.laplace import Laplace
from evidentia.regression.coordinates import logs_of, places_of
from evidentia.regression.deviations import OverDeviations
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.peak import climb

FORMULA = "y ~ x + (1 | a) + (1 | b)"


def crossed_table(seed, num_rows=40, levels=(6, 4)):
    """Rows of two factors, whose deviations are drawn; in half of the tables one is nearly 0."""
    generator = np.random.default_rng(seed)
    deviations = generator.exponential(1, 2) * generator.choice([0.1, 1], 2)
    a, b = (generator.integers(0, count, num_rows) for count in levels)
    x = generator.normal(size=num_rows)
    effects = [sd * generator.normal(size=count) for sd, count in zip(deviations, levels, strict=True)]
    y = 0.5 * x + effects[0][a] + effects[1][b] + generator.normal(size=num_rows)
    return pd.DataFrame({"y": y, "x": x, "a": a, "b": b})


def integrand_of(formula, table, **options):
    """The integrand of a regression, its arrays, and the regression's prior."""
    regression = ev.Regression(formula, prior="normal", **options)
    asked = regression.prepared(frame_of(parse(formula), table), table, Laplace())
    return asked.model.log_likelihood.integrand(asked.arrays), asked


class Dense(NamedTuple):
    """Covariances of rows that each part of a model adds, for one unit of its variance."""

    y: np.ndarray
    a: np.ndarray
    b: np.ndarray
    coefficients: np.ndarray


def dense_of(table):
    y = ((table["y"] - table["y"].mean()) / table["y"].std(ddof=0)).to_numpy()
    x = (table["x"] - table["x"].mean()) / table["x"].std(ddof=0)
    columns = np.column_stack([np.ones(len(y)), x])
    a, b = ((table[name].to_numpy()[:, None] == table[name].to_numpy()).astype(float) for name in "ab")
    return Dense(y, a, b, 2.5**2 * columns @ columns.T)


def test_a_mass_is_the_integral_over_scale_and_coefficients():
    table = crossed_table(0)
    integrand, _ = integrand_of(FORMULA, table)
    dense, ratios = dense_of(table), np.array([0.7, 0.05])
    point = places_of(np.log(ratios) - integrand.coordinates.least)

    def density(log_scale):
        sds = np.exp(log_scale) * ratios
        rows = np.exp(2 * log_scale) * np.eye(40) + sds[0] ** 2 * dense.a + sds[1] ** 2 * dense.b
        value = multivariate_normal.logpdf(dense.y, np.zeros(40), rows + dense.coefficients)
        jacobian = log_scale + np.log(sds).sum() + logs_of(point)[1].sum()
        return np.exp(value + 50 - np.exp(log_scale) - sds.sum() + jacobian)

    truth = np.log(quad(density, -3, 2, epsabs=0, epsrel=1e-8, limit=200)[0]) - 50
    assert integrand.at(point).log_mass == pytest.approx(truth, abs=1e-5)


def test_draws_at_a_point_have_the_moments_of_its_mass():
    table = crossed_table(1)
    integrand, _ = integrand_of(FORMULA, table)
    given = integrand.at(np.zeros(2))
    drawn, log_weights = given.draw(np.random.default_rng(0), 20_000)
    ratios = np.exp(integrand.coordinates.least)
    assert np.allclose(drawn["sd(Intercept|a)"] / drawn["scale"], ratios[0])
    logs, law = np.log(drawn["scale"]), given.law
    mean = law.shares @ law.log_scales
    deviation = np.sqrt(law.shares @ (law.log_scales - mean) ** 2)
    assert abs(logs.mean() - mean) < 5 * deviation / np.sqrt(20_000)
    dense, scale = dense_of(table), np.exp(mean)
    rows = np.eye(40) + ratios[0] ** 2 * dense.a + ratios[1] ** 2 * dense.b
    x = ((table["x"] - table["x"].mean()) / table["x"].std(ddof=0)).to_numpy()
    columns = np.column_stack([np.ones(40), x])
    precision = columns.T @ np.linalg.solve(scale**2 * rows, columns) + np.eye(2) / 2.5**2
    means = np.linalg.solve(precision, columns.T @ np.linalg.solve(scale**2 * rows, dense.y))
    slopes = drawn["effects"][:, 0]
    width = np.sqrt(np.linalg.inv(precision)[1, 1])
    assert abs(slopes.mean() - means[1]) < 0.1 * width
    assert slopes.std() == pytest.approx(width, rel=0.1)
    assert np.allclose(log_weights, 0, atol=1e-6)  # the prior is normal


def test_the_line_of_deviations_has_an_inverse_and_its_slope():
    places = np.linspace(-4, 3, 29)
    logs, log_slopes = logs_of(places)
    assert np.allclose(places_of(logs), places)
    assert np.allclose((logs_of(places + 1e-6)[0] - logs_of(places - 1e-6)[0]) / 2e-6, np.exp(log_slopes))
    assert np.allclose(np.asarray(logs_of(jnp.asarray(places))[0]), logs, atol=1e-5)


def test_a_climb_finds_a_peak_and_its_curvature():
    precision = np.array([[40.0, -12.0], [-12.0, 9.0]])
    target = np.array([1.5, -2.0])
    peak = climb(lambda point: -0.5 * float((point - target) @ precision @ (point - target)), [np.zeros(2)])
    assert np.allclose(peak.precision, precision, rtol=1e-6)
    assert 0.5 * (peak.centre - target) @ precision @ (peak.centre - target) < 0.02
    flat = climb(lambda point: -0.5 * point[0] ** 2 - 1e-4 * point[1] ** 2, [np.array([2.0, 0.0])])
    assert flat.precision[1, 1] == pytest.approx(0.25)


def test_a_climb_says_where_there_is_no_peak():
    with pytest.raises(EstimationError, match="not finite at any start"):
        climb(lambda point: -np.inf, [np.zeros(2), np.ones(2)])
    with pytest.raises(EstimationError, match="did not end"):
        climb(lambda point: float(point[0]), [np.zeros(1)])


def evidence_by_grid(table):
    """Legendre's nodes in log σ and the logarithms of both deviations; dense normal densities."""
    dense, size = dense_of(table), len(table)

    def nodes(low, high, count):
        places, shares = np.polynomial.legendre.leggauss(count)
        return low + (high - low) * (places + 1) / 2, np.log(shares * (high - low) / 2)

    (scales, of_scale), (sds, of_sd) = nodes(np.log(0.04), np.log(1.7), 25), nodes(-9.0, 2.5, 33)
    found = []
    for scale, log_share in zip(scales, of_scale, strict=True):
        for first, log_first in zip(sds, of_sd, strict=True):
            rows = np.exp(2 * scale) * np.eye(size) + np.exp(2 * first) * dense.a + dense.coefficients
            lower = np.linalg.cholesky(rows + np.exp(2 * sds)[:, None, None] * dense.b)
            solved = np.linalg.solve(lower, np.broadcast_to(dense.y[:, None], (len(sds), size, 1)))[:, :, 0]
            value = -0.5 * size * np.log(2 * np.pi) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
            prior = scale - np.exp(scale) + first - np.exp(first) + sds - np.exp(sds)
            found.append(value - 0.5 * (solved**2).sum(1) + prior + log_share + log_first + of_sd)
    found = np.concatenate(found)
    return found.max() + np.log(np.exp(found - found.max()).sum()) - size * np.log(table["y"].std(ddof=0))


@pytest.mark.slow
def test_the_evidence_is_that_of_a_grid():
    table = crossed_table(2, 24)
    found = ev.estimate(ev.Regression(FORMULA, prior="normal"), table)
    assert isinstance(found.method, OverDeviations) and found.verdict.word == "trusted"
    assert abs(found.log_evidence - evidence_by_grid(table)) < 4 * found.standard_error < 0.12


@pytest.mark.reference
def test_of_twenty_tables_none_is_wrong_without_a_sign():
    apart = []
    for seed in range(20):
        table = crossed_table(seed)
        found = ev.estimate(ev.Regression(FORMULA, prior="normal"), table, seed=seed)
        apart.append((found.log_evidence - evidence_by_grid(table)) / found.standard_error)
        assert abs(apart[-1]) < 4 or found.verdict.word != "trusted"
    assert np.sqrt(np.mean(np.square(apart))) < 1.5  # 0.05% by chance, of 20


@pytest.mark.slow
def test_replaced_priors_are_those_of_the_integrand():
    table = crossed_table(3)
    priors = {
        "x": dist.StudentT(3.0, 0.5, 0.3),
        "sd(Intercept|b)": dist.HalfNormal(0.4),
        "scale": dist.Gamma(2, 2),
    }
    regression = ev.Regression(FORMULA, prior="normal", priors=priors)
    found = ev.estimate(regression, table)
    other = ev.estimate(regression, table, method=ev.SGAIS())
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * joint < 0.5


@pytest.mark.slow
def test_correlated_slopes_and_three_factors_are_those_of_another_method():
    generator = np.random.default_rng(5)
    table = crossed_table(4, 150, (12, 8)).assign(c=generator.integers(0, 5, 150))
    regression = ev.Regression("y ~ x + (x | a) + (x || b) + (1 | c)", prior="normal")
    found = ev.estimate(regression, table)
    other = ev.estimate(regression, table, method=ev.SGAIS())
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * joint < 0.6


def test_the_number_of_particles_is_checked():
    with pytest.raises(ConfigurationError, match="num_particles must be"):
        OverDeviations(num_particles=1)
