"""Results in ArviZ: leave-one-out, comparison and Bayes factors from their groups."""

import warnings

import arviz
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import evidentia as ev
from tests.evidence_factory import make_evidence

RNG = np.random.default_rng(0)
X = RNG.normal(size=60).astype(np.float32)
Y = (1 + 0.5 * X + RNG.normal(size=60)).astype(np.float32)


def line(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a + b * x, 1), obs=y)


def flat(x, y=None):
    numpyro.sample("y", dist.Normal(numpyro.sample("a", dist.Normal(0, 1)), 1), obs=y)


@pytest.fixture(scope="module")
def evidences():
    return {
        function.__name__: ev.estimate(ev.Model.from_numpyro(function), {"x": X, "y": Y}, method=ev.Laplace())
        for function in (line, flat)
    }


@pytest.mark.slow
def test_groups_are_those_of_the_model(evidences):
    data = evidences["line"].to_arviz(log_likelihood=True)
    a, b = (data.posterior[name].values[0][:, None] for name in ("a", "b"))
    found = data.log_likelihood["observations"].values[0]
    np.testing.assert_allclose(found, norm.logpdf(Y, a + b * X), atol=1e-4)
    expected = norm.logpdf(a[:, 0]) + norm.logpdf(b[:, 0])
    np.testing.assert_allclose(data.log_prior["log_prior"].values[0], expected, atol=1e-5)
    count = data.prior["b"].size
    assert abs(data.prior["b"].values.std() - 1) < 4 / np.sqrt(2 * count)
    np.testing.assert_array_equal(data.observed_data["y"].values, Y)


@pytest.mark.slow
def test_arviz_weighs_models_and_hypotheses(evidences):
    groups = {name: one.to_arviz(log_likelihood=True) for name, one in evidences.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loo, table = arviz.loo(groups["line"]), arviz.compare(groups)
        factors = arviz.bayes_factor(groups["line"], "b")
    terms = [np.delete(np.arange(60), row) for row in range(3)]
    exact = [_left_out(row, rest) for row, rest in enumerate(terms)]
    each = arviz.loo(groups["line"], pointwise=True)
    pointwise = (each.elpd_i if hasattr(each, "elpd_i") else each.loo_i).values[:3]
    np.testing.assert_allclose(pointwise, exact, atol=0.05)
    elpd = "elpd" if hasattr(loo, "elpd") else "elpd_loo"  # of ArviZ 1, which rounds its table, and before
    assert table.loc["line", elpd] == pytest.approx(getattr(loo, elpd), rel=0.05) and table.index[0] == "line"
    log_bf = evidences["line"].log_evidence - evidences["flat"].log_evidence
    factor = factors["BF10"] if "BF10" in factors else float(factors["b"].sel(bf_type="BF10"))
    assert np.log(factor) == pytest.approx(log_bf, abs=0.5)  # by density estimates


def _left_out(row, rest):
    """log p(y_i | the others), of the conjugate model."""
    design = np.c_[np.ones(60), X].astype(float)
    covariance = np.linalg.inv(np.eye(2) + design[rest].T @ design[rest])
    mean = design[row] @ covariance @ design[rest].T @ Y[rest]
    return norm.logpdf(Y[row], mean, np.sqrt(1 + design[row] @ covariance @ design[row]))


def test_what_is_not_known_is_left_out():
    evidence = make_evidence()
    data = evidence.to_arviz()
    assert not hasattr(data, "prior") and not hasattr(data, "observed_data")
    with pytest.raises(
        ev.ConfigurationError, match="log_likelihood=True needs the model and its data in memory"
    ):
        evidence.to_arviz(log_likelihood=True)
