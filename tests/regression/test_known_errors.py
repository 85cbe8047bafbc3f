"""Known standard errors: with normal priors the evidence is a normal density."""

import math
from typing import Any

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.stats
from scipy.special import logsumexp

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError

stats: Any = scipy.stats  # whose types are incomplete
ROWS = 25
GENERATOR = np.random.default_rng(2)
X = 5 + GENERATOR.standard_normal(ROWS)
ERRORS = np.exp(GENERATOR.normal(-1, 0.6, ROWS))
Y = 100 + 0.5 * X + ERRORS * GENERATOR.standard_normal(ROWS) + 0.3 * GENERATOR.standard_normal(ROWS)
TABLE = pd.DataFrame(
    {"y": Y, "x": X, "s": ERRORS, "v": ERRORS**2, "study": [f"study {row}" for row in range(ROWS)]}
)
Z = (X - X.mean()) / X.std()
ONES = np.ones(ROWS)


def exact(*columns, deviation=0.0):
    """log N(y; ȳ, errors² + deviation² + 2.5² s² Σ column columnᵀ), with the deviation s of y."""
    effects = (2.5 * Y.std()) ** 2 * sum(np.outer(column, column) for column in columns)
    return stats.multivariate_normal(
        np.full(ROWS, Y.mean()), np.diag(ERRORS**2 + deviation**2) + effects
    ).logpdf(Y)


@pytest.mark.slow
def test_evidence():
    found = ev.estimate(ev.Regression("y | se(s) ~ x"), TABLE)
    assert abs(found.log_evidence - exact(ONES, Z)) < 4 * found.standard_error < 0.01
    assert found.constant is None and found.response == "y" and set(found.posterior) == {"Intercept", "x"}
    assert found.diagnostics["prior"].endswith("(not jzs, which has no known standard errors)")


@pytest.mark.reference
def test_evidence_of_other_priors_and_of_variances():
    priors = {"Intercept": dist.Normal(100.0, 5.0), "x": dist.Normal(0.0, 1.0)}
    found = ev.estimate(ev.Regression("y | se(sqrt(v)) ~ x", priors=priors), TABLE)
    centred = X - X.mean()
    covariance = np.diag(ERRORS**2) + 25 + np.outer(centred, centred)
    wanted = stats.multivariate_normal(np.full(ROWS, 100.0), covariance).logpdf(Y)
    assert abs(found.log_evidence - wanted) < 4 * found.standard_error < 0.01
    found = ev.estimate(ev.Regression("y | se(s) ~ x", prior="unit-information"), TABLE)
    per_row = np.mean(ERRORS**-2.0)
    wanted = exact(ONES, Z / (2.5 * Y.std() * math.sqrt(per_row)))
    assert abs(found.log_evidence - wanted) < 4 * found.standard_error < 0.01


@pytest.mark.reference
def test_an_effect_of_each_study_is_the_random_effects_meta_analysis():
    """The prior of its deviation is exponential, with the deviation of y as its mean."""
    found = ev.estimate(ev.Regression("y | se(s) ~ 1 + (1 | study)"), TABLE)
    logs = np.linspace(-9.0, 2.0, 1001)
    joint = [exact(ONES, deviation=Y.std() * math.exp(one)) - math.exp(one) + one for one in logs]
    wanted = float(np.asarray(logsumexp(joint))) + math.log(logs[1] - logs[0])
    assert abs(found.log_evidence - wanted) < 4 * found.standard_error < 0.02


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            {"s": ERRORS * (np.arange(ROWS) != 3)},
            "standard errors of y must hold positive numbers .* row 3 .* has 0",
        ),
        ({"s": -ERRORS}, "standard errors of y must hold positive numbers"),
        ({"s": "small"}, "standard errors of y must be numbers; got 'small'"),
        (
            {"s": 1e-7},
            "smallest standard error of y is 1e-07, and the deviation of y 0.84.*rounded to about seven digits",
        ),
        ({"y": 1.0}, "the response y is 1 in all 25 rows"),
    ],
)
def test_errors_that_cannot_be_used(changes, words):
    with pytest.raises(DataError, match=words):
        ev.estimate(ev.Regression("y | se(s) ~ x"), TABLE.assign(**changes))


def test_known_errors_have_no_unknown_variance():
    with pytest.raises(
        ConfigurationError, match=r"prior='jzs' has an unknown variance, and 'y \| se\(s\) ~ x' has known"
    ):
        ev.Regression("y | se(s) ~ x", prior="jzs")
