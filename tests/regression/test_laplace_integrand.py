"""Crossed effects of binary and count responses: masses and weights against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, gammaln

import evidentia as ev
from evidentia.errors import DataError
from evidentia.posterior.rows import Window
from evidentia.posterior.units import bound_to
from evidentia.regression.deviations import OverDeviations
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of

FORMULA = "y ~ 1 + (1 | a) + (1 | b)"


def table_of(family, seed=0, num_rows=60, levels=(7, 2)):
    """Rows of two factors whose effects have deviation 0.7."""
    generator = np.random.default_rng(seed)
    a, b = (generator.integers(0, count, num_rows) for count in levels)
    predictor = 0.3 + 0.7 * generator.normal(size=levels[0])[a] + 0.7 * generator.normal(size=levels[1])[b]
    if family == "bernoulli":
        y = (generator.uniform(size=num_rows) < expit(predictor)).astype(int)
    else:
        y = generator.poisson(np.exp(predictor))
    return pd.DataFrame({"y": y, "a": a, "b": b})


def prepared_of(formula, family, table):
    """The regression's model and arrays, and the integrand over its deviations."""
    regression = ev.Regression(formula, family=family)
    asked = regression.prepared(frame_of(parse(formula), table), table, OverDeviations())
    units = bound_to(asked.model, asked.arrays)
    arrays = jax.tree.map(jnp.asarray, units.arrays)
    rows = Window(arrays, 0, jax.tree.leaves(arrays)[0].shape[0])
    assert asked.integrand_of is not None
    return asked, asked.integrand_of(units.model, rows)


def log_likelihood_by_nodes(family, table, sds):
    """A grid of the intercept, and Hermite's nodes of both effects of b and of each level of a."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(15)
    log_shares = np.log(shares / np.sqrt(2 * np.pi))
    grid = np.linspace(-4.0, 4.0, 81)
    of_grid = np.log(0.1) - 0.5 * (grid / 2.5) ** 2 - np.log(2.5 * np.sqrt(2 * np.pi))
    y, level = table["y"].to_numpy(), np.eye(7)[table["a"].to_numpy()]

    def density(predictor):
        if family == "bernoulli":
            return y[:, None] * predictor - np.logaddexp(0, predictor)
        return y[:, None] * predictor - np.exp(predictor) - gammaln(y + 1)[:, None]

    intercept, first, second = (one.ravel() for one in np.meshgrid(grid, nodes, nodes, indexing="ij"))
    fixed = intercept + sds[1] * np.stack([first, second])[table["b"].to_numpy()]
    by_node = [
        log + level.T @ density(fixed + sds[0] * node) for node, log in zip(nodes, log_shares, strict=True)
    ]
    total = np.logaddexp.reduce(by_node, axis=0).sum(axis=0)
    weights = sum(one.ravel() for one in np.meshgrid(of_grid, log_shares, log_shares, indexing="ij"))
    return float(np.logaddexp.reduce(total + weights))


@pytest.mark.parametrize("family", [pytest.param("bernoulli", marks=pytest.mark.slow), "poisson"])
def test_mass_times_mean_weight_is_the_integral_over_effects_and_coefficients(family):
    table = table_of(family)
    _, integrand = prepared_of(FORMULA, family, table)
    point = integrand.starts[1]
    given = integrand.at(point)
    sds = np.array([0.5, 0.5])  # `STARTS`
    slopes = np.log(sds).sum() + np.log1p(-np.minimum(point, 0)).sum()
    truth = log_likelihood_by_nodes(family, table, sds) - sds.sum() + slopes
    _, log_weights = given.draw(np.random.default_rng(0), 4000)
    shares = np.exp(log_weights)
    error = shares.std() / shares.mean() / np.sqrt(len(shares))
    assert given.log_mass == pytest.approx(truth, abs=0.25)  # Laplace's approximation itself
    assert abs(given.log_mass + np.log(shares.mean()) - truth) < 4 * error + 1e-3
    assert error < 0.02


def test_a_mode_is_where_the_density_no_longer_rises():
    table = table_of("poisson", 1)
    _, integrand = prepared_of(FORMULA, "poisson", table)
    given = integrand.at(integrand.starts[2])
    expanded = integrand.responses.expand(given.mode.predictor)
    assert np.all(expanded.weights > 0)
    for one, root, effects in zip(
        integrand.coordinates.factors, given.roots, given.mode.effects, strict=True
    ):
        slopes = np.bincount(one.codes, expanded.slopes)[:, None] @ root - effects
        assert np.max(np.abs(slopes)) < 1e-2
    generator = np.random.default_rng(0)
    for _ in range(20):
        near = integrand._mode(
            given.roots,
            given.mode.coefficients + 0.05 * generator.normal(size=1),
            tuple(one + 0.05 * generator.normal(size=one.shape) for one in given.mode.effects),
        )
        assert near.height < given.mode.height


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_the_evidence_is_that_of_another_method(family):
    table = table_of(family, 2, 300, (30, 12))
    asked, _ = prepared_of(FORMULA, family, table)
    method = OverDeviations(integrand_of=asked.integrand_of)
    found = ev.estimate(asked.model, asked.arrays, method=method)
    other = ev.estimate(ev.Regression(FORMULA, family=family), table)
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * joint < 0.4


@pytest.mark.reference
def test_many_effects_of_a_second_factor_are_eliminated():
    table = table_of("bernoulli", 3, 12_000, (700, 600))
    regression = ev.Regression(FORMULA, family="bernoulli")
    found = ev.estimate(regression, table)
    assert isinstance(found.method, OverDeviations)
    assert found.verdict.word == "trusted" or found.standard_error > 0.1
    effects = ev.group_effects(regression, found, table, factor="b")
    assert effects is not None and len(effects) == 600
    with pytest.raises(DataError, match="at most 500 in all"):
        ev.estimate(regression, table, method=ev.SGAIS())
