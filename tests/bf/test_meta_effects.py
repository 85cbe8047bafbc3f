"""Effects with standard errors: the four models against quadrature over δ and log τ."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError

EFFECTS, ERRORS = np.array([0.4, 0.2, 0.5, -0.1]), np.array([0.15, 0.1, 0.2, 0.12])


def by_quadrature(spread, effect_prior):
    """Log evidences of the four models relative to that of neither."""
    log_deviation, effect = np.linspace(-18, 10, 2801), np.linspace(-8, 8, 8001)
    weight = np.exp(log_deviation) * spread.pdf(np.exp(log_deviation))

    def likelihood(values, deviations):
        variances = deviations[:, None] ** 2 + ERRORS**2
        squares = (EFFECTS - values[:, None, None]) ** 2 / variances + np.log(2 * np.pi * variances)
        return np.exp(-0.5 * squares.sum(-1))

    none, zero = np.zeros(1), likelihood(np.zeros(1), np.zeros(1))[0, 0]
    fixed = np.trapezoid(effect_prior.pdf(effect) * likelihood(effect, none)[:, 0], effect)
    of_spread = np.trapezoid(likelihood(none, np.exp(log_deviation))[0] * weight, log_deviation)
    inner = np.concatenate(
        [
            np.trapezoid(likelihood(part, np.exp(log_deviation)) * weight, log_deviation)
            for part in np.array_split(effect, 20)
        ]
    )
    both = np.trapezoid(effect_prior.pdf(effect) * inner, effect)
    return np.log(np.array([fixed, of_spread, both]) / zero)


@pytest.mark.parametrize(
    ("given", "spread", "effect"),
    [
        ({}, stats.invgamma(1, scale=0.15), stats.cauchy(0, np.sqrt(0.5))),
        (
            {"prior": dist.Normal(0.2, 0.3), "heterogeneity": dist.HalfNormal(0.5)},
            stats.halfnorm(0, 0.5),
            stats.norm(0.2, 0.3),
        ),
    ],
)
def test_four_models(given, spread, effect):
    found = ev.bf.meta_analysis(EFFECTS, ERRORS, **given).log_evidence
    expected = by_quadrature(spread, effect)
    assert [found[name] for name in ("effect", "heterogeneity", "both")] == pytest.approx(expected, abs=1e-5)


def test_questions_are_averaged_over_each_other():
    found = ev.bf.meta_analysis(EFFECTS, ERRORS)
    value = found.log_evidence
    expected = np.logaddexp(value["effect"], value["both"]) - np.logaddexp(0, value["heterogeneity"])
    assert found.log_bf_effect == pytest.approx(expected)
    assert ev.compare(found).best == "heterogeneity"
    assert max(map(len, repr(found).splitlines())) <= 80
    less = ev.bf.meta_analysis(EFFECTS, ERRORS, alternative="less")
    assert "is less than 0" in less.claim and less.log_bf_effect < 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ev.bf.meta_analysis([1.0], [0.1, 0.2]), DataError, "got 1 and 2"),
        (lambda: ev.bf.meta_analysis([1.0, 2.0], [0.1, 0.0]), DataError, "positive"),
        (lambda: ev.bf.meta_analysis([1.0, None], [0.1, 0.2]), DataError, "must be numbers"),
        (lambda: ev.bf.meta_analysis([1.0], [0.1], heterogeneity=2), ConfigurationError, "prior must be"),
    ],
)
def test_bad_input_gets_one_message(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_many_studies():
    """Their likelihood of τ is much narrower than its prior."""
    count, error = 1000, 0.05
    effects = 0.2 + 0.3 * np.sin(np.arange(count) * 2.4)
    log_deviation = np.linspace(-2.2, -0.6, 4001)
    variances = error**2 + np.exp(2 * log_deviation)[:, None]
    terms = -0.5 * (np.log(variances) + effects**2 / variances).sum(1)
    law = stats.invgamma(1, scale=0.15)
    terms += law.logpdf(np.exp(log_deviation)) + log_deviation
    none = -0.5 * (np.log(error**2) + (effects / error) ** 2).sum()
    expected = np.log(np.trapezoid(np.exp(terms - terms.max()), log_deviation)) + terms.max() - none
    found = ev.bf.meta_analysis(effects, np.full(count, error))
    assert found.log_evidence["heterogeneity"] == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ConfigurationError, match="positive numbers"):
        ev.bf.meta_analysis([0.1], [0.1], heterogeneity=stats.norm(0, 1))


def test_robustness_and_one_study_after_the_other():
    effects, errors = [0.4, 0.2, 0.5, -0.1], [0.15, 0.1, 0.2, 0.12]
    found = ev.bf.meta_analysis(effects, errors)
    wide = ev.bf.meta_analysis(effects, errors, scale="wide")
    curves = found.robustness([2**-0.5, 1.0]).by_question
    assert curves["effect"].log_bf10 == pytest.approx([found.log_bf_effect, wide.log_bf_effect])
    assert curves["heterogeneity"].log_bf10[1] == pytest.approx(wide.log_bf_heterogeneity)
    steps = found.sequential().by_question
    first = ev.bf.meta_analysis(effects[:2], errors[:2])
    assert steps["effect"].num_observations.tolist() == [1, 2, 3, 4]
    assert steps["effect"].log_bf10[1] == pytest.approx(first.log_bf_effect)
    assert steps["heterogeneity"].log_bf10[-1] == pytest.approx(found.log_bf_heterogeneity)
    with pytest.raises(ConfigurationError, match="varies the scale of the default prior"):
        ev.bf.meta_analysis(effects, errors, prior=dist.Normal(0, 1)).robustness()


def test_one_sided_studies_that_contradict_it():
    """Near zero other deviations count than at the studies' mean."""
    effects, errors = np.full(60, 0.3) + 0.01 * np.arange(60) % 0.1, np.full(60, 0.1)
    less = ev.bf.meta_analysis(effects, errors, alternative="less")
    law, prior = stats.invgamma(1, scale=0.15), stats.cauchy(0, 2**-0.5)
    log_deviation = np.linspace(-7, 3, 1201)[:, None]
    variances = errors**2 + np.exp(2 * log_deviation)
    precision = (1 / variances).sum(1)
    mean = (effects / variances).sum(1) / precision
    squares = ((effects - mean[:, None]) ** 2 / variances + np.log(variances)).sum(1)
    weights = law.logpdf(np.exp(log_deviation[:, 0])) + log_deviation[:, 0] - squares / 2
    places = -np.geomspace(1e-9, 50, 3000)
    terms = weights - 0.5 * precision * (places[:, None] - mean) ** 2
    top = terms.max()
    inner = np.trapezoid(np.exp(terms - top), log_deviation[:, 0], axis=1)
    none = np.trapezoid(np.exp(weights - 0.5 * precision * mean**2 - top), log_deviation[:, 0])
    expected = 2 * np.trapezoid((inner * prior.pdf(places))[::-1], places[::-1]) / none
    assert less.random.log_bf10 == pytest.approx(np.log(expected), abs=1e-4)


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.reference)])
def test_random_studies_agree_with_sums_over_both_parameters(count):
    """Even steps of log |δ| and log τ, of integrands that vanish at both ends."""
    generator = np.random.default_rng(46)
    log_deviation = np.arange(-9.0, 10.0, 0.04)
    law = stats.invgamma(1, scale=0.15)
    spread = law.logpdf(np.exp(log_deviation)) + log_deviation
    log_size = np.arange(-25.0, 13.0, 0.03)
    for _ in range(count):
        number, alternative = int(generator.integers(3, 30)), str(generator.choice(["two-sided", "less"]))
        errors = np.exp(generator.normal(-1.5, 0.5, number))
        effects = generator.normal(0.2, 0.3, number) + errors * generator.normal(size=number)
        scale = float(np.exp(generator.normal(-0.4, 0.5)))
        found = ev.bf.meta_analysis(effects, errors, scale, alternative)

        def log_mean(variances, weights, effects=effects, scale=scale, alternative=alternative):
            """Over the prior of δ, and at δ = 0."""
            precision = (1 / variances).sum(1)
            mean = (effects / variances).sum(1) / precision
            squares = ((effects - mean[:, None]) ** 2 / variances + np.log(variances)).sum(1)
            weights = weights - squares / 2

            def log_sum(places, more):
                terms = weights - 0.5 * precision * (places[:, None] - mean) ** 2
                top = terms.max(1)
                logs = top + np.log(np.exp(terms - top[:, None]).sum(1)) + more
                return np.logaddexp.reduce(logs)

            sizes = np.exp(log_size)
            prior = np.log(2 / np.pi * scale / (scale**2 + sizes**2)) + log_size + np.log(0.03)
            less = log_sum(-sizes, prior)
            at_zero = log_sum(np.zeros(1), 0.0)
            if alternative == "less":
                return less - at_zero, at_zero
            return np.logaddexp(less, log_sum(sizes, prior)) - np.log(2) - at_zero, at_zero

        fixed, none = log_mean(errors[None] ** 2, np.zeros(1))
        random, alone = log_mean(errors**2 + np.exp(2 * log_deviation)[:, None], spread + np.log(0.04))
        expected = {
            "neither": 0.0,
            "effect": fixed,
            "heterogeneity": alone - none,
            "both": random + alone - none,
        }
        assert found.log_evidence == pytest.approx(expected, abs=1e-6)
        assert found.error < 1e-5
