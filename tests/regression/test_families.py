"""Each family's log density against SciPy's in float64, also where float32 would lose digits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy import special

import evidentia as ev
from evidentia.errors import ConfigurationError
from evidentia.regression.families import FAMILIES, family
from evidentia.regression.response import respond

stats: Any = scipy.stats  # whose types are incomplete
PREDICTORS = np.linspace(-4, 4, 9)
DISPERSIONS = 1e-4, 1e-2, 0.3, 1.0, 10.0
COUNTS = np.array([0, 1, 2, 7, 50, 1_000, 100_000])


def log_density(name, y, predictor, extra=None, link=None, trials=None):
    law = family(name, link)
    response = respond(pd.Series(y), trials, np.zeros(len(y)), law, "y", True)
    assert response.log_jacobian == 0 or law.kind in ("real", "positive")
    batch = {key: jnp.asarray(values) for key, values in response.arrays.items()}
    shifted = (np.asarray(predictor, np.float64) - response.location) / response.scale
    params = {key: jnp.float32(value) for key, value in (extra or {}).items()}
    if "scale" in params:
        params["scale"] /= response.scale
    found = law.log_density(jnp.asarray(shifted, jnp.float32), batch, params)
    return np.asarray(found, np.float64) + response.log_jacobian


def grid(values):
    y, predictor = np.meshgrid(values, PREDICTORS)
    return y.ravel(), predictor.ravel()


def rounded(values):
    """As float32 holds them: a thousand counts make a nat of the thousandth part of a unit."""
    return np.asarray(values, np.float32).astype(np.float64)


def close(found, exact, slack=1e-5):
    """Relative to the distance from the peak and to one nat."""
    np.testing.assert_allclose(found, exact, rtol=slack, atol=slack)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_gaussian(scale):
    y, predictor = grid(np.linspace(-3, 3, 7))
    close(log_density("gaussian", y, predictor, {"scale": scale}), stats.norm(predictor, scale).logpdf(y))


@pytest.mark.parametrize("nu", [0.5, 3.0, 50.0, 1e4])
def test_student_t(nu):
    y, predictor = grid(np.linspace(-3, 3, 7))
    found = log_density("student-t", y, predictor, {"scale": 0.7, "degrees_of_freedom": nu})
    close(found, stats.t(nu, predictor, 0.7).logpdf(y))


def test_bernoulli():
    y, predictor = grid([0, 1])
    for link, share in (("logit", special.expit), ("probit", stats.norm.cdf)):
        close(
            log_density("bernoulli", y, predictor, link=link),
            np.where(y, np.log(share(predictor)), np.log(share(-predictor))),
        )


def test_binomial():
    y, predictor = grid([0, 1, 5, 30, 100])
    trials = np.full(len(y), 100)
    found = log_density("binomial", y, predictor, trials=trials)
    close(found, stats.binom(100, special.expit(predictor)).logpmf(y))


@pytest.mark.parametrize("shift", [0, 5, 10])
def test_poisson(shift):
    y, predictor = grid(COUNTS)
    predictor = rounded(predictor + shift)
    close(log_density("poisson", y, predictor), stats.poisson(np.exp(predictor)).logpmf(y))


def test_poisson_near_its_peak_keeps_its_digits():
    y = np.array([1_000_000.0, 1_001_000.0])
    predictor = rounded(np.log([1_000_500.0, 1_000_500.0]))
    exact = stats.poisson(np.exp(predictor)).logpmf(y)
    np.testing.assert_allclose(log_density("poisson", y, predictor), exact, atol=0.5)


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_negative_binomial(dispersion):
    y, predictor = grid(COUNTS[:-1])
    size, mean = 1 / np.float64(np.float32(dispersion)), np.exp(predictor)
    exact = stats.nbinom(size, size / (size + mean)).logpmf(y)
    close(log_density("negative-binomial", y, predictor, {"dispersion": dispersion}), exact, 3e-5)


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_gamma(dispersion):
    y, predictor = grid([0.01, 0.5, 1.0, 20.0])
    shape = 1 / np.float64(np.float32(dispersion))
    exact = stats.gamma(shape, scale=np.exp(predictor) / shape).logpdf(y)
    close(log_density("gamma", y, predictor, {"dispersion": dispersion}), exact)


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_beta(dispersion):
    y, predictor = grid([1e-6, 0.01, 0.5, 0.999])
    precision, mean = 1 / np.float64(np.float32(dispersion)), special.expit(predictor)
    exact = stats.beta(precision * mean, precision * special.expit(-predictor)).logpdf(y)
    close(log_density("beta", y, predictor, {"dispersion": dispersion}), exact, 3e-5)


def test_categorical():
    predictor = np.random.default_rng(0).standard_normal((12, 2)) * 3
    y = np.arange(12) % 3
    logits = np.column_stack([np.zeros(12), predictor])
    close(log_density("categorical", y, predictor), special.log_softmax(logits, axis=1)[np.arange(12), y])


def test_ordinal():
    y, predictor = grid([0, 1, 2, 3])
    shares = np.array([0.1, 0.2, 0.65, 0.05])
    cuts = np.array([-np.inf, *special.logit(np.cumsum(shares)[:-1]), np.inf])
    exact = np.log(special.expit(cuts[y + 1] - predictor) - special.expit(cuts[y] - predictor))
    law = family("ordinal")
    response = respond(pd.Series(y), None, np.zeros(len(y)), law, "y", True)
    arrays = {key: jnp.asarray(values) for key, values in response.arrays.items()}
    extra = {"probabilities": jnp.asarray(shares, jnp.float32)}
    close(law.log_density(jnp.asarray(predictor, jnp.float32), arrays, extra), exact, 3e-5)


def test_unknown_families_and_links_are_named():
    with pytest.raises(ConfigurationError, match="family must be one of gaussian, student-t.*; got 'normal'"):
        family("normal")
    with pytest.raises(
        ConfigurationError, match="link of the family bernoulli must be one of logit, probit; got 'log'"
    ):
        family("bernoulli", "log")
    assert len(FAMILIES) == 19


def test_rows_without_trials_add_nothing():
    """Their log-likelihood is 0, with any effects, as is that of R's glm."""
    few = {"y": np.array([1, 3, 2]), "n": np.array([4, 3, 5]), "x": np.array([-1.0, 0.5, 2.0])}
    more = {name: np.r_[values, [0, 0]] for name, values in few.items()}
    for formula in ("y | n ~ 0", "y | n ~ 0 + offset(x)"):
        found, expected = (
            ev.estimate(ev.Regression(formula, family="binomial"), table) for table in (more, few)
        )
        assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-5)
        assert found.num_observations == 5
    trials = jnp.zeros(2)
    batch = {"y": trials, "trials": trials, "constant": trials}
    gradient = jax.grad(lambda eta: jnp.sum(family("binomial").log_density(eta, batch, {})))(jnp.ones(2))
    assert not np.any(gradient)
