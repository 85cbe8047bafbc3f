"""Gaussian responses with crossed and nested factors: against one normal of all rows."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.errors import DataError
from evidentia.posterior.units import bound_to
from evidentia.regression import crossed
from evidentia.regression.elimination import eliminated, products_of
from evidentia.regression.formula import parse
from evidentia.regression.random_effects import random_effects_of

HALF = np.linalg.cholesky([[1.0, -0.4], [-0.4, 1.0]])
PARAMS = {
    "Intercept": 0.3,
    "scale": 0.8,
    "sd(Intercept|g)": 0.9,
    "sd(x|g)": 0.5,
    "cholesky(g)": HALF,
    "sd(Intercept|item)": 0.6,
    "sd(x|item)": 0.3,
    "cholesky(item)": HALF.T[::-1, ::-1],
    "sd(Intercept|day)": 0.4,
    "sd(Intercept|item:g)": 0.7,
}

PRIORS = {
    name: dist.LKJCholesky(2) if name.startswith("cholesky") else dist.Exponential(1.0)
    for name in PARAMS
    if name != "Intercept"
}


def table(num_rows=80):
    generator = np.random.default_rng(0)
    x = generator.normal(size=num_rows)
    group, item, day = (generator.integers(0, count, num_rows) for count in (9, 4, 3))
    y = (
        0.5 * x
        + generator.normal(size=9)[group]
        + generator.normal(size=4)[item]
        + generator.normal(size=num_rows)
    )
    return pd.DataFrame({"y": y, "x": x, "g": group, "item": item, "day": day})


def exact(formula):
    """The likelihood, the data, the columns of all effects, their covariance, and their levels."""
    rows = table()
    varying = random_effects_of(parse(formula), rows, is_gaussian=True)
    assert varying.is_exact and varying.of_parameters == ()
    data = {"y": rows["y"].to_numpy(np.float32), **crossed.arrays_of(varying.inner, varying.outer)}
    prior = {"Intercept": dist.Normal(0, 1)}
    likelihood = crossed.Crossed(
        lambda params, rows: params["Intercept"] + 0 * rows["y"],
        prior | PRIORS,
        varying.inner,
        varying.outer,
    )
    single = {f"cholesky({one.name})" for one in varying.factors if one.size == 1}
    own = {name for one in varying.factors for name in (*one.sd_names, *one.correlations)} - single
    names = {"Intercept", "scale", *own}
    params = {name: jnp.asarray(value, jnp.float32) for name, value in PARAMS.items() if name in names}
    likelihood = replace(likelihood, prior={name: likelihood.prior[name] for name in params})
    columns, factors = [], []
    for one in varying.factors:
        for level in range(len(one.levels)):
            columns.append(one.columns * (one.codes == level)[:, None])
            factors.append(np.asarray(one.factor(params), float))
    return likelihood, params, data, columns, factors


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + (1 | g) + (1 | item)",
        "y ~ x + (x | g) + (x | item) + (1 | day)",
        "y ~ x + (1 | item/g)",
    ],
)
def test_the_marginal_likelihood_is_that_of_all_rows(formula):
    likelihood, params, data, columns, factors = exact(formula)
    covariance = 0.64 * np.eye(80)
    for column, factor in zip(columns, factors, strict=True):
        covariance += column @ factor @ factor.T @ column.T
    truth = multivariate_normal.logpdf(data["y"], np.full(80, 0.3), covariance)
    assert float(jax.jit(likelihood)(params, data)) == pytest.approx(truth, abs=2e-3)


def test_the_moments_of_effects_are_those_of_a_conjugate_regression():
    likelihood, params, data, columns, factors = exact("y ~ x + (x | g) + (x | item) + (1 | day)")
    scaled = np.concatenate(
        [column @ factor for column, factor in zip(columns, factors, strict=True)], axis=1
    )
    covariance = np.linalg.inv(np.eye(scaled.shape[1]) + scaled.T @ scaled / 0.64)
    mean = covariance @ scaled.T @ (data["y"] - 0.3) / 0.64
    first = 0
    moments = likelihood.given(data).moments(params)
    for one in (likelihood.inner, *likelihood.outer):
        for level in range(len(one.levels)):
            place = slice(first, first + one.size)
            factor = one.at_zero @ np.asarray(one.factor(params), float)
            found = moments[one.name]
            assert np.allclose([found[name][0][level] for name in one.names], factor @ mean[place], atol=1e-4)
            variances = np.diag(factor @ covariance[place, place] @ factor.T)
            assert np.allclose([found[name][1][level] for name in one.names], variances, atol=1e-4)
            first += one.size
    assert first == scaled.shape[1]


def test_draws_of_effects_have_these_moments():
    likelihood, params, data, *_ = exact("y ~ x + (x | g) + (x | item) + (1 | day)")
    given, generator = likelihood.given(data), np.random.default_rng(1)
    shapes = {one.name: (len(one.levels), one.size) for one in (likelihood.inner, *likelihood.outer)}
    drawn = [
        given.drawn(params, {name: generator.standard_normal(shape) for name, shape in shapes.items()})
        for _ in range(400)
    ]
    moments = given.moments(params)
    for one in (likelihood.inner, *likelihood.outer):
        back = one.at_zero @ np.asarray(one.factor(params), float)
        effects = np.stack([each[one.name] @ back.T for each in drawn])
        for index, name in enumerate(one.names):
            mean, variance = moments[one.name][name]
            assert np.all(np.abs(effects[:, :, index].mean(0) - mean) < 5 * np.sqrt(variance / 400))
            assert np.allclose(effects[:, :, index].var(0) / variance, 1, atol=5 * np.sqrt(2 / 400))


DESIGNS = {
    "crossed": lambda rows: (rows % 7, rows // 3 % 5),
    "nested by accident": lambda rows: (rows % 8, rows % 8 // 2),
    "the same twice": lambda rows: (rows % 6, rows % 6),
    "levels seen once": lambda rows: (rows, rows % 4),
    "many and few rows": lambda rows: (np.where(rows < 30, rows % 2, rows), rows % 3),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_elimination_is_that_of_a_dense_matrix_for_any_design(design):
    generator, rows = np.random.default_rng(3), np.arange(48)
    a, b = DESIGNS[design](rows)
    found = pd.DataFrame({"y": generator.normal(size=48), "x": generator.normal(size=48), "a": a, "b": b})
    varying = random_effects_of(parse("y ~ (x | a) + (x | b)"), found, is_gaussian=True)
    columns = generator.normal(size=(48, 3))
    products = products_of(varying.inner, varying.outer, [columns[:20], columns[20:]])
    factors = [np.array([[1.5, 0.0], [-0.4, 0.7]]), np.array([[30.0, 0.0], [0.2, 1e-3]])]
    effects = [
        one.columns * (one.codes == level)[:, None] @ factor
        for one, factor in zip(varying.factors, factors, strict=True)
        for level in range(len(one.levels))
    ]
    both = np.concatenate(effects, axis=1)
    covariance = np.eye(48) + both @ both.T
    solved = eliminated(products, factors)
    assert solved.log_det == pytest.approx(np.linalg.slogdet(covariance)[1], abs=1e-8)
    assert np.allclose(solved.gram, columns.T @ np.linalg.solve(covariance, columns), rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_the_evidence_is_that_of_effects_as_parameters():
    rows = table(60)
    regression = ev.Regression("y ~ x + (1 | g) + (1 | item)", prior="normal")
    found = ev.estimate(regression, rows)
    assert "effects(item)" not in found.posterior and found.num_observations == 60
    standard = ((rows["y"] - rows["y"].mean()) / rows["y"].std(ddof=0)).to_numpy(np.float32)
    x = ((rows["x"] - rows["x"].mean()) / rows["x"].std(ddof=0)).to_numpy(np.float32)

    def log_likelihood(params, batch):
        effects = params["sd_g"] * params["u"][batch["g"]] + params["sd_item"] * params["v"][batch["item"]]
        return dist.Normal(params["a"] + params["b"] * batch["x"] + effects, params["scale"]).log_prob(
            batch["y"]
        )

    one, width = dist.Exponential(1.0), dist.Normal(0, 2.5)
    prior = {"a": width, "b": width, "scale": one, "sd_g": one, "sd_item": one}
    prior |= {"u": dist.Normal(0, 1).expand([9]).to_event(1), "v": dist.Normal(0, 1).expand([4]).to_event(1)}
    data = {"y": standard, "x": x, "g": rows["g"], "item": rows["item"]}
    other = ev.estimate(ev.Model(prior, log_likelihood), data)
    shift = 60 * np.log(rows["y"].std(ddof=0))
    joint = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence + shift - other.log_evidence) < 4 * joint < 0.8
    items = ev.group_effects(regression, found, rows, factor="item")
    assert list(items.columns) == ["Intercept", "Intercept (sd)"] and len(items) == 4


def test_several_factors_of_other_families_have_a_limit():
    rows = pd.DataFrame({"y": np.arange(1400) % 2, "a": np.arange(1400) // 2, "b": np.arange(1400) % 600})
    with pytest.raises(DataError, match="b has 600 levels"):
        random_effects_of(parse("y ~ (1 | a) + (1 | b)"), rows)
    assert random_effects_of(parse("y ~ (1 | a) + (1 | b)"), rows, is_gaussian=True).is_exact


def test_starts_are_possible_under_replaced_priors():
    prior = {"scale": dist.Uniform(0.5, 0.6), "sd(x|g)": dist.Exponential(1.0), "x": dist.LogNormal(0, 1)}
    prior["cholesky(g)"] = dist.LKJCholesky(2)
    for size, start in zip((0.3, 0.8), crossed.starts_of(prior), strict=True):
        assert 0.5 < start["scale"] < 0.6 and start["sd(x|g)"] == size and start["x"] > 0
        assert np.array_equal(start["cholesky(g)"], np.eye(2))


def test_a_likelihood_that_takes_long_starts_where_it_is_told():
    bound = bound_to(
        ev.Model(
            {"mu": dist.Normal(0, 1)},
            lambda params, data: -0.5 * jnp.sum((data["y"] - params["mu"]) ** 2),
            pointwise=False,
            starts=({"mu": 0.25},),
        ),
        {"y": np.ones(4, np.float32)},
    )
    assert [float(one[0]) for one in bound.model.starts] == [0.25]
