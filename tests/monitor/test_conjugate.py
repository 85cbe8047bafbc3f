"""Conjugate models: products of predictive densities are the evidence, bounds of ratios hold."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from evidentia.errors import ConfigurationError, DataError
from evidentia.monitor import (
    BetaBernoulli,
    ConjugateRegression,
    GammaPoisson,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalMean,
)

GENERATOR = np.random.default_rng(0)
ROWS = {
    NormalInverseGamma(1.0, 0.5, 2.0, 3.0): GENERATOR.normal(1, 2, 12),
    NormalMean(1.5, 0.5, 2.0): GENERATOR.normal(1, 1.5, 12),
    GammaPoisson(2.0, 0.5): GENERATOR.poisson(3, 12),
    BetaBernoulli(2.0, 0.5): GENERATOR.binomial(1, 0.3, 12),
    NormalInverseWishart(2, 0.5, 2.0, 1.5): GENERATOR.normal(0, 2, (12, 2)),
    ConjugateRegression(2, 2.0, 1.5, 2.0): GENERATOR.normal(0, 2, (12, 3)),
}
every_model = pytest.mark.parametrize("model", ROWS, ids=lambda model: type(model).__name__)


def posterior(model, rows):
    """Parameters after rows, and the log evidence of the rows."""
    parameters, log_evidence = model.prior[None], 0.0
    for row in model.rows(rows) if len(rows) else ():
        log_evidence += float(model.log_predictive(parameters, row)[0])
        parameters = model.updated(parameters, row)
    return parameters, log_evidence


def test_evidence_of_normal_rows():
    """As a multivariate t, and as a multivariate normal."""
    (model, rows), (mean, others) = list(ROWS.items())[:2]
    ones = np.ones((12, 12))
    shape = model.scale / model.shape * (np.eye(12) + ones / model.rows_of_prior)
    exact = stats.multivariate_t(np.full(12, model.mean), shape, 2 * model.shape).logpdf(rows)
    assert posterior(model, rows)[1] == pytest.approx(exact, abs=1e-9)
    covariance = mean.standard_deviation**2 * np.eye(12) + mean.spread**2 * ones
    exact = stats.multivariate_normal(np.full(12, mean.mean), covariance).logpdf(others)
    assert posterior(mean, others)[1] == pytest.approx(exact, abs=1e-9)


def test_evidence_of_counts():
    """By quadrature over the rate and over the probability."""
    for model, prior, likelihood, highest in (
        (GammaPoisson(2.0, 0.5), stats.gamma(2.0, scale=2.0), stats.poisson, 30.0),
        (BetaBernoulli(2.0, 0.5), stats.beta(2.0, 0.5), stats.bernoulli, 1.0),
    ):
        rows = ROWS[model]
        exact, _ = integrate.quad(
            lambda value, rows=rows, prior=prior, likelihood=likelihood: (
                prior.pdf(value) * np.prod(likelihood.pmf(rows, value))
            ),
            0,
            highest,
            epsabs=0,
            epsrel=1e-10,
        )
        assert posterior(model, rows)[1] == pytest.approx(math.log(exact), abs=1e-7)


def test_evidence_of_vectors():
    """One row is a multivariate t; a regression is one in y; d = 1 is the univariate model."""
    model = NormalInverseWishart(2, 0.5, 2.0, 1.5)
    row = ROWS[model][0]
    shape = 1.5**2 * 2.0 * np.eye(2) * (1.5 / 0.5) / 4
    exact = stats.multivariate_t(np.zeros(2), shape, 4).logpdf(row)
    assert model.log_predictive(model.prior[None], row)[0] == pytest.approx(exact, abs=1e-12)
    one = posterior(NormalInverseWishart(1, 0.5, 2.0, 1.5), ROWS[model][:, :1])[1]
    # Σ ~ IW(4.5, 4) in one dimension is 1/σ² ~ Gamma(2, rate 2.25).
    same = posterior(NormalInverseGamma(0.0, 0.5, 2.0, 2.25), ROWS[model][:, 0])[1]
    assert one == pytest.approx(same, abs=1e-9)
    regression = ConjugateRegression(2, 2.0, 1.5, 2.0)
    x, y = ROWS[regression][:, :2], ROWS[regression][:, 2]
    exact = stats.multivariate_t(np.zeros(12), 2.0 / 1.5 * (np.eye(12) + 4 * x @ x.T), 3.0).logpdf(y)
    assert posterior(regression, ROWS[regression])[1] == pytest.approx(exact, abs=1e-9)


@every_model
@pytest.mark.parametrize("first", [4, 12])
def test_no_future_has_a_larger_ratio_than_the_bound(model, first):
    """log p(future | all rows) - log p(future | the last rows) ≤ bound, and near it in the limit.

    The future of most ratio is like the rows that only the longer run has; repeating them a
    thousand times brings the ratio within a few hundredths of a nat.
    """
    rows = ROWS[model]
    (longer, _), (shorter, _) = posterior(model, rows), posterior(model, rows[first:])
    bound = float(model.log_ratio_bound(longer, shorter)[0])
    assert np.isfinite(bound) and bound >= 0

    def ratio(future):
        total, one, other = 0.0, longer, shorter
        for row in model.rows(future):
            total += float(model.log_predictive(one, row)[0] - model.log_predictive(other, row)[0])
            one, other = model.updated(one, row), model.updated(other, row)
        return total

    generator = np.random.default_rng(1)
    for size in (1, 5, 50):
        assert ratio(rows[generator.integers(0, 12, size)]) <= bound + 1e-9
    nearest = ratio(np.tile(rows[:first].T, 1000).T)
    assert nearest <= bound + 1e-6
    assert nearest > bound - 0.05


def test_bounds_are_infinite_where_there_is_none():
    """One row more, or equal rows, are infinitely likely without variance."""
    model = NormalInverseGamma()
    for more in ([2.0], [2.0, 2.0, 2.0]):
        (longer, _), (shorter, _) = (
            posterior(model, np.array([*more, 1.0, 3.0])),
            posterior(model, [1.0, 3.0]),
        )
        assert model.log_ratio_bound(longer, shorter)[0] == np.inf
    for model, rows in list(ROWS.items())[4:]:
        (longer, _), (shorter, _) = posterior(model, rows), posterior(model, rows[2:])
        assert model.log_ratio_bound(longer, shorter)[0] == np.inf


@every_model
def test_rows_that_are_not_the_models(model):
    rows = np.array(ROWS[model], float)
    kind = "an array (rows"
    with pytest.raises(DataError, match=r"batch must have at least one row; got none\."):
        model.rows(rows[:0])
    for bad in ("text", rows.astype(str), rows[None], [[1.0], [1.0, 2.0]], None, rows * 1j):
        with pytest.raises(DataError, match="batch must be " + kind.replace("(", r"\(")):
            model.rows(bad)
    rows[3] = np.nan
    with pytest.raises(DataError, match=r"batch must be finite; row 3 of the batch is \[?nan"):
        model.rows(rows)


def test_counts_are_whole_numbers():
    with pytest.raises(
        DataError, match=r"of counts, whole numbers of at least 0; row 1 of the batch is 2\.5\."
    ):
        GammaPoisson().rows([1, 2.5])
    with pytest.raises(DataError, match=r"row 0 of the batch is -1\.0\."):
        GammaPoisson().rows([-1])
    with pytest.raises(DataError, match=r"an array \(rows,\) of 0 and 1; row 2 of the batch is 2\.0\."):
        BetaBernoulli().rows([True, False, 2])
    with pytest.raises(DataError, match=r"an array \(rows, 2\) of numbers; got shape \(4, 3\)\."):
        NormalInverseWishart(2).rows(np.zeros((4, 3)))
    with pytest.raises(DataError, match=r"2 features, then the target; got shape \(4, 2\)\."):
        ConjugateRegression(2).rows(np.zeros((4, 2)))


@every_model
def test_fields_are_checked(model):
    for field in type(model).__dataclass_fields__:
        values = {"dimensions": 0, "num_features": 0, "mean": math.inf}
        with pytest.raises(ConfigurationError, match=field):
            type(model)(**{**vars(model), field: values.get(field, -1.0)})


@pytest.mark.parametrize("model", list(ROWS)[:4], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("num_rows", [0, 12])
def test_moments_are_those_of_the_predictive_density(model, num_rows):
    """Integrals of y and y² over the density; sums over counts."""
    parameters, _ = posterior(model, ROWS[model][:num_rows])

    def density(row):
        return math.exp(model.log_predictive(parameters, row)[0])

    if isinstance(model, GammaPoisson | BetaBernoulli):
        values = range(2 if isinstance(model, BetaBernoulli) else 2000)
        mean, square = (sum(y**k * density(y) for y in values) for k in (1, 2))
    else:
        mean, square = (
            integrate.quad(lambda y, k=k: y**k * density(y), -math.inf, math.inf)[0] for k in (1, 2)
        )
    (found,), (variance,) = model.moments(parameters)
    assert found == pytest.approx(mean, abs=1e-6)
    assert variance == pytest.approx(square - mean**2, rel=1e-4)


def test_the_variance_of_few_rows_may_be_infinite():
    model = NormalInverseGamma(shape=1.0)
    assert model.moments(model.prior[None])[1] == np.inf
