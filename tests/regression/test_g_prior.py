"""Normal regressions under g priors against R's BayesFactor and against quadrature over g."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

import evidentia as ev
from evidentia.errors import ConfigurationError, EvidenceWarning
from tests.regression.attitude import ATTITUDE


def evidence(formula, table, **arguments):
    return ev.estimate(ev.Regression(formula, **arguments), table)


@pytest.mark.parametrize(
    "terms, factor",
    [  # what regressionBF(rating ~ ., data = attitude) prints
        ("complaints", 417938.6),
        ("complaints + learning", 207272),
        ("complaints + learning + advance", 88042),
        ("complaints + raises", 77499),
        ("complaints + privileges", 75015),
        ("complaints + advance", 72760),
    ],
)
def test_bayes_factors_are_those_of_r(terms, factor):
    found = (
        evidence(f"rating ~ {terms}", ATTITUDE).log_evidence - evidence("rating ~ 1", ATTITUDE).log_evidence
    )
    assert math.exp(found) == pytest.approx(factor, rel=1e-5)


def log_evidence_given(g, y, x):
    """log ∫∫ N(y; α, σ² (I + g P)) dα dσ²/σ², where P projects on the columns."""
    rows, basis = len(y), np.linalg.qr(x)[0]
    covariance = np.eye(rows) + g * basis @ basis.T
    inverse = np.eye(rows) - g / (1 + g) * basis @ basis.T
    ones = np.ones(rows)
    flat = ones @ inverse @ ones
    squares = y @ inverse @ y - (ones @ inverse @ y) ** 2 / flat
    half = (rows - 1) / 2
    return float(
        -0.5 * np.linalg.slogdet(covariance)[1]
        - 0.5 * np.log(flat)
        + gammaln(half)
        - half * np.log(np.pi * squares)
    )


def by_quadrature(y, x, scale):
    """The integral over t = log g of the evidence given g and InverseGamma(1/2, n r²/2)."""
    rate = len(y) * scale**2 / 2

    def log_integrand(t):
        prior = 0.5 * np.log(rate / np.pi) - 0.5 * t - rate * np.exp(-t)
        return log_evidence_given(np.exp(t), y - y.mean(), x) + prior

    peak = max(log_integrand(t) for t in np.linspace(-10, 20, 100))
    return peak + np.log(quad(lambda t: np.exp(log_integrand(t) - peak), -10, 30, limit=500)[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_the_evidence_equals_quadrature(seed):
    generator = np.random.default_rng(seed)
    rows, count = int(generator.integers(5, 40)), int(generator.integers(1, 4))
    x = generator.standard_normal((rows, count)) * 10.0 ** generator.integers(-3, 4, count)
    y = generator.standard_normal(rows) + x @ (
        generator.standard_normal(count) / x.std(0)
    ) * generator.integers(0, 3)
    table = {"y": y, **{f"x{place}": column for place, column in enumerate(x.T)}}
    scale = float(generator.choice([0.1, math.sqrt(2) / 4, 1.0]))
    found = evidence(f"y ~ {' + '.join(list(table)[1:])}", table, prior_scale=scale)
    assert found.log_evidence == pytest.approx(by_quadrature(y, x - x.mean(0), scale), abs=1e-6)
    assert found.standard_error == 0


def test_the_unit_information_prior_is_g_equal_to_the_number_of_rows():
    table = {name: ATTITUDE[name] for name in ("rating", "complaints")}
    x = table["complaints"][:, None] - table["complaints"].mean()
    found = evidence("rating ~ complaints", table, prior="unit-information")
    assert found.log_evidence == pytest.approx(log_evidence_given(30.0, table["rating"], x), abs=1e-9)


def test_bayes_factors_do_not_depend_on_the_units():
    def factor(table):
        return (
            evidence("rating ~ complaints", table).log_evidence - evidence("rating ~ 1", table).log_evidence
        )

    scaled = {
        **ATTITUDE,
        "complaints": 1000 * ATTITUDE["complaints"],
        "rating": 1e6 + 1000 * ATTITUDE["rating"],
    }
    assert factor(scaled) == pytest.approx(factor(ATTITUDE), abs=1e-6)


def test_the_posterior_is_that_of_a_long_run():
    """With a wide prior it is that of least squares, whose moments are known."""
    found = evidence("rating ~ complaints + learning", ATTITUDE, prior_scale=100.0)
    x = np.column_stack([np.ones(30), ATTITUDE["complaints"], ATTITUDE["learning"]])
    fitted, squares, _, _ = np.linalg.lstsq(x, ATTITUDE["rating"], rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * squares[0] / 27)
    for name, mean, error in zip(("Intercept", "complaints", "learning"), fitted, errors, strict=True):
        draws = found.posterior[name]
        assert abs(draws.mean() - mean) < 5 * error / math.sqrt(len(draws)), name
        assert draws.std() == pytest.approx(error * math.sqrt(27 / 25), rel=0.15), name


def test_a_table_with_more_columns_than_rows_says_nothing():
    generator = np.random.default_rng(0)
    table = {f"x{place}": generator.standard_normal(5) for place in range(8)}
    with pytest.warns(EvidenceWarning, match="5 rows determine 4 effects at most, and the formula has 7"):
        full = evidence("x0 ~ x1 + x2 + x3 + x4 + x5 + x6 + x7", table)
    assert full.log_evidence == pytest.approx(evidence("x0 ~ 1", table).log_evidence)


def test_models_without_an_intercept_are_not_compared_with_those_that_have_one():
    with pytest.raises(ConfigurationError, match="up to the same constant"):
        ev.compare(
            {
                "with": evidence("rating ~ complaints", ATTITUDE),
                "without": evidence("rating ~ complaints - 1", ATTITUDE),
            }
        )


def test_an_exact_result_takes_no_method():
    with pytest.raises(ConfigurationError, match="method must be left out"):
        ev.estimate(ev.Regression("rating ~ complaints"), ATTITUDE, method=ev.SMC())
