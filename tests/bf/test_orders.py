"""Orders, intervals and Savage-Dickey ratios of draws and of evidences."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import evidentia as ev
from evidentia.errors import ConfigurationError, EstimationError

Y = np.array([0.3, 1.1, 0.8, -0.2, 0.9, 1.4], np.float32)


@pytest.fixture(scope="module")
def draws():
    generator = np.random.default_rng(7)
    prior = {
        "a": generator.normal(size=50_000),
        "b": generator.normal(size=50_000),
        "x y": generator.normal(size=50_000),
    }
    prior["v"] = generator.normal(size=(50_000, 3))
    posterior = {name: values + 0.5 for name, values in prior.items()}
    posterior["a"] = posterior["a"] + 1
    return posterior, prior


@pytest.mark.parametrize(
    ("hypothesis", "posterior", "prior"),
    [
        ("a > b", stats.norm.cdf(1 / np.sqrt(2)), 0.5),
        ("a > 0", stats.norm.cdf(1.5), 0.5),
        ("-0.5 < b < 1.5", 2 * stats.norm.cdf(1) - 1, stats.norm.cdf(1.5) - stats.norm.cdf(-0.5)),
        ("abs(b) < 1", stats.norm.cdf(0.5) - stats.norm.cdf(-1.5), 2 * stats.norm.cdf(1) - 1),
        ("a > 0 & b < 0", stats.norm.cdf(1.5) * stats.norm.cdf(-0.5), 0.25),
        ("`x y` > 0, 2 * b - 1 >= 0", stats.norm.cdf(0.5) * 0.5, 0.5 * stats.norm.cdf(-0.5)),
        ("v[0] > v[1] > v[2]", 1 / 6, 1 / 6),
    ],
)
def test_shares_of_normal_draws(draws, hypothesis, posterior, prior):
    found = ev.bf.order(hypothesis, *draws)
    assert found.log_bf10 == pytest.approx(np.log(posterior / prior), abs=4 * found.error)
    assert 0 < found.error < 0.03


def test_the_complement(draws):
    found = ev.bf.order("a > b", *draws)
    other = ev.bf.order("b >= a", *draws)
    assert found.statistics["log BF against the complement"] == pytest.approx(found.log_bf10 - other.log_bf10)


@pytest.fixture(scope="module")
def evidence():
    model = ev.Model(
        {"mean": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["mean"], 1.0).log_prob(batch["y"]),
    )
    return ev.estimate(model, {"y": Y})


def test_an_evidence_brings_its_prior(evidence):
    """The posterior of the mean is N(Σy / (n + 1), 1 / (n + 1))."""
    law = stats.norm(Y.sum() / 7, 1 / np.sqrt(7))
    found = ev.bf.order("mean > 0", evidence)
    assert found.log_bf10 == pytest.approx(np.log(law.sf(0) / 0.5), abs=max(4 * found.error, 0.05))
    assert found.num_observations == 6
    ratio = ev.bf.savage_dickey(evidence, "mean", 0.2)
    expected = np.log(stats.norm.pdf(0.2) / law.pdf(0.2))
    assert ratio.log_bf10 == pytest.approx(expected, abs=3 * ratio.error)
    assert ratio.error < 0.3


def test_savage_dickey_of_normal_draws():
    generator = np.random.default_rng(8)
    prior, posterior = (
        {"b": generator.normal(size=(40_000, 2))},
        {"b": 0.5 * generator.normal(size=(20_000, 2))},
    )
    found = ev.bf.savage_dickey(posterior, "b[1]", 0.0, prior)
    assert found.log_bf10 == pytest.approx(-np.log(2), abs=3 * found.error)
    assert found.error < 0.1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda p, q: ev.bf.order("a > 100", p, q), EstimationError, "no draw of the posterior satisfies"),
        (lambda p, q: ev.bf.order("a > c", p, q), ConfigurationError, "names 'c'"),
        (lambda p, q: ev.bf.order("a >", p, q), ConfigurationError, "must read as"),
        (lambda p, q: ev.bf.order("a == b", p, q), ConfigurationError, "<, <=, > or >="),
        (lambda p, q: ev.bf.order("v > 0", p, q), ConfigurationError, "single parameters"),
        (lambda p, q: ev.bf.order("v[7] > 0", p, q), ConfigurationError, "out of range"),
        (
            lambda p, q: ev.bf.order("__import__('os').system('true') > 0", p, q),
            ConfigurationError,
            "may use names",
        ),
        (lambda p, q: ev.bf.order("a > 0", p), ConfigurationError, "prior must be given"),
        (
            lambda p, q: ev.bf.order("a > 0", p, {"a": q["a"]}),
            ConfigurationError,
            "prior must have draws of 'b'",
        ),
        (lambda p, q: ev.bf.order("a > 0", p["a"], q), ConfigurationError, "arrays of draws by name"),
        (lambda p, q: ev.bf.savage_dickey(p, "v", 0.0, q), ConfigurationError, "single number"),
        (lambda p, q: ev.bf.savage_dickey(p, "c", 0.0, q), ConfigurationError, "parameter must be one of"),
        (
            lambda p, q: ev.bf.savage_dickey(p, "a", 90.0, q),
            EstimationError,
            "too few draws of the prior of a",
        ),
    ],
)
def test_bad_input_gets_one_message(draws, call, error, words):
    with pytest.raises(error) as caught:
        call(*draws)
    assert words in str(caught.value)


def test_errors_know_of_chains_that_repeat_themselves():
    """Each draw a hundred times: 200 independent ones, whose share has a deviation of 0.035."""
    generator = np.random.default_rng(9)
    prior, shares, errors = {"b": generator.normal(size=20_000)}, [], []
    for _ in range(30):
        found = ev.bf.order("b > 0", {"b": np.repeat(generator.normal(size=200), 100)}, prior)
        shares.append(found.log_bf10)
        errors.append(found.error)
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.4)


def test_missing_draws_and_several_modes_are_refused():
    generator = np.random.default_rng(10)
    prior = {"b": generator.normal(0, 5, 20_000)}
    with pytest.raises(ConfigurationError, match="no missing draws"):
        ev.bf.order("b > 0", {"b": np.where(np.arange(20_000) % 2, np.nan, prior["b"])}, prior)
    modes = np.concatenate([generator.normal(0, 0.01, 2000), generator.normal(5, 1, 18_000)])
    with pytest.raises(EstimationError, match="several modes"):
        ev.bf.savage_dickey({"b": modes}, "b", 0.0, prior)


def test_draws_alone_have_no_number_of_observations():
    generator = np.random.default_rng(6)
    prior = {name: generator.normal(size=2000) for name in "ab"}
    found = ev.bf.order("a < b", {"a": prior["a"], "b": prior["b"] + 1}, prior)
    assert "n = " not in repr(found) and found.to_dict()["num_observations"] is None
    assert ev.compare(found).best == "H1: a < b"
