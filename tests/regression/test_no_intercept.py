"""Regressions without intercept: the predictor is 0 where all effects are, in every family."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy import special

import evidentia as ev
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.prediction import fitted
from evidentia.regression.table import as_table
from evidentia.regression.units import posterior_of

stats: Any = scipy.stats  # whose types are incomplete
log_sum: Any = special.logsumexp
ROWS = 40
GENERATOR = np.random.default_rng(3)
X = 1.5 + GENERATOR.standard_normal(ROWS)
OFFSET = 0.2 * GENERATOR.standard_normal(ROWS)
GROUP = np.resize(["a", "b", "c"], ROWS)
ETA = 0.7 * X + OFFSET
SIZE = np.sqrt(np.mean(X**2))  # the unit of x without an intercept
LEVELS = np.digitize(ETA + special.logit(GENERATOR.random(ROWS)), [0.0, 1.5])
SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])


def law_of_categories(eta):
    logits = np.column_stack([np.zeros(ROWS), eta, eta])
    return special.log_softmax(logits, axis=1)[np.arange(ROWS), LEVELS]


def law_of_ordered(eta):
    """With equal probabilities of the three levels at η = 0."""
    ends = np.array([-np.inf, special.logit(1 / 3), special.logit(2 / 3), np.inf])
    return np.log(special.expit(ends[LEVELS + 1] - eta) - special.expit(ends[LEVELS] - eta))


SHARE = GENERATOR.beta(5 * special.expit(ETA), 5 * special.expit(-ETA))
COUNTS = GENERATOR.poisson(np.exp(ETA))
BINARY = GENERATOR.random(ROWS) < special.expit(ETA)
TIMES = 3 * GENERATOR.gamma(3, np.exp(ETA) / 3)
LENGTHS = ETA + 2 + 0.5 * GENERATOR.standard_normal(ROWS)
SUCCESSES = GENERATOR.binomial(7, special.expit(ETA))
UNIT = (LENGTHS - OFFSET).std()

# The response, extra parameters in units of the model, and the log density of the rows given η.
LAWS = {
    "gaussian": (LENGTHS, {"scale": 0.4}, lambda eta: stats.norm(eta, 0.4 * UNIT).logpdf(LENGTHS)),
    "student-t": (
        LENGTHS,
        {"scale": 0.4, "degrees_of_freedom": 4.0},
        lambda eta: stats.t(4, eta, 0.4 * UNIT).logpdf(LENGTHS),
    ),
    "bernoulli": (BINARY.astype(int), {}, lambda eta: -np.logaddexp(0, np.where(BINARY, -eta, eta))),
    "binomial": (SUCCESSES, {}, lambda eta: stats.binom(7, special.expit(eta)).logpmf(SUCCESSES)),
    "poisson": (COUNTS, {}, lambda eta: stats.poisson(np.exp(eta)).logpmf(COUNTS)),
    "negative-binomial": (
        COUNTS,
        {"dispersion": 0.5},
        lambda eta: stats.nbinom(2, 1 / (1 + 0.5 * np.exp(eta))).logpmf(COUNTS),
    ),
    "gamma": (TIMES, {"dispersion": 0.5}, lambda eta: stats.gamma(2, scale=np.exp(eta) / 2).logpdf(TIMES)),
    "beta": (
        SHARE,
        {"dispersion": 0.2},
        lambda eta: stats.beta(5 * special.expit(eta), 5 * special.expit(-eta)).logpdf(SHARE),
    ),
    "categorical": (np.array(["low", "mid", "top"])[LEVELS], {}, law_of_categories),
    "ordinal": (LEVELS, {"probabilities": np.full(3, 1 / 3)}, law_of_ordered),
}


def table_of(response):
    return pd.DataFrame({"y": response, "x": X, "g": GROUP, "known": OFFSET, "n": 7})


def left_of(name):
    return "y | n ~ " if name == "binomial" else "y ~ "


def log_density(formula, name, effects):
    """Of the rows at effects in units of the model, for the table's values; and coefficients."""
    y, extra, _ = LAWS[name]
    regression = ev.Regression(formula, family=name, prior="normal")
    table = as_table(table_of(y), regression.variables)
    frame = frame_of(parse(formula), table)
    asked = regression.prepared(frame, table, None)
    assert isinstance(asked.model.prior, dict) and "Intercept" not in asked.model.prior
    params = {"effects": np.asarray(effects), **extra}
    rows = np.asarray(asked.model.log_likelihood(params, asked.arrays), np.float64)
    draws = {key: np.asarray(value)[None] for key, value in params.items()}
    coefficients = posterior_of(draws, frame, asked.response, asked.law)
    return rows + asked.response.log_jacobian, coefficients


@pytest.mark.parametrize("name", LAWS)
def test_nothing_is_added_to_the_predictor(name):
    """The likelihood of a line through the origin, with its coefficient, is that of SciPy."""
    has_offset = name != "categorical"
    effects = np.full((2, 1), 0.6) if name == "categorical" else np.array([0.6])
    formula = left_of(name) + "0 + x" + (" + offset(known)" if has_offset else "")
    found, coefficients = log_density(formula, name, effects)
    slope = float(coefficients["x"].flat[0])
    unit = UNIT if name in ("gaussian", "student-t") else 1.0
    assert slope == pytest.approx(0.6 * unit / SIZE)
    exact = LAWS[name][2](slope * X + (OFFSET if has_offset else 0.0))
    np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "gamma"])
def test_each_level_of_a_factor_has_its_own_predictor(name):
    found, coefficients = log_density(f"{left_of(name)}0 + g", name, np.array([0.3, -0.2, 0.5]))
    eta = np.array([float(coefficients[f"g[{level}]"][0]) for level in GROUP])
    scale = LENGTHS.std() / UNIT if name == "gaussian" else 1.0  # there is no offset here
    exact = stats.norm(eta, 0.4 * scale * UNIT).logpdf(LENGTHS) if name == "gaussian" else LAWS[name][2](eta)
    np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-5)


def test_a_response_without_effects_is_about_zero():
    """`d ~ 0`: one integral over the scale; the mean of its prior is the response's deviation."""
    unit, squares, log_scale = SLEEP.std(), np.sum(SLEEP**2), np.linspace(-5, 6, 20_001)
    log_terms = -5 * math.log(2 * math.pi) - 10 * log_scale - squares / 2 * np.exp(-2 * log_scale)
    log_terms += log_scale - np.exp(log_scale) / unit - math.log(unit)
    exact = float(log_sum(log_terms)) + math.log(log_scale[1] - log_scale[0])
    assert exact == pytest.approx(-22.7309, abs=1e-4)
    found = ev.estimate(ev.Regression("d ~ 0", prior="normal"), {"d": SLEEP})
    assert abs(found.log_evidence - exact) < 4 * found.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "bernoulli", "gaussian", "gamma"])
def test_the_evidence_of_a_line_through_the_origin_is_that_of_quadrature(name):
    y, extra, _ = LAWS[name]
    effects = np.linspace(-12, 12, 4801)
    unit, logs = (UNIT if name == "gaussian" else 1.0), np.linspace(-9, 3, 241)
    eta = effects[:, None] * unit / SIZE * X + OFFSET
    of_extra = {
        "gaussian": lambda value: stats.norm(eta, value * UNIT).logpdf(y),
        "gamma": lambda value: stats.gamma(1 / value, scale=np.exp(eta) * value).logpdf(y),
    }
    log_prior = stats.norm(0, 2.5).logpdf(effects) + math.log(effects[1] - effects[0])
    if extra:
        inner = [
            log_sum(log_prior + of_extra[name](math.exp(log)).sum(axis=1)) - math.exp(log) + log
            for log in logs
        ]
        exact = float(log_sum(inner)) + math.log(logs[1] - logs[0])
    else:
        exact = float(log_sum(log_prior + LAWS[name][2](eta).sum(axis=1)))
    regression = ev.Regression("y ~ 0 + x + offset(known)", family=name, prior="normal")
    found = ev.estimate(regression, table_of(y))
    assert abs(found.log_evidence - exact) < 4 * found.standard_error


def test_groups_are_about_zero():
    """Given the scale and the deviation, the rows of a group are jointly normal about 0."""
    table, regression = table_of(LENGTHS), ev.Regression("y ~ 0 + (1 | g)", prior="normal")
    asked = regression.prepared(frame_of(parse(regression.formula), table), table, None)
    unit = LENGTHS.std()
    params = {"scale": jnp.float32(0.4), "sd(Intercept|g)": jnp.float32(0.5)}
    arrays = {name: jnp.asarray(array) for name, array in asked.arrays.items()}
    groups = np.asarray(jax.jit(asked.model.log_likelihood)(params, arrays), np.float64)
    covariance = unit**2 * (0.4**2 * np.eye(ROWS) + 0.5**2 * (GROUP[:, None] == GROUP))
    exact = stats.multivariate_normal(np.zeros(ROWS), covariance).logpdf(LENGTHS)
    assert groups.sum() + ROWS * asked.response.log_jacobian == pytest.approx(exact, abs=1e-3)


def test_files_and_a_table_agree(tmp_path):
    """The exact evidence under JZS, by quadrature over g, from Parquet and from memory."""
    table = table_of(LENGTHS)
    for part in range(2):
        table.iloc[20 * part : 20 * part + 20].to_parquet(tmp_path / f"{part}.parquet")
    log_g = np.linspace(-30, 80, 22_001)
    g, n, rate = np.exp(log_g), ROWS, ROWS * (math.sqrt(2) / 4) ** 2 / 2
    squares = LENGTHS @ LENGTHS
    r_squared = (X @ LENGTHS) ** 2 / (X @ X) / squares
    log_terms = (n - 1) / 2 * np.log1p(g) - n / 2 * np.log1p(g * (1 - r_squared))
    log_terms += 0.5 * math.log(rate / math.pi) - 0.5 * log_g - rate / g
    exact = float(log_sum(log_terms)) + math.log(log_g[1] - log_g[0])
    exact += math.lgamma(n / 2) - n / 2 * math.log(math.pi * squares)
    regression = ev.Regression("y ~ 0 + x")
    for data in (table, ev.read_parquet(f"{tmp_path}/*.parquet")):
        assert ev.estimate(regression, data).log_evidence == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "row"),
    [("bernoulli", math.log(0.5)), ("categorical", -math.log(3)), ("poisson", None), ("binomial", None)],
)
def test_without_any_parameter_the_evidence_is_the_likelihood(name, row):
    y, _, law = LAWS[name]
    has_offset = row is None
    formula = left_of(name) + "0" + (" + offset(known)" if has_offset else "")
    found = ev.estimate(ev.Regression(formula, family=name), table_of(y))
    exact = law(OFFSET).sum() if has_offset else ROWS * row
    assert found.log_evidence == pytest.approx(exact, rel=1e-6)
    assert (found.standard_error, found.posterior) == (0.0, {})


def test_terms_cannot_be_selected_of_a_formula_without_any():
    with pytest.raises(ev.ConfigurationError, match=r"formula must have terms to select from; got 'y ~ 0'"):
        ev.select_terms("y ~ 0", table_of(BINARY.astype(int)), family="bernoulli")


def test_a_constant_response_has_no_unit_for_its_priors():
    with pytest.raises(
        ev.DataError, match=r"y is 2 in all 40 rows: priors in units of its deviation are undef"
    ):
        ev.estimate(ev.Regression("y ~ 0 + x", prior="normal"), table_of(np.full(ROWS, 2.0)))


@pytest.mark.parametrize("prior", ["jzs", pytest.param("normal", marks=pytest.mark.slow)])
def test_predictions_have_no_hidden_intercept(prior):
    table, regression = table_of(LENGTHS), ev.Regression("y ~ 0 + x", prior=prior)
    evidence = ev.estimate(regression, table)
    slope = float(np.exp(evidence.weighted.log_weights) @ evidence.weighted["x"])
    spread = float(evidence.posterior["x"].std())
    assert abs(slope - (X @ LENGTHS) / (X @ X)) < 3 * spread
    predicted = fitted(regression, evidence, table).predicted[:, 0]  # the mean of 64 draws
    np.testing.assert_allclose(predicted, slope * X, atol=float(4 * spread / 8 * np.abs(X).max()))


def test_a_response_far_from_zero_would_be_rounded():
    x = np.linspace(0, 1, 20)
    with pytest.raises(ev.DataError, match=r"mean 1e\+06 and the deviation .* Add an intercept"):
        ev.estimate(ev.Regression("y ~ 0 + x", prior="normal"), {"y": 1e6 + x, "x": x})


FACTORS = {
    "y": np.random.default_rng(4).normal(size=40) + 1,
    "x": np.random.default_rng(5).normal(size=40),
    "a": ["p", "q"] * 20,
    "b": ["r"] * 20 + ["s"] * 20,
}


def test_terms_whose_coding_depends_on_others_cannot_be_selected():
    with pytest.raises(ev.ConfigurationError, match="needs an intercept .* categories of 'b' are coded"):
        ev.select_terms("y ~ 0 + a + b", FACTORS)


def test_selected_terms_have_the_evidences_of_their_formulas():
    selection = ev.select_terms("y ~ 0 + a + x", FACTORS)
    found = [ev.estimate(ev.Regression(formula), FACTORS).log_evidence for formula in selection.formulas]
    null = found[selection.formulas.index("y ~ 0")]
    np.testing.assert_allclose(selection.log_bayes_factor, np.array(found) - null, atol=1e-9)
