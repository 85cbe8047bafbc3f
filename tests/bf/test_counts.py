"""Proportions and contingency tables against closed forms and sums over their priors."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError

DOLLS = [[50, 48], [21, 41]]
TABLE = np.array([[3, 1], [2, 5]])


def test_a_proportion_with_a_logistic_prior():
    assert ev.bf.proportion(15, 25).bf10 == pytest.approx(0.65987245, rel=1e-7)


@pytest.mark.parametrize(
    ("k", "n", "null", "shapes", "bf01"),
    [
        (16, 20, 0.5, (1, 1), 0.09703159),
        (16, 20, 0.8, (1, 1), 4.582187),
        (100, 1000, 0.1, (1, 1), 42.05881),
        (14, 20, 0.5, (6, 4), 0.37901),
    ],
)
def test_a_proportion_with_a_beta_prior(k, n, null, shapes, bf01):
    found = ev.bf.proportion(k, n, null, prior=dist.Beta(*map(float, shapes)))
    assert found.bf01 == pytest.approx(bf01, rel=1e-5)
    exact = (
        betaln(k + shapes[0], n - k + shapes[1])
        - betaln(*shapes)
        - k * np.log(null)
        - (n - k) * np.log1p(-null)
    )
    assert found.log_bf10 == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.reference)])
def test_random_proportions_agree_with_another_quadrature(count):
    generator = np.random.default_rng(43)
    for _ in range(count):
        n = int(generator.integers(1, 200))
        k, null, scale = (
            int(generator.integers(0, n + 1)),
            generator.uniform(0.05, 0.95),
            np.exp(generator.normal(-0.5, 0.7)),
        )
        centre = np.log(null / (1 - null))

        def joint(x, k=k, n=n, null=null, centre=centre, scale=scale):
            prior = -2 * np.log(2 * np.cosh((x - centre) / (2 * scale))) - np.log(scale)
            at_null = k * np.log(null) + (n - k) * np.log1p(-null)
            return np.exp(prior - k * np.logaddexp(0, -x) - (n - k) * np.logaddexp(0, x) - at_null)

        peak = np.log((k + 0.5) / (n - k + 0.5))
        cuts = np.unique([centre - 40 * scale, peak - 3, centre, peak, peak + 3, centre + 40 * scale])
        greater = sum(quad(joint, *ends, epsrel=1e-10)[0] for ends in pairwise(cuts) if ends[0] >= centre)
        whole = sum(quad(joint, *ends, epsrel=1e-10)[0] for ends in pairwise(cuts))
        assert ev.bf.proportion(k, n, null, scale).log_bf10 == pytest.approx(np.log(whole), abs=1e-6)
        one_sided = ev.bf.proportion(k, n, null, scale, "greater")
        assert one_sided.log_bf10 == pytest.approx(np.log(2 * greater), abs=1e-6)


def test_several_counts_share_a_proportion_or_are_compared():
    assert ev.bf.proportion([7, 8], [12, 13]).log_bf10 == pytest.approx(ev.bf.proportion(15, 25).log_bf10)
    rows_fixed = ev.bf.contingency([[15, 10], [20, 5]], "independent multinomial", fixed="rows")
    equal = ev.bf.proportion([15, 20], [25, 25], null="equal")
    assert equal.log_bf10 == pytest.approx(rows_fixed.log_bf10, abs=1e-12)


def test_race_dolls():
    found = ev.bf.contingency(DOLLS, "independent multinomial", fixed="columns")
    assert found.bf10 == pytest.approx(1.81485574, rel=1e-8)
    turned = ev.bf.contingency(pd.DataFrame(DOLLS).T, "independent multinomial", fixed="rows")
    assert turned.bf10 == pytest.approx(found.bf10, rel=1e-12)


@pytest.mark.parametrize("concentration", [1.0, 1.5])
@pytest.mark.parametrize("sampling", ["joint multinomial", "poisson"])
def test_tables_agree_with_draws_of_their_priors(sampling, concentration):
    generator, draws = np.random.default_rng(0), 400_000
    cells = concentration * np.ones(4)
    one = generator.dirichlet(cells, draws)
    margin = 2 * concentration - 1
    rows, columns = generator.dirichlet([margin, margin], (2, draws))
    zero = (rows[:, :, None] * columns[:, None, :]).reshape(draws, 4)
    flat = TABLE.ravel()
    if sampling == "poisson":
        rate = 4 * concentration / TABLE.sum()
        one = one * generator.gamma(4 * concentration, 1 / rate, (draws, 1))
        zero = zero * generator.gamma(4 * concentration - 1, 1 / rate, (draws, 1))
        likelihoods = [stats.poisson.pmf(flat, means).prod(1) for means in (one, zero)]
    else:
        likelihoods = [stats.multinomial.pmf(flat, TABLE.sum(), shares) for shares in (one, zero)]
    means = [each.mean() for each in likelihoods]
    error = np.sqrt(sum(each.var() / draws / mean**2 for each, mean in zip(likelihoods, means, strict=True)))
    found = ev.bf.contingency(TABLE, sampling, concentration=concentration)
    assert found.log_bf10 == pytest.approx(np.log(means[0] / means[1]), abs=4 * error)


def test_given_both_margins_and_a_flat_prior_all_tables_are_equally_likely():
    """Of the tables with these margins there are five."""
    under_null = stats.hypergeom(11, 5, 4).pmf(3)
    assert ev.bf.contingency(TABLE, "hypergeometric").bf10 == pytest.approx(1 / 5 / under_null, rel=1e-10)


def test_larger_tables_and_robustness():
    found = ev.bf.contingency([[10, 3, 4], [2, 8, 5]])
    assert np.isfinite(found.log_bf10)
    curve = found.robustness([1.0, 2.0])
    assert curve.log_bf10[0] == pytest.approx(found.log_bf10)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ev.bf.proportion(5, 3), DataError, "from 0 to trials"),
        (lambda: ev.bf.proportion([1, 2], [3]), DataError, "same length"),
        (lambda: ev.bf.proportion(1.5, 3), DataError, "whole numbers"),
        (lambda: ev.bf.proportion(1, 3, null=1.2), ConfigurationError, "between 0 and 1"),
        (lambda: ev.bf.proportion(1, 3, null="equal"), ConfigurationError, "two or more"),
        (lambda: ev.bf.proportion(1, 3, prior=dist.Normal(0, 1)), ConfigurationError, "beta distribution"),
        (lambda: ev.bf.contingency([[1, 2]]), DataError, "two rows and two columns"),
        (lambda: ev.bf.contingency([[1, 2], [0, 0]]), DataError, "row of zeros, number 1"),
        (lambda: ev.bf.contingency([[1, 2], [0.5, 3]]), DataError, "that in row 1, column 0 is 0.5"),
        (lambda: ev.bf.contingency(DOLLS, "multinomial"), ConfigurationError, "'joint multinomial'"),
        (lambda: ev.bf.contingency(DOLLS, "independent multinomial"), ConfigurationError, "fixed must be"),
        (
            lambda: ev.bf.contingency(np.ones((2, 3)), "hypergeometric"),
            ConfigurationError,
            "2 by 2; got 2 by 3",
        ),
        (
            lambda: ev.bf.contingency(pd.crosstab(list("aabb"), list("xyxy"), margins=True)),
            DataError,
            "'All' holds sums. Leave them out: table.iloc[:-1, :-1]",
        ),
        (lambda: ev.bf.contingency(DOLLS, concentration=0.4), ConfigurationError, "must exceed 0.5"),
        (lambda: ev.bf.contingency(DOLLS).sequential(), ConfigurationError, "summary statistics"),
    ],
)
def test_bad_input_gets_one_message(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("table", [[[50, 48], [21, 41]], [[0, 3], [5, 1]], [[900, 30], [40, 2000]]])
def test_the_log_odds_ratio_of_a_table_has_the_quantiles_of_draws(table):
    found, draws = ev.bf.contingency(table), 400_000
    gammas = np.random.default_rng(0).gamma(np.ravel(table) + 1.0, size=(draws, 4))
    odds = np.sort(np.log(gammas) @ [1, -1, -1, 1])
    for share in (0.025, 0.5, 0.975):
        error = 4 * np.sqrt(share * (1 - share) / draws)
        low, high = np.quantile(odds, [max(share - error, 0), share + error])
        assert low < found.posterior.quantile(share) < high
    low, high = found.posterior.interval
    assert f"log odds ratio: median {found.posterior.median:.4f}" in repr(found)
    assert found.to_dict()["effect"]["interval_95"] == [low, high]


def test_the_log_odds_ratio_against_an_integral_over_two_betas():
    """Given column totals: P(ψ < 0) is that of one beta variable below another."""
    posterior = ev.bf.contingency(DOLLS, "independent multinomial", fixed="columns").posterior
    one, other = stats.beta(51, 22), stats.beta(49, 42)
    below = quad(lambda p: one.cdf(p) * other.pdf(p), 0, 1, epsabs=1e-13, epsrel=1e-12)[0]
    assert posterior.quantile(below) == pytest.approx(0, abs=1e-8)

    def density(place):  # ∫ of both densities of log odds, place apart
        def logistic(x, law):
            p = 1 / (1 + np.exp(-x))
            return law.pdf(p) * p * (1 - p)

        return quad(lambda x: logistic(x + place, one) * logistic(x, other), -8, 8, points=[0], epsabs=1e-12)[
            0
        ]

    places = np.array([-0.5, 0.0, 0.7, 2.0])
    assert posterior.density(places) == pytest.approx([density(place) for place in places], abs=1e-9)
    prior = posterior.prior_density(np.array([0.0]))  # of the difference of two logistic variables
    assert prior == pytest.approx(1 / 6, abs=1e-9)


def test_the_log_odds_ratio_follows_the_table():
    first = ev.bf.contingency(DOLLS).posterior
    other = ev.bf.contingency([row[::-1] for row in DOLLS], "poisson").posterior
    assert other.interval == pytest.approx((-first.interval[1], -first.interval[0]), abs=1e-9)
    large = ev.bf.contingency(np.array([[5, 5], [5, 5]]) * 10**6).posterior
    assert large.interval[1] == pytest.approx(1.959964 * np.sqrt(4 / 5e6), rel=1e-4)
    assert ev.bf.contingency([[1, 2, 3], [4, 5, 6]]).posterior is None
    rare = ev.bf.contingency([[0, 4], [3, 0]], "hypergeometric", concentration=0.02).posterior
    assert np.isfinite(rare.interval).all()


def test_a_table_is_drawn_without_savage_dickey_points():
    axes = ev.bf.contingency(DOLLS).plot()
    assert [line.get_marker() for line in axes.lines].count("o") == 0
    assert axes.get_xlabel().startswith("log odds ratio")
    plt.close("all")


def test_robustness_starts_where_the_prior_is_defined():
    curve = ev.bf.contingency(DOLLS).robustness()
    assert np.isfinite(curve.log_bf10).all() and curve.scale[0] > 0.5


def test_halves_of_the_range_are_reciprocal():
    low, high = (ev.bf.proportion(40, 100, null=interval).log_bf10 for interval in ((0, 0.5), (0.5, 1)))
    assert low == pytest.approx(-high, abs=1e-10)


@pytest.mark.parametrize("shapes", [(1e-3, 5.0), (0.01, 0.01)])
def test_beta_priors_of_small_shapes(shapes):
    a, b = shapes
    exact = betaln(100 + a, 900 + b) - betaln(a, b) - 100 * np.log(0.2) - 900 * np.log(0.8)
    found = ev.bf.proportion(100, 1000, null=0.2, prior=stats.beta(a, b))
    assert found.log_bf10 == pytest.approx(exact, abs=1e-9)
    density = ev.bf.proportion(0, 10, prior=dist.Beta(1.0, 1.0)).posterior.density([0.0])
    assert density[0] == pytest.approx(11)


def log_predictive(counts, shapes):
    """log p of a sequence with these counts under a Dirichlet prior, one observation at a time."""
    counts, shapes = np.ravel(counts), np.ravel(shapes)
    seen = np.concatenate([shape + np.arange(count) for count, shape in zip(counts, shapes, strict=True)])
    return np.log(seen).sum() - np.log(shapes.sum() + np.arange(counts.sum())).sum()


def log_of_total(total, shape, rate):
    """log p of a Poisson count whose mean has a gamma prior, in even steps of the mean's log."""
    log_mean = np.linspace(-60, 25, 20_001)
    terms = stats.gamma(shape, scale=1 / rate).logpdf(np.exp(log_mean)) + log_mean
    terms += total * log_mean - np.exp(log_mean)
    return np.log(np.exp(terms - terms.max()).sum()) + terms.max()


def log_bf_of(table, plan, fixed, a):
    rows, columns = table.shape
    if plan == "hypergeometric":
        (first, second), (third, fourth) = table
        ways = np.arange(max(0, first - fourth), min(first + second, first + third) + 1)
        cells = np.array([[x, first + second - x, first + third - x, fourth - first + x] for x in ways])
        one = np.array([log_predictive(each, [a] * 4) for each in cells])
        orders = np.array([sum(np.log(np.arange(1, cell + 1)).sum() for cell in each) for each in cells])
        here = int(np.flatnonzero(ways == first)[0])
        one, zero = one - orders, -orders
        return (one[here] - np.logaddexp.reduce(one)) - (zero[here] - np.logaddexp.reduce(zero))
    if fixed == "rows":
        return log_bf_of(table.T, plan, "columns", a)
    by_row = log_predictive(table.sum(1), [a * columns - (columns - 1)] * rows)
    if plan == "independent multinomial":
        return sum(log_predictive(column, [a] * rows) for column in table.T) - by_row
    by_column = log_predictive(table.sum(0), [a * rows - (rows - 1)] * columns)
    joint = log_predictive(table, np.full(table.size, a)) - by_row - by_column
    if plan == "joint multinomial":
        return joint
    total, shape = table.sum(), a * table.size
    lost = (rows - 1) * (columns - 1)
    means = [log_of_total(total, each, shape / total) for each in (shape, shape - lost)]
    return joint + means[0] - means[1]


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.reference)])
def test_random_tables_agree_with_products_of_predictions(count):
    generator = np.random.default_rng(45)
    plans = "joint multinomial", "independent multinomial", "poisson", "hypergeometric"
    for trial in range(count):
        plan = plans[trial % 4]
        shape = (2, 2) if plan == "hypergeometric" else tuple(generator.integers(2, 6, 2))
        table = generator.poisson(np.exp(generator.normal(2, 1, shape)))
        table[:, 0] += 1
        table[0] += 1  # no margin of zeros
        fixed = str(generator.choice(["rows", "columns"])) if plan == plans[1] else None
        a = float(generator.uniform(1, 3))
        found = ev.bf.contingency(table, plan, fixed, a)
        assert found.log_bf10 == pytest.approx(log_bf_of(table, plan, fixed, a), abs=1e-6)


def test_sampling_plans_in_the_words_of_r():
    one = ev.bf.contingency(DOLLS, "indepMulti", fixed="cols")
    assert one.log_bf10 == ev.bf.contingency(DOLLS, "independent multinomial", fixed="columns").log_bf10
    assert ev.bf.contingency(DOLLS, "jointMulti").log_bf10 == ev.bf.contingency(DOLLS).log_bf10
    assert ev.bf.contingency(DOLLS, "hypergeom").prior.endswith("hypergeometric")
    sums = pd.DataFrame([[1, 1, 2], [1, 1, 2], [2, 2, 4]])  # may be counts: nothing calls them a total
    assert np.isfinite(ev.bf.contingency(sums.to_numpy()).log_bf10)
