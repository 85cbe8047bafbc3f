"""Bayes factors of effects from draws, against evidences of pairs of formulas and integrals."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import evidentia as ev

GENERATOR = np.random.default_rng(5)
ROWS = 80
TABLE = pd.DataFrame(GENERATOR.normal(size=(ROWS, 2)), columns=["x", "z"])
TABLE["z"] += TABLE["x"]  # correlated, so that one effect takes the other's place
TABLE["few"] = GENERATOR.poisson(np.exp(0.3 + 0.1 * TABLE["x"] + 0.2 * TABLE["z"]))
TABLE["many"] = GENERATOR.poisson(np.exp(1 + TABLE["x"]))
TABLE["y"] = 0.4 * TABLE["x"] + 2 * TABLE["z"] + GENERATOR.normal(size=ROWS)
TABLE["kind"] = np.where(GENERATOR.random(ROWS) < 0.4, "a", np.where(TABLE["x"] > 0.5, "b", "c"))
TABLE["group"] = np.resize(list("abcdefgh"), ROWS)


def factors(formula, **options):
    evidence = ev.estimate(ev.Regression(formula, **options), TABLE)
    return evidence, evidence.summary()


@pytest.mark.slow
@pytest.mark.parametrize("response", ["few", "many"])
def test_one_effect_against_an_integral(response):
    """At 0.1 and at ten posterior deviations from zero."""
    x, y = (TABLE["x"] - TABLE["x"].mean()) / TABLE["x"].std(ddof=0), TABLE[response]
    intercept, slope = np.linspace(-2.0, 3.0, 401)[:, None], np.linspace(-1.5, 2.0, 401)
    step = 5 / 400 * 3.5 / 400
    rows = sum(
        stats.poisson.logpmf(count, np.exp(intercept + slope * one)) for one, count in zip(x, y, strict=True)
    )
    prior = stats.norm(np.log(y.mean()), 2.5).logpdf(intercept)
    whole = logsumexp(rows + prior + stats.norm(0, 2.5).logpdf(slope)) + np.log(step)
    fine = np.linspace(-2.0, 3.0, 4001)
    none = sum(stats.poisson.logpmf(count, np.exp(fine)) for count in y)
    null = logsumexp(none + stats.norm(np.log(y.mean()), 2.5).logpdf(fine)) + np.log(5 / 4000)
    _, found = factors(f"{response} ~ x", family="poisson")
    assert abs(found.log_bayes_factor[1] - (whole - null)) < 4 * found.log_bayes_factor_error[1] + 0.002
    assert found.log_bayes_factor_error[1] < 0.03


@pytest.mark.slow
@pytest.mark.parametrize(
    "response, options",
    [
        ("few", {"family": "poisson"}),
        ("few", {"family": "zero_inflated_poisson"}),
        ("few", {"family": "poisson", "prior": "unit-information"}),
        ("y", {"prior": "normal"}),
        ("y", {"priors": {"x": dist.Normal(0.5, 0.3)}}),
        ("y", {"family": "student-t"}),
    ],
)
def test_pairs_of_formulas(response, options):
    """The effect of z is 0 in y far out, where the draws do not reach and the scale is another."""
    evidence, found = factors(f"{response} ~ x + z", **options)
    without = {key: value for key, value in options.items() if key != "priors"} | {
        "prior": options.get("prior", "normal")
    }
    pairs = {"x": (f"{response} ~ z", without), "z": (f"{response} ~ x", options)}
    for name, (formula, given) in pairs.items():
        place = found.names.index(name)
        other = ev.estimate(ev.Regression(formula, **given), TABLE)
        exact = evidence.log_evidence - other.log_evidence
        error = np.sqrt(
            evidence.standard_error**2 + other.standard_error**2 + found.log_bayes_factor_error[place] ** 2
        )
        assert abs(found.log_bayes_factor[place] - exact) < 4 * error + 0.005
        assert found.log_bayes_factor_error[place] < 0.05


@pytest.mark.reference
def test_with_effects_that_vary_by_group():
    evidence, found = factors("few ~ x + (1 | group)", family="poisson")
    other = ev.estimate(ev.Regression("few ~ 1 + (1 | group)", family="poisson"), TABLE)
    assert found.names == ("Intercept", "x")
    error = np.hypot(found.log_bayes_factor_error[1], np.hypot(evidence.standard_error, other.standard_error))
    assert abs(found.log_bayes_factor[1] - (evidence.log_evidence - other.log_evidence)) < 4 * error + 0.005


@pytest.mark.slow
def test_categories_have_an_effect_each():
    _, found = factors("kind ~ x", family="categorical")
    assert found.names == ("Intercept, b", "Intercept, c", "x, b", "x, c")
    assert np.isnan(found.log_bayes_factor[:2]).all() and np.isfinite(found.log_bayes_factor[2:]).all()
    assert found.log_bayes_factor[2] > 3  # b is where x is large


@pytest.mark.slow
def test_a_prior_without_zero_has_no_bayes_factor():
    _, found = factors("few ~ x", family="poisson", priors={"x": dist.HalfNormal(1.0)})
    assert np.isnan(found.log_bayes_factor).all()
    assert found.low[1] > 0


@pytest.mark.slow
def test_the_formula_without_groups_is_a_deviation_of_zero():
    generator, rows = np.random.default_rng(0), 80
    table = pd.DataFrame({"x": generator.normal(size=rows), "g": np.arange(rows) % 8})
    effects = 0.5 * generator.normal(size=8)[table["g"]]
    table["y"] = table["x"] + effects + generator.normal(size=rows)
    whole = ev.estimate(ev.Regression("y ~ x + (1 | g)"), table)
    other = ev.estimate(ev.Regression("y ~ x", prior="normal"), table)
    found = whole._coefficients.log_factor_of_groups()
    expected, error = whole.log_evidence - other.log_evidence, other.standard_error
    assert found.error < 0.1
    assert abs(found.log_bayes_factor - expected) < 4 * np.hypot(found.error, error)
    assert np.isnan(other._coefficients.log_factor_of_groups().log_bayes_factor)
