"""Exact coefficients against evidences of pairs of formulas, many draws, and integrals."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import evidentia as ev
from evidentia.regression.exact import evidence_of
from evidentia.regression.exact_coefficients import quantiles
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.priors import JZS_SCALE
from tests.regression.attitude import ATTITUDE

GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(GENERATOR.normal(size=(25, 3)), columns=["y", "x", "z"])
TABLE["y"] += 0.5 * TABLE["x"] + 3
TABLE["z"] += TABLE["x"] + 10
TABLE["g"] = pd.Categorical(np.resize(list("abc"), 25))


@pytest.mark.parametrize("prior", ["jzs", "unit-information"])
@pytest.mark.parametrize("start", ["", "0 + "])
def test_bayes_factors_are_those_of_pairs_of_formulas(prior, start):
    found = ev.estimate(ev.Regression(f"y ~ {start}x + z + x:z", prior=prior), TABLE).summary()
    whole = ev.estimate(ev.Regression(f"y ~ {start}x + z + x:z", prior=prior), TABLE).log_evidence
    for name, rest in (("x", "z + x:z"), ("z", "x + x:z"), ("x:z", "x + z")):
        part = ev.estimate(ev.Regression(f"y ~ {start}{rest}", prior=prior), TABLE).log_evidence
        place = found.names.index(name)
        assert found.log_bayes_factor[place] == pytest.approx(whole - part, abs=1e-9)
        assert found.log_bayes_factor_error[place] == 0
    assert ("Intercept" in found.names) == (not start)
    assert start or np.isnan(found.log_bayes_factor[0])


@pytest.mark.parametrize("formula", ["y ~ x + z + g", "y ~ 0 + x + z", "y ~ 1"])
@pytest.mark.parametrize("prior", ["jzs", "unit-information"])
def test_moments_and_quantiles_are_those_of_the_draws(formula, prior):
    scale = JZS_SCALE if prior == "jzs" else None
    evidence = evidence_of(frame_of(parse(formula), TABLE), TABLE, scale, 0, 0.0, num_draws=200_000)
    found = evidence.summary()
    for place, name in enumerate(found.names):
        draws, deviation = evidence.posterior[name], found.standard_deviation[place]
        assert abs(draws.mean() - found.mean[place]) < 4 * deviation / np.sqrt(len(draws))
        assert draws.std() == pytest.approx(deviation, rel=0.02)
        ends = np.quantile(draws, [0.025, 0.975])
        np.testing.assert_allclose(ends, [found.low[place], found.high[place]], atol=0.02 * deviation)


def test_under_g_equal_to_n_a_coefficient_is_students_t():
    evidence = ev.estimate(ev.Regression("rating ~ complaints", prior="unit-information"), ATTITUDE)
    found, n = evidence.summary(), 30
    x, y = (np.array(ATTITUDE[name], float) for name in ("complaints", "rating"))
    x, y = x - x.mean(), y - y.mean()
    s, slope = n / (1 + n), x @ y / (x @ x)
    variance = s / (x @ x) * (y @ y - s * slope**2 * (x @ x)) / (n - 1)
    law = scipy.stats.t(n - 1, s * slope, np.sqrt(variance))
    exact = law.mean(), law.std(), *law.ppf([0.025, 0.975])
    columns = found.mean, found.standard_deviation, found.low, found.high
    np.testing.assert_allclose([column[1] for column in columns], exact, rtol=1e-9)


def test_as_many_columns_as_rows_tell_nothing():
    """The Bayes factor of a model that explains any response is 1; so is that of each part."""
    few = {**{f"x{i}": GENERATOR.normal(size=5) for i in range(5)}, "y": GENERATOR.normal(size=5)}
    with pytest.warns(ev.EvidenceWarning, match="Every response is explained fully"):
        evidence = ev.estimate(ev.Regression("y ~ x0 + x1 + x2 + x3 + x4"), few)
    found = evidence.summary()
    np.testing.assert_allclose(found.log_bayes_factor[1:-1], 0, atol=1e-9)  # the last is the scale
    assert np.isfinite(found.low).all()


def test_quantiles_of_a_mixture():
    means, scales = np.array([[0.0, 2.0], [1.0, 1.0]]), np.array([[1.0, 0.5], [2.0, 3.0]])
    shares = np.array([0.3, 0.7])
    for probability in (0.025, 0.5, 0.9):
        for place, found in enumerate(quantiles(probability, means, scales, shares, 7)):
            below = shares @ scipy.stats.t.cdf((found - means[place]) / scales[place], 7)
            assert below == pytest.approx(probability, abs=1e-10)
