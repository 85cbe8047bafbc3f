"""Regressions without intercept, against sums over a grid of slope and dispersion."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
from scipy import special

import evidentia as ev

stats = scipy.stats
GENERATOR = np.random.default_rng(3)
ROWS = 40
X = GENERATOR.normal(size=ROWS) + 1.5
OFFSET = 0.2 * GENERATOR.normal(size=ROWS)
ETA = 0.7 * X + OFFSET
MEAN = special.expit(ETA)
GAUSSIAN = ETA + 0.5 * GENERATOR.normal(size=ROWS) + 2
UNIT = (GAUSSIAN - OFFSET).std()  # of the priors of a gaussian response
TABLE = pd.DataFrame(
    {
        "x": X,
        "offset": OFFSET,
        "trials": 7,
        "gaussian": GAUSSIAN,
        "bernoulli": (GENERATOR.random(ROWS) < MEAN).astype(int),
        "binomial": GENERATOR.binomial(7, MEAN),
        "poisson": GENERATOR.poisson(np.exp(ETA)),
        "gamma": GENERATOR.gamma(3, np.exp(ETA) / 3) * 3,
        "beta": GENERATOR.beta(5 * MEAN, 5 * (1 - MEAN)),
    }
)
TABLE["negative-binomial"] = TABLE["poisson"]
LAWS = {  # log densities of a predictor (grid, rows) and a scale or dispersion
    "gaussian": lambda y, eta, s: stats.norm(eta, s * UNIT).logpdf(y),
    "bernoulli": lambda y, eta, s: stats.bernoulli(special.expit(eta)).logpmf(y),
    "binomial": lambda y, eta, s: stats.binom(7, special.expit(eta)).logpmf(y),
    "poisson": lambda y, eta, s: stats.poisson(np.exp(eta)).logpmf(y),
    "negative-binomial": lambda y, eta, s: stats.nbinom(1 / s, 1 / (1 + s * np.exp(eta))).logpmf(y),
    "gamma": lambda y, eta, s: stats.gamma(1 / s, scale=np.exp(eta) * s).logpdf(y),
    "beta": lambda y, eta, s: stats.beta(special.expit(eta) / s, special.expit(-eta) / s).logpdf(y),
}


@pytest.mark.parametrize("family", LAWS)
def test_evidence_of_a_slope_through_the_origin(family):
    """The effect is N(0, 2.5²) for one root mean square of x; the dispersion is Exponential(1)."""
    has_extra = family not in ("bernoulli", "binomial", "poisson")
    effect = np.linspace(-9, 9, 361)
    eta = effect[:, None] * (UNIT if family == "gaussian" else 1) / np.sqrt(np.mean(X**2)) * X + OFFSET
    log_extras = np.linspace(-7, 3, 61) if has_extra else np.zeros(1)
    log_terms = []
    for log_extra in log_extras:
        extra = math.exp(log_extra)
        with np.errstate(all="ignore"):
            rows = LAWS[family](TABLE[family].to_numpy(), eta, extra).sum(axis=1)
        log_prior = stats.norm(0, 2.5).logpdf(effect) + (log_extra - extra if has_extra else 0)
        log_terms.append(np.nan_to_num(rows, nan=-np.inf) + log_prior)
    cell = (effect[1] - effect[0]) * (log_extras[1] - log_extras[0] if has_extra else 1)
    exact = special.logsumexp(log_terms) + math.log(cell)
    left = "binomial | trials" if family == "binomial" else f"`{family}`"
    prior = "normal" if family == "gaussian" else None
    found = ev.estimate(ev.Regression(f"{left} ~ 0 + x + offset(offset)", family=family, prior=prior), TABLE)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error + 0.01
    assert "Intercept" not in found.posterior


def test_nothing_but_a_scale():
    """`d ~ 0` for the sleep data: normal around 0 with an Exponential scale."""
    d = np.array([1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4])
    log_scale = np.linspace(-4, 6, 4001)
    log_density = stats.norm(0, np.exp(log_scale)[:, None]).logpdf(d).sum(axis=1)
    log_prior = stats.expon(scale=d.std()).logpdf(np.exp(log_scale)) + log_scale
    exact = special.logsumexp(log_density + log_prior) + math.log(log_scale[1] - log_scale[0])
    found = ev.estimate(ev.Regression("d ~ 0", prior="normal"), {"d": d})
    assert exact == pytest.approx(-22.731, abs=0.001)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error


@pytest.mark.parametrize(
    "left, family, exact",
    [
        ("poisson", "poisson", stats.poisson(np.exp(OFFSET)).logpmf(TABLE["poisson"]).sum()),
        ("bernoulli", "bernoulli", np.log(special.expit(OFFSET * (2 * TABLE["bernoulli"] - 1))).sum()),
        (
            "binomial | trials",
            "binomial",
            stats.binom(7, special.expit(OFFSET)).logpmf(TABLE["binomial"]).sum(),
        ),
    ],
)
def test_without_parameters_the_evidence_is_the_likelihood(left, family, exact):
    found = ev.estimate(ev.Regression(f"{left} ~ 0 + offset(offset)", family=family), TABLE)
    assert found.log_evidence == pytest.approx(exact, rel=1e-6)
    assert found.posterior == {} and found.standard_error == 0


def test_files_give_the_same_evidence(tmp_path):
    for part in range(2):
        pq.write_table(pa.Table.from_pandas(TABLE.iloc[part::2]), tmp_path / f"{part}.parquet")
    regression = ev.Regression("gaussian ~ 0 + x + offset(offset)")
    files = ev.estimate(regression, ev.read_parquet(str(tmp_path / "*.parquet")))
    assert files.log_evidence == pytest.approx(ev.estimate(regression, TABLE).log_evidence, abs=1e-9)


def test_a_response_far_from_zero_is_refused():
    with pytest.raises(ev.DataError, match="mean 1e.06 and the deviation .* Add an intercept"):
        ev.estimate(ev.Regression("y ~ 0 + x", prior="normal"), {"y": 1e6 + X, "x": X})


def test_select_terms_refuses_a_coding_that_depends_on_other_terms():
    table = {"y": GAUSSIAN, "a": ["p", "q"] * 20, "b": ["r"] * 20 + ["s"] * 20}
    with pytest.raises(ev.ConfigurationError, match="needs an intercept .* categories of 'b' are coded"):
        ev.select_terms("y ~ 0 + a + b", table)


def test_select_terms_agrees_with_estimates():
    table = {"y": GAUSSIAN, "a": ["p", "q"] * 20, "x": X}
    selection = ev.select_terms("y ~ 0 + a + x", table)
    alone = [ev.estimate(ev.Regression(formula), table).log_evidence for formula in selection.formulas]
    null = alone[selection.formulas.index("y ~ 0")]
    np.testing.assert_allclose(selection.log_bayes_factor, np.array(alone) - null, atol=1e-9)
