"""200 random data sets of each test of one number against other integrals, in float64."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, log_expit, logit

import evidentia as ev
from tests.bf.second_integrals import (
    intervals,
    log_bayes_factor,
    log_cosh,
    log_r,
    log_t,
    panels,
)

EACH = pytest.mark.parametrize("count", [3, pytest.param(200, marks=pytest.mark.reference)])
WIDE = 1e14
NEARLY_ONE = -1 + 1e-15, 1 - 1e-15


def _question(generator, low=0.5, high=0.5):
    """An alternative, and a null value of 0 or an interval around it."""
    alternative = str(generator.choice(["two-sided", "greater", "less"]))
    interval = -float(generator.uniform(0.01, low)), float(generator.uniform(0.01, high))
    return alternative, 0.0 if generator.random() < 0.6 else interval


def _ends(null):
    return sorted({0.0, *null}) if isinstance(null, tuple) else [0.0]


def _law(generator):
    laws = [
        stats.cauchy(0, np.exp(generator.normal(-0.4, 0.7))),
        stats.t(generator.uniform(1, 9), generator.normal(0, 0.4), np.exp(generator.normal(-1, 0.7))),
        stats.norm(generator.normal(0, 0.4), np.exp(generator.normal(-0.8, 0.7))),
        stats.laplace(0, 0.5),
        stats.uniform(-1.2, 3.0),
        stats.logistic(0.1, 0.3),
    ]
    return laws[generator.integers(len(laws))]


def _sizes(generator, most):
    return int(np.exp(generator.uniform(np.log(2), np.log(most))))


def _expected(law, studies, alternative, null):
    """Of t statistics with their degrees of freedom and sizes, which share an effect size."""
    bounds = tuple(np.clip(law.support(), -WIDE, WIDE))
    centre = float(law.median())
    centres = [(centre, float(law.ppf(0.75)) - centre)]
    total = sum(size for _, _, size in studies)
    for t, freedom, size in studies[:3]:
        centres.append((t / np.sqrt(size), np.sqrt((1 + t**2 / (2 * freedom)) / total)))
    for _ in range(2):  # the second time about the posterior's mode, which may lie between both
        nodes, log_weights = panels(centres, _ends(null), bounds)
        log_prior = law.logpdf(nodes)
        log_likelihood = sum(log_t(nodes, *study) for study in studies)
        centres.append((nodes[np.argmax(log_prior + log_likelihood)], centres[1][1] / 3))
    return log_bayes_factor(log_prior, log_likelihood, nodes, log_weights, *intervals(alternative, null))


@EACH
def test_t_tests_of_all_kinds(count):
    """t up to 1,000 and n up to 10⁵, one sample or two, six kinds of priors."""
    generator = np.random.default_rng(50)
    for _ in range(count):
        most = 1e5 if generator.random() < 0.15 else 400
        n, m = _sizes(generator, most), _sizes(generator, most)
        is_large = generator.random() < 0.2
        t = float(2 * generator.standard_cauchy())
        if is_large:
            t = float(generator.choice([-1, 1]) * np.exp(generator.uniform(1, np.log(1000))))
        law, (alternative, null) = _law(generator), _question(generator)
        given = {"alternative": alternative, "null": null, "prior": law}
        if generator.random() < 0.4:
            found, study = ev.bf.t_test(t=t, n=n, **given), (t, n - 1, n)
        else:
            found = ev.bf.t_test(t=t, n=n, n_other=m, **given)
            study = (t, n + m - 2, n * m / (n + m))
        expected = _expected(law, [study], alternative, null)
        assert found.log_bf10 == pytest.approx(expected, abs=1e-6), (study, law.args, given)
        assert found.error < 1e-6


@EACH
def test_studies_that_share_an_effect_size(count):
    generator = np.random.default_rng(51)
    for _ in range(count):
        number = int(generator.integers(1, 9))
        n, m = (np.exp(generator.uniform(np.log(2), np.log(400), number)).astype(int) for _ in range(2))
        is_two = generator.random() < 0.5
        sizes, freedom = (n * m / (n + m), n + m - 2) if is_two else (1.0 * n, n - 1)
        t = generator.normal(0, 0.5) * np.sqrt(sizes) + generator.normal(size=number)
        law, (alternative, null) = _law(generator), _question(generator)
        found = ev.bf.meta_t_test(t, n, m if is_two else None, alternative=alternative, prior=law, null=null)
        studies = list(zip(t, freedom, sizes, strict=True))
        assert found.log_bf10 == pytest.approx(_expected(law, studies, alternative, null), abs=1e-6)


def _correlation(generator):
    r = float(np.tanh(generator.normal(0, generator.choice([0.1, 0.5, 1.5, 6.0]))))
    n = int(np.exp(generator.uniform(np.log(3), np.log(1e5 if generator.random() < 0.1 else 300))))
    return min(max(r, -1 + 1e-9), 1 - 1e-9), n, float(np.exp(generator.normal(-0.6, 0.8)))


@EACH
def test_correlations_of_both_kinds(count):
    """By Jeffreys' double integral, and with the normal density of tau, over atanh ρ."""
    generator = np.random.default_rng(52)
    for trial in range(count):
        r, n, kappa = _correlation(generator)
        alternative, null = _question(generator, 0.4, 0.4)
        method = ("pearson", "kendall")[trial % 2]

        def coordinate(effect, method=method):
            return np.arctanh(
                effect if method == "pearson" else np.clip(np.sin(np.pi / 2 * effect), *NEARLY_ONE)
            )

        ends = [float(coordinate(end)) for end in _ends(null)]
        reach = 60 * max(1.0, kappa)
        centres = [(0.0, min(1.0, np.sqrt(kappa))), (float(np.clip(coordinate(r), -20, 20)), n**-0.5)]
        nodes, log_weights = panels(centres, ends, (-reach, reach))
        if method == "pearson":
            log_likelihood = log_r(nodes, r, n)
        else:
            statistic = r * n * (n - 1) / 2 / np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
            mean = 1.5 * np.sqrt(n) * 2 / np.pi * np.arctan(np.sinh(nodes))
            log_likelihood = statistic**2 / 2 - (statistic - mean) ** 2 / 2
        one, zero = intervals(alternative, (ends[0], ends[-1]) if isinstance(null, tuple) else 0.0)
        log_prior = -2 / kappa * log_cosh(nodes)
        expected = log_bayes_factor(log_prior, log_likelihood, nodes, log_weights, one, zero)
        found = ev.bf.correlation(r=r, n=n, method=method, scale=kappa, alternative=alternative, null=null)
        assert found.log_bf10 == pytest.approx(expected, abs=1e-6), (r, n, kappa, method)


@EACH
def test_proportions_with_both_priors(count):
    generator = np.random.default_rng(53)
    for trial in range(count):
        n = int(np.exp(generator.uniform(0, np.log(1e5 if generator.random() < 0.2 else 300))))
        k, value = int(generator.binomial(n, generator.beta(0.5, 0.5))), float(generator.uniform(0.01, 0.99))
        alternative, null = _question(generator, 0.4, 0.4)
        if isinstance(null, tuple):
            value, null = 0.5, (0.5 + null[0], 0.5 + null[1])
        else:
            null = value
        centre = float(logit(value))
        if trial % 2:
            a, b = np.exp(generator.normal(0, 1, 2))
            given, first = {"prior": stats.beta(a, b)}, (0.0, 1.0)
            bounds = -40 / a - 5, 40 / b + 5
        else:
            scale = float(np.exp(generator.normal(-0.6, 0.7)))
            given, first, bounds = (
                {"scale": scale},
                (centre, scale),
                (centre - 45 * scale, centre + 45 * scale),
            )
        ends = [float(logit(end)) for end in null] if isinstance(null, tuple) else []
        last = np.log((k + 0.5) / (n - k + 0.5)), np.sqrt(1 / (k + 0.5) + 1 / (n - k + 0.5))
        nodes, log_weights = panels([first, last], sorted({centre, *ends}), bounds)
        if trial % 2:
            log_prior = a * log_expit(nodes) + b * log_expit(-nodes) - betaln(a, b)
        else:
            log_prior = stats.logistic(centre, scale).logpdf(nodes)
        log_likelihood = k * (log_expit(nodes) - np.log(value))
        log_likelihood += (n - k) * (log_expit(-nodes) - np.log1p(-value))
        parts = intervals(alternative, tuple(ends) if ends else centre)
        expected = log_bayes_factor(log_prior, log_likelihood, nodes, log_weights, *parts)
        found = ev.bf.proportion(k, n, null, alternative=alternative, **given)
        assert found.log_bf10 == pytest.approx(expected, abs=1e-6), (k, n, null, given)


@EACH
def test_log_odds_of_tables(count):
    """Their shares below the quantiles found, by even steps of log odds of beta variables."""
    generator = np.random.default_rng(54)
    for _ in range(count):
        table = generator.poisson(np.exp(generator.normal(1.5, 1.2, (2, 2)))) + np.eye(2, dtype=int)
        a = float(np.exp(generator.normal(0, 0.5)))
        if a < 0.52:
            continue
        posterior = ev.bf.contingency(table, concentration=a).posterior
        one, other = (stats.beta(*(row + a)) for row in table.astype(float))
        ends = logit(np.clip(other.ppf([1e-15, 1 - 1e-15]), 1e-300, 1 - 1e-16))
        place = np.linspace(max(ends[0] - 8, -700), ends[1] + 8, 8001)
        p = 1 / (1 + np.exp(-place))
        weight = other.pdf(p) * p * (1 - p) * (place[1] - place[0])
        for share in (0.025, 0.5, 0.975):
            below = one.cdf(1 / (1 + np.exp(-place - posterior.quantile(share)))) @ weight
            assert below == pytest.approx(share, abs=1e-6), (table, a)


@EACH
def test_medians_and_intervals_of_effects(count):
    """The posterior's shares below the quantiles found."""
    generator = np.random.default_rng(55)
    for trial in range(count):
        alternative, null = _question(generator)
        share = float(generator.choice([0.025, 0.5, 0.975]))
        if trial % 2:
            t, n, law = float(generator.normal(0, 3)), _sizes(generator, 300), _law(generator)
            found = ev.bf.t_test(t=t, n=n, prior=law, alternative=alternative, null=null)
            place = found.posterior.quantile(share)
            bounds = tuple(np.clip(law.support(), -WIDE, WIDE))
            middle = float(law.median())
            centres = [(middle, float(law.ppf(0.75)) - middle), (t / np.sqrt(n), n**-0.5 * np.hypot(1, t))]
            nodes, log_weights = panels(centres, sorted({*_ends(null), place}), bounds)
            terms = law.logpdf(nodes) + log_t(nodes, t, n - 1, n) + log_weights
        else:
            r, n, kappa = _correlation(generator)
            null = null if null == 0 else (max(null[0], -0.4), min(null[1], 0.4))
            found = ev.bf.correlation(r=r, n=n, scale=kappa, alternative=alternative, null=null)
            effect = found.posterior.quantile(share)
            place, reach = float(np.arctanh(effect)), 60 * max(1.0, kappa)
            if not np.isfinite(place):
                continue
            null = tuple(np.arctanh(null)) if isinstance(null, tuple) else 0.0
            centres = [(0.0, min(1.0, np.sqrt(kappa))), (float(np.arctanh(r)), n**-0.5)]
            nodes, log_weights = panels(centres, sorted({*_ends(null), place}), (-reach, reach))
            terms = -2 / kappa * log_cosh(nodes) + log_r(nodes, r, n) + log_weights
        one, _ = intervals(alternative, null)
        inside = np.any([(nodes > low) & (nodes < high) for low, high in one], axis=0)
        mass = np.exp(np.where(inside, terms - terms[inside].max(), -np.inf))
        assert mass[nodes < place].sum() / mass.sum() == pytest.approx(share, abs=1e-6)
