"""Counts with more zeros and shares with zeros and ones: densities, exact evidences, limits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.stats
from scipy.special import expit, logsumexp

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.families import INFLATED, family
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.prediction import fitted
from evidentia.regression.response import respond
from evidentia.regression.table import as_table
from tests.evidence_factory import make_evidence

stats: Any = scipy.stats  # whose types are incomplete
COUNTS = np.array([0, 1, 2, 7, 50, 1_000])
SHARES = np.array([0.0, 1e-6, 0.3, 0.999, 1.0])
PREDICTORS = np.linspace(-6, 6, 13)
PROBABILITIES = 1e-6, 0.3, 0.999


def log_density(name, y, predictor, extra):
    law = family(name)
    response = respond(pd.Series(y), None, np.zeros(len(y)), law, "y", True)
    batch = {key: jnp.asarray(values) for key, values in response.arrays.items()}
    shifted = jnp.asarray(predictor - response.location, jnp.float32)
    params = {key: jnp.float32(value) for key, value in extra.items()}
    derivatives = jax.grad(lambda eta: jnp.sum(law.log_density(eta, batch, params)))
    for further in (0, 200.0, -200.0):  # where the exponential overflows
        assert np.isfinite(derivatives(jnp.where(batch_zero(batch), shifted + further, shifted))).all()
    return np.asarray(law.log_density(shifted, batch, params), np.float64)


def batch_zero(batch):
    return batch["y"] == 0 if "y" in batch else batch["end"] != 0


def law_of_counts(name, predictor, dispersion):
    mean = np.exp(predictor)
    if "negative" not in name:
        return stats.poisson(mean)
    return stats.nbinom(1 / dispersion, 1 / (1 + dispersion * mean))


def exact_counts(name, y, predictor, probability, dispersion):
    """In float64."""
    law = law_of_counts(name, predictor, dispersion)
    log_some, log_zero = law.logpmf(y), law.logpmf(0)
    if name.startswith("zero"):
        zero = np.logaddexp(np.log(probability), np.log1p(-probability) + log_zero)
        return np.where(y == 0, zero, np.log1p(-probability) + log_some)
    cut = np.log1p(-probability) + log_some - np.log(-np.expm1(log_zero))
    return np.where(y == 0, np.log(probability), cut)


def exact_shares(y, predictor, probability, coi, dispersion):
    a, b = expit(predictor) / dispersion, expit(-predictor) / dispersion
    some = stats.beta(a, b).logpdf(np.clip(y, 1e-300, 1 - 1e-16))
    ends = np.log(probability) + np.where(y == 1, np.log(coi), np.log1p(-coi))
    return np.where((y == 0) | (y == 1), ends, np.log1p(-probability) + some)


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("name", [name for name in INFLATED if "beta" not in name])
def test_counts(name, probability):
    y, predictor = (one.ravel() for one in np.meshgrid(COUNTS, PREDICTORS))
    probability, dispersion = (float(np.float32(one)) for one in (probability, 0.7))
    extra = {"zi" if name.startswith("zero") else "hu": probability, "dispersion": dispersion}
    exact = exact_counts(name, y, predictor, probability, dispersion)
    np.testing.assert_allclose(log_density(name, y, predictor, extra), exact, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_shares(probability):
    y, predictor = (one.ravel() for one in np.meshgrid(SHARES, PREDICTORS))
    extra = {"zoi": probability, "coi": 0.2, "dispersion": 0.3}
    extra = {key: float(np.float32(value)) for key, value in extra.items()}
    found = log_density("zero-one-inflated-beta", y, predictor, extra)
    exact = exact_shares(y, predictor, extra["zoi"], extra["coi"], extra["dispersion"])
    np.testing.assert_allclose(found, exact, rtol=3e-5, atol=3e-5)
    below = y < 1
    found = log_density("zero-inflated-beta", y[below], predictor[below], {**extra, "zi": extra["zoi"]})
    exact = exact_shares(y, predictor, extra["zoi"], 1e-30, extra["dispersion"])[below]
    np.testing.assert_allclose(found, exact, rtol=3e-5, atol=3e-5)


GENERATOR = np.random.default_rng(3)
ROWS = 30
X = GENERATOR.normal(size=ROWS)
Y = GENERATOR.poisson(np.exp(0.6 + 0.4 * X)) * (GENERATOR.random(ROWS) > 0.3)
SHARE = np.where(
    GENERATOR.random(ROWS) < 0.25, GENERATOR.random(ROWS) < 0.4, expit(X + GENERATOR.normal(size=ROWS))
)


def legendre(low, high, count):
    """Places of Gauss and Legendre's rule, and the logarithms of its weights."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return low + (high - low) * (places + 1) / 2, np.log(weights * (high - low) / 2)


def quadrature(log_rows, location, with_dispersion):
    """log ∫ over the intercept, the effect of one deviation, a probability and a dispersion."""
    standardised = (X - X.mean()) / X.std()
    intercept, log_a = legendre(location - 3, location + 3, 60)
    slope, log_b = legendre(-3, 3, 60)
    log_prior = stats.norm(location, 2.5).logpdf(intercept) + log_a
    log_prior = log_prior[:, None] + stats.norm(0, 2.5).logpdf(slope) + log_b
    predictor = intercept[:, None, None] + slope[:, None] * standardised
    quantile, log_d = legendre(0, 1, 24) if with_dispersion else (np.zeros(1), np.zeros(1))
    parts = []
    for dispersion, weight in zip(-np.log1p(-quantile), log_d, strict=True):  # of Exponential(1)
        log_likelihood = log_rows(predictor, dispersion)  # over the probability, by hand
        parts.append(logsumexp(log_likelihood + log_prior) + weight)
    return logsumexp(parts)


def with_probability(log_rows):
    """log ∫ of the product of rows over a uniform probability, given all else."""
    nodes, log_weights = legendre(0, 1, 40)

    def summed(predictor, dispersion):
        of_nodes = [
            log_rows(predictor, probability, dispersion).sum(axis=-1) + weight
            for probability, weight in zip(nodes, log_weights, strict=True)
        ]
        return logsumexp(of_nodes, axis=0)

    return summed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in INFLATED if "beta" not in name])
def test_evidence_of_counts(name):
    rows = with_probability(lambda *given: exact_counts(name, Y, *given))
    exact = quadrature(rows, np.log(Y.mean()), "negative" in name)
    found = ev.estimate(ev.Regression("y ~ x", family=name), {"y": Y, "x": X}, seed=1)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error + 0.002
    assert found.standard_error < 0.05
    assert {"zi", "hu"} & set(found.posterior)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zero-inflated-beta", "zero-one-inflated-beta"])
def test_evidence_of_shares(name):
    """The integrals of the ends are beta functions; the rest is a beta regression."""
    y = SHARE if "one" in name else np.where(SHARE == 1, 0.5, SHARE)
    inside, ones, zeros = (y > 0) & (y < 1), np.sum(y == 1), np.sum(y == 0)

    def rows(predictor, dispersion):
        return exact_shares(y, predictor, 0.5, 0.5, dispersion)[..., inside].sum(
            axis=-1
        ) - inside.sum() * np.log(0.5)

    exact = quadrature(rows, 0.0, True) + stats.betabinom(ROWS, 1, 1).logpmf(ones + zeros)
    exact -= np.log(scipy.special.comb(ROWS, ones + zeros))
    if "one" in name:
        exact -= np.log((ones + zeros + 1) * scipy.special.comb(ones + zeros, ones))
    found = ev.estimate(ev.Regression("y ~ x", family=name), {"y": y, "x": X}, seed=1)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error + 0.002
    assert found.standard_error < 0.05


@pytest.mark.reference
@pytest.mark.parametrize(
    "name, plain, parameter",
    [
        ("zero-inflated-poisson", "poisson", "zi"),
        ("zero-inflated-negative-binomial", "negative-binomial", "zi"),
        ("zero-inflated-beta", "beta", "zi"),
        ("zero-one-inflated-beta", "beta", "zoi"),
    ],
)
def test_without_further_zeros_it_is_the_plain_family(name, plain, parameter):
    y = np.where((SHARE == 0) | (SHARE == 1), 0.5, SHARE) if plain == "beta" else Y
    none = {parameter: dist.Uniform(0.0, 1e-5)}
    found = ev.estimate(ev.Regression("y ~ x", family=name, priors=none), {"y": y, "x": X})
    same = ev.estimate(ev.Regression("y ~ x", family=plain), {"y": y, "x": X})
    error = np.hypot(found.standard_error, same.standard_error)
    assert abs(found.log_evidence - same.log_evidence) < 4 * error + 0.002


@pytest.mark.reference
def test_effects_may_vary_by_group():
    """A zero-inflated likelihood is not log-concave; 40 rows of each group settle it."""
    generator = np.random.default_rng(0)
    group = np.repeat(np.arange(12), 40)
    mean = np.exp(1 + 0.5 * generator.normal(size=12)[group])
    y = generator.poisson(mean) * (generator.random(480) > 0.3)
    found = ev.estimate(
        ev.Regression("y ~ (1 | g)", family="zero_inflated_poisson"),
        {"y": y, "g": np.array(list("abcdefghijkl"))[group]},
    )
    shares = np.exp(found.weighted.log_weights)
    assert shares @ found.weighted["zi"] == pytest.approx(0.3, abs=0.06)
    assert shares @ found.weighted["sd(Intercept|g)"] == pytest.approx(0.5, abs=0.3)
    assert found.verdict.word == "trusted"


@pytest.mark.parametrize("name", INFLATED)
def test_predictions_are_means(name):
    values = {"zi": 0.3, "hu": 0.3, "zoi": 0.3, "coi": 0.2, "dispersion": 0.7}
    eta = 0.4 + 0.5 * X
    y = np.minimum(SHARE, 0.9) if "beta" in name else Y
    draws = {key: np.full(64, value) for key, value in {"Intercept": 0.4, "x": 0.5, **values}.items()}
    found = fitted(
        ev.Regression("y ~ x", name), make_evidence(posterior=draws), pd.DataFrame({"y": y, "x": X})
    )
    if "beta" in name:
        exact = 0.3 * 0.2 * ("one" in name) + 0.7 * expit(eta)
    else:
        every = np.arange(2000)[:, None]
        exact = np.sum(every * np.exp(exact_counts(name, every, eta, 0.3, 0.7)), axis=0)
    np.testing.assert_allclose(found.predicted[:, 0], exact, rtol=1e-8)


@pytest.mark.slow
def test_selection_predicts_with_its_zeros():
    found = ev.select_terms("y ~ x", {"y": Y, "x": X}, family="zero_inflated_poisson")
    predicted = found.predict({"x": X})
    assert predicted.mean() == pytest.approx(Y.mean(), rel=0.15)
    assert set(found.coefficients) == {"Intercept", "x"}


@pytest.mark.parametrize(
    "name, y, message",
    [
        (
            "hurdle-poisson",
            [0, -1, 2],
            r"must hold counts: .*1 of the 3 rows used do not: .*row 1 of these, has -1\.",
        ),
        ("zero-inflated-poisson", [0, 0.5, 2], r"must hold counts: whole numbers .* has 0\.5"),
        (
            "zero-one-inflated-beta",
            [0, 0.5, 1.2],
            r"must hold numbers from 0 to 1 for this family; .* has 1\.2\.$",
        ),
        (
            "zero-inflated-beta",
            [0, 0.5, 1],
            r"must hold 0 or numbers between 0 and 1 .* has 1\. For rows of 0 and 1",
        ),
        (
            "beta",
            [0, 0.5, 1],
            r"without these two .* has 0\. For .* there is the family zero-one-inflated-beta\.",
        ),
        ("beta", [0, 0.5, 7], r"without these two .* has 0\.$"),
    ],
)
def test_other_responses_are_named(name, y, message):
    with pytest.raises(DataError, match=message):
        respond(pd.Series(y), None, np.zeros(3), family(name), "y", True)


def test_a_column_named_as_a_probability_is_refused():
    with pytest.raises(DataError, match="a column 'zi', which is also the name of a parameter"):
        ev.estimate(ev.Regression("y ~ zi", family="zero-inflated-poisson"), {"y": Y, "zi": X})


@pytest.mark.parametrize("y", [[0, 0, 1, 0], [0, 1, 0.5, 1], [0, 0.25, 0.5, 1]])
def test_shares_that_are_hardly_inside_are_no_perfect_fit(y):
    regression = ev.Regression("y ~ x", family="zero_one_inflated_beta")
    table = as_table({"y": y, "x": [1.0, 2.0, 2.0, 3.0]}, ["y", "x"])
    frame = frame_of(parse("y ~ x"), table)
    assert regression.prepared(frame, table, None).check(frame, table) == 0.0


def test_shares_that_a_column_explains_exactly_between_the_ends():
    y = np.where(np.arange(ROWS) % 5, expit(X), 0.0)
    with pytest.raises(DataError, match="the response is explained exactly by 'x'"):
        ev.estimate(ev.Regression("y ~ x", family="zero-inflated-beta"), {"y": y, "x": X})


def test_names_of_brms_and_of_pscl():
    assert family("hurdle_negbinomial") is family("hurdle-negative-binomial")
    assert family("zero_inflated_negative_binomial") is family("zero-inflated-negative-binomial")
    with pytest.raises(ConfigurationError, match="Write family='zero-inflated-poisson'"):
        family("zeroinfl")
    with pytest.raises(ConfigurationError, match="needs|known|prior"):
        ev.estimate(
            ev.Regression("y ~ x", family="zero-one-inflated-beta", prior="unit-information"),
            {"y": SHARE, "x": X},
        )
