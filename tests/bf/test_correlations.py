"""Correlations against the closed form, quadrature of another integral, and published values."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, gammaln, hyp2f1

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError


def closed_form(r, n, scale):
    """log BF₁₀ of Ly, Verhagen and Wagenmakers (2016), two-sided."""
    found = (1 - 2 / scale) * np.log(2) + 0.5 * np.log(np.pi) - betaln(1 / scale, 1 / scale)
    found += gammaln((n + 2 / scale - 1) / 2) - gammaln((n + 2 / scale) / 2)
    return found + np.log(hyp2f1((n - 1) / 2, (n - 1) / 2, (n + 2 / scale) / 2, r**2))


@pytest.mark.parametrize(
    ("given", "bf10"),
    [
        ({"alternative": "two-sided"}, 2.5571374e16),
        ({"alternative": "less"}, 5.1142747e16),
        ({"alternative": "greater"}, 0.01857124),  # not 976, and not 10⁻³¹⁷ either
    ],
)
def test_a_direction_that_the_data_contradict(given, bf10):
    found = ev.bf.correlation(r=-0.856, n=64, **given)
    assert found.bf10 == pytest.approx(bf10, rel=1e-7)
    assert found.error < 1e-8


def test_published_values():
    assert ev.bf.correlation(r=0.083, n=100).bf10 == pytest.approx(0.17426582, rel=1e-7)
    assert ev.bf.correlation(r=-0.11756978, n=150, scale="medium").bf10 == pytest.approx(0.50901748, rel=1e-7)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.reference)])
def test_random_tests_agree_with_the_closed_form(count):
    generator = np.random.default_rng(42)
    for _ in range(count):
        n, scale = int(generator.integers(3, 400)), float(np.exp(generator.normal(-0.5, 1)))
        r = float(np.tanh(generator.normal(0, 0.5)))
        found = ev.bf.correlation(r=r, n=n, scale=scale)
        assert found.log_bf10 == pytest.approx(closed_form(r, n, scale), abs=1e-8)


@pytest.mark.parametrize(("r", "n"), [(0.4, 12), (-0.3, 30), (0.2, 4)])
def test_one_sided_by_the_integral_over_two_variables(r, n):
    """L(ρ) ∝ (1 - ρ²)^((n-1)/2) ∫ (cosh t - ρ r)^(1-n) dt, under the uniform prior."""

    def likelihood(rho):
        inner = quad(lambda t: (np.cosh(t) - rho * r) ** (1 - n), 0, 40, points=[1, 5])[0]
        return (1 - rho**2) ** ((n - 1) / 2) * inner

    expected = quad(likelihood, 0, 1)[0] / likelihood(0.0)
    assert ev.bf.correlation(r=r, n=n, alternative="greater").bf10 == pytest.approx(expected, rel=1e-6)


def test_kendall_by_quadrature_over_tau():
    generator = np.random.default_rng(1)
    x = generator.normal(size=25)
    y = x + generator.normal(size=25)
    found = ev.bf.correlation(x, y, method="kendall", scale=0.5)
    n, tau, shape = 25, found.statistics["tau"], 2.0
    statistic = tau * n * (n - 1) / 2 / np.sqrt(n * (n - 1) * (2 * n + 5) / 18)

    def joint(value):
        prior = (
            np.pi
            * 2 ** (-2 * shape)
            / np.exp(betaln(shape, shape))
            * np.cos(np.pi * value / 2) ** (2 * shape - 1)
        )
        mean = 1.5 * np.sqrt(n) * value
        return prior * np.exp(statistic * mean - mean**2 / 2)

    assert found.bf10 == pytest.approx(quad(joint, -1, 1, points=[tau], epsabs=0)[0], rel=1e-7)
    values = np.linspace(-0.999, 0.999, 4001)
    assert np.trapezoid(found.posterior.density(values), values) == pytest.approx(1, abs=1e-4)


def test_data_and_their_coefficient_agree():
    x, y = np.random.default_rng(2).normal(size=(2, 40))
    found = ev.bf.correlation([*x, None], [*y, 1.0])
    assert found.log_bf10 == pytest.approx(
        ev.bf.correlation(r=np.corrcoef(x, y)[0, 1], n=40).log_bf10, abs=1e-10
    )
    assert found.notes
    assert found.sequential(3).log_bf10[-1] == pytest.approx(found.log_bf10)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ev.bf.correlation([1, 2, 3], [2, 4, 6]), DataError, "lie on one line"),
        (lambda: ev.bf.correlation([1, 2, 3], [5, 5, 5]), DataError, "y does not vary"),
        (lambda: ev.bf.correlation([1, 2], [1, 3]), DataError, "at least 3 pairs; got 2"),
        (lambda: ev.bf.correlation([1, 2, 3]), ConfigurationError, "two columns"),
        (lambda: ev.bf.correlation(r=1.0, n=9), ConfigurationError, "between -1 and 1"),
        (lambda: ev.bf.correlation(r=0.3), ConfigurationError, "both r and n"),
        (lambda: ev.bf.correlation([1, 2, 3], [1, 3, 2], method="spearman"), ConfigurationError, "'kendall'"),
        (
            lambda: ev.bf.correlation(r=0.3, n=9, null=0.2),
            ConfigurationError,
            "null must be 0 or an interval",
        ),
    ],
)
def test_bad_input_gets_one_message(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.reference)])
def test_random_rank_correlations_agree_with_a_sum_over_tau(count):
    """Gauss's rule on panels of u, with τ = tanh u, short near zero."""
    generator = np.random.default_rng(44)
    points, weights = np.polynomial.legendre.leggauss(8)
    sizes = np.unique(np.concatenate([[0.0], np.geomspace(1e-5, 0.02, 50), np.linspace(0.02, 15, 1000)]))
    edges = np.concatenate([-sizes[:0:-1], sizes])
    half = np.diff(edges)[:, None] / 2
    u = (edges[:-1, None] + half * (1 + points)).ravel()
    log_weights = np.log(half * weights).ravel() - 2 * np.log(np.cosh(u))
    tau = np.tanh(u)
    log_cos = np.log(np.sin(np.pi / (1 + np.exp(2 * np.abs(u)))))  # of π τ / 2, near its zeros too
    for _ in range(count):
        n, scale = int(generator.integers(3, 400)), float(np.exp(generator.normal(-0.7, 0.6)))
        observed = float(np.tanh(generator.normal(0, 0.5)))
        alternative = str(generator.choice(["two-sided", "greater", "less"]))
        shape = 1 / scale
        prior = np.log(np.pi) - 2 * shape * np.log(2) - betaln(shape, shape) + (2 * shape - 1) * log_cos
        statistic = observed * n * (n - 1) / 2 / np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
        mean = 1.5 * np.sqrt(n) * tau
        terms = prior + log_weights + statistic * mean - mean**2 / 2
        sides = {"two-sided": np.ones_like(u), "greater": 2.0 * (u > 0), "less": 2.0 * (u < 0)}
        top = terms.max()
        expected = top + np.log(sides[alternative] @ np.exp(terms - top))
        found = ev.bf.correlation(r=observed, n=n, method="kendall", scale=scale, alternative=alternative)
        assert found.log_bf10 == pytest.approx(expected, abs=1e-6)


def test_ties_get_a_note():
    assert "tau is tau-b" in repr(ev.bf.correlation([1, 2, 2, 4, 5], [1, 3, 2, 5, 4], "kendall"))
    assert not ev.bf.correlation([1, 2, 3, 4, 5], [1, 3, 2, 5, 4], "kendall").notes


def test_kendall_is_near_the_exact_bayes_factor_of_a_normal_copula():
    """That of ten pairs by simulation: of their orders under ρ ~ uniform(-1, 1)."""
    generator, n, runs = np.random.default_rng(3), 10, 200_000
    rho = generator.uniform(-1, 1, (runs, 1))
    x, more = generator.standard_normal((2, runs, n))
    y = rho * x + np.sqrt(1 - rho**2) * more
    pairs = np.triu_indices(n, 1)
    concordant = ((x[:, pairs[0]] > x[:, pairs[1]]) == (y[:, pairs[0]] > y[:, pairs[1]])).sum(1)
    one = np.bincount(concordant, minlength=46) / runs
    zero = np.ones(1)
    for size in range(2, n + 1):
        zero = np.convolve(zero, np.ones(size) / size)
    for agreeing in (23, 27, 31, 36):
        exact = (one[agreeing] + one[45 - agreeing]) / 2 / zero[agreeing]
        found = ev.bf.correlation(r=2 * agreeing / 45 - 1, n=n, method="kendall").bf10
        assert 0.8 < found / exact < 1.05


def test_a_direction_that_10000_pairs_contradict_has_a_picture():
    """Outside of H₁ the joint density is far beyond what a float holds."""
    found = ev.bf.correlation(r=-0.99, n=10_000, alternative="greater")
    assert 0 < found.posterior.median < 1e-3
    assert found.posterior.density(np.array([-0.99, -0.5])).tolist() == [0.0, 0.0]
