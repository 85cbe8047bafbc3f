"""t tests against published values, and the integral over g in place of that over δ."""

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid
from scipy.special import logsumexp

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError

DRUG1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def log_jzs(t, freedom, size, scale):
    """Rouder et al. (2009, Eq. 1) by the trapezoidal rule over log g."""
    log_g = np.linspace(-60, 80, 140_001)
    grown = 1 + size * np.exp(log_g) * scale**2
    terms = -0.5 * np.log(grown) - (freedom + 1) / 2 * np.log1p(t**2 / (grown * freedom))
    terms += 0.5 * np.log(0.5 / np.pi) - 0.5 * log_g - 0.5 * np.exp(-log_g)  # InverseGamma(1/2, 1/2) of log g
    return logsumexp(terms) + np.log(1e-3) + (freedom + 1) / 2 * np.log1p(t**2 / freedom)


@pytest.mark.parametrize(
    ("given", "bf10"),
    [
        ({"alternative": "two-sided"}, 17.258880),
        ({"alternative": "greater"}, 34.416936),
        ({"alternative": "less"}, 0.100825),
    ],
)
def test_the_sleep_data(given, bf10):
    assert ev.bf.t_test(DRUG2, DRUG1, paired=True, **given).bf10 == pytest.approx(bf10, rel=5e-6)


def test_one_sample_of_the_sleep_data():
    assert ev.bf.t_test(DRUG2).bf10 == pytest.approx(10.715543, rel=1e-7)
    shifted = [value + 5 for value in DRUG2]
    assert ev.bf.t_test(shifted, null=5.0).bf10 == pytest.approx(10.715543, rel=1e-7)


@pytest.mark.parametrize(
    ("t", "n"), [(0, 2), (1e3, 2), (1000, 100_000), (-3, 1000), (1e3, 30), (30, 10**6), (1e6, 3)]
)
def test_extreme_statistics_keep_their_digits(t, n):
    found = ev.bf.t_test(t=t, n=n)
    assert found.log_bf10 == pytest.approx(log_jzs(t, n - 1, n, np.sqrt(0.5)), rel=1e-10, abs=1e-8)
    assert found.error < 1e-8


@pytest.mark.reference
def test_200_random_tests_agree_with_the_integral_over_g():
    generator = np.random.default_rng(41)
    for _ in range(200):
        n, m = generator.integers(2, 300, 2)
        t, scale = generator.standard_cauchy() * 2, np.exp(generator.normal(-0.5, 1))
        if generator.random() < 0.5:
            expected = log_jzs(t, n + m - 2, n * m / (n + m), scale)
            assert ev.bf.t_test(t=t, n=n, n_other=m, scale=scale).log_bf10 == pytest.approx(
                expected, abs=1e-8
            )
        else:
            expected = log_jzs(t, n - 1, n, scale)
            assert ev.bf.t_test(t=t, n=n, scale=scale).log_bf10 == pytest.approx(expected, abs=1e-8)


def test_one_sided_hypotheses_average_to_the_two_sided_one():
    two, more, less = (
        ev.bf.t_test(t=1.3, n=12, n_other=9, alternative=word).bf10
        for word in ("two-sided", "greater", "less")
    )
    assert (more + less) / 2 == pytest.approx(two, rel=1e-12)


def test_an_interval_and_its_complement_make_the_whole():
    """BF of the whole is the mean of both over the prior."""
    interval = (-0.3, 0.4)
    share = np.diff(stats.cauchy(0, np.sqrt(0.5)).cdf(interval))[0]
    outside = ev.bf.t_test(t=2.0, n=15, null=interval)
    whole = ev.bf.t_test(t=2.0, n=15).bf10
    density = outside.posterior.density(np.linspace(*interval, 5))
    assert not density[1:-1].any()  # H₁ has no mass inside
    # whole = share * inside + (1 - share) * outside, and outside / inside is the Bayes factor
    inside = whole / (share + (1 - share) * outside.bf10)
    posterior = share * inside / whole  # of the interval
    other = ev.bf.t_test(t=2.0, n=15, prior=dist.Cauchy(0.0, np.sqrt(0.5)))
    low, high = (np.interp(end, *_cumulative(other.posterior)) for end in interval)
    assert high - low == pytest.approx(posterior, abs=1e-4)


def _cumulative(posterior):
    values = np.linspace(-8, 8, 20_001)
    return values, cumulative_trapezoid(posterior.density(values), values, initial=0)


def test_an_informed_prior_by_another_quadrature():
    from scipy.integrate import quad

    law, n, m, t = stats.t(3, 0.35, 0.102), 20, 24, 2.1
    size = n * m / (n + m)

    def ratio(effect):
        return law.pdf(effect) * stats.nct(n + m - 2, effect * np.sqrt(size)).pdf(t)

    expected = quad(ratio, -2, 3, points=[0.35], epsrel=1e-10)[0] / stats.t(n + m - 2).pdf(t)
    for prior in (dist.StudentT(3, 0.35, 0.102), law):
        assert ev.bf.t_test(t=t, n=n, n_other=m, prior=prior).bf10 == pytest.approx(expected, rel=1e-5)


def test_posterior_and_savage_dickey():
    found = ev.bf.t_test(DRUG2, DRUG1, paired=True)
    zero = np.zeros(1)
    ratio = found.posterior.prior_density(zero) / found.posterior.density(zero)
    assert ratio[0] == pytest.approx(found.bf10, rel=1e-9)
    values, share = _cumulative(found.posterior)
    assert share[-1] == pytest.approx(1, abs=1e-6)
    assert np.interp(found.posterior.median, values, share) == pytest.approx(0.5, abs=1e-4)
    assert np.interp(found.posterior.interval, values, share) == pytest.approx([0.025, 0.975], abs=1e-4)


def test_the_axis_of_strong_evidence_has_ticks_beyond_the_grades():
    shown = [label.get_text() for label in ev.bf.t_test(t=6.0, n=30).robustness().plot().get_yticklabels()]
    assert {"1", "3", "10", "30", "100", "1,000", "10,000"} <= set(shown)


def test_robustness_and_sequential_are_the_same_question():
    found = ev.bf.t_test(DRUG2, DRUG1, paired=True, alternative="greater")
    curve = found.robustness([0.3, 1.0])
    expected = [
        ev.bf.t_test(DRUG2, DRUG1, paired=True, alternative="greater", scale=s).log_bf10 for s in (0.3, 1.0)
    ]
    assert curve.log_bf10 == pytest.approx(expected, abs=1e-12)
    assert curve.marked["wide"] == pytest.approx((1.0, expected[1]))
    path = found.sequential()
    assert path.num_observations.tolist() == list(range(2, 11))
    six = ev.bf.t_test(DRUG2[:6], DRUG1[:6], paired=True, alternative="greater").log_bf10
    assert path.log_bf10[4] == pytest.approx(six, abs=1e-12)
    assert path.log_bf10[-1] == pytest.approx(found.log_bf10, abs=1e-12)


def test_pairs_with_missing_values_are_left_out_with_a_count():
    with_gaps = ev.bf.t_test([*DRUG2, None, 3.0], [*DRUG1, 1.0, np.nan], paired=True)
    assert with_gaps.bf10 == pytest.approx(17.258880, rel=5e-6)
    assert with_gaps.notes == ("left out as values are missing: 2 pairs.",)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ev.bf.t_test([1, 1, 1]), DataError, "are equal"),
        (lambda: ev.bf.t_test([1.0]), DataError, "at least two observations; got 1"),
        (lambda: ev.bf.t_test([1, 1], [2, 2]), DataError, "no sample varies"),
        (lambda: ev.bf.t_test([1, 2], [1, 2, 3], paired=True), DataError, "x has 2, y has 3"),
        (lambda: ev.bf.t_test(["a", "b"]), DataError, "x must hold numbers"),
        (lambda: ev.bf.t_test([1.0, np.inf]), DataError, "x has 1 infinite values, the first in row 1"),
        (lambda: ev.bf.t_test([[1.0, 2.0]]), DataError, "shape"),
        (lambda: ev.bf.t_test([1, 2], t=3, n=2), ConfigurationError, "got both"),
        (lambda: ev.bf.t_test(t=2.0), ConfigurationError, "both t and n"),
        (lambda: ev.bf.t_test(t=2.0, n=1), ConfigurationError, "n must be a whole number of at least 2"),
        (lambda: ev.bf.t_test(t=np.nan, n=5), ConfigurationError, "t must be a finite number"),
        (lambda: ev.bf.t_test(t=2.0, n=5, null=1.0), ConfigurationError, "null mean"),
        (lambda: ev.bf.t_test([1, 2, 3], paired=True), ConfigurationError, "needs y"),
        (lambda: ev.bf.t_test([1, 2, 3], scale="large"), ConfigurationError, "'medium' (0.7071)"),
        (lambda: ev.bf.t_test([1, 2, 3], scale=-1), ConfigurationError, "scale must be a number from 1e-100"),
        (
            lambda: ev.bf.t_test([1, 2, 3], alternative="bigger"),
            ConfigurationError,
            "'two-sided', 'greater' or 'less'",
        ),
        (lambda: ev.bf.t_test([1, 2, 3], null=(1, 0)), ConfigurationError, "low < high"),
        (
            lambda: ev.bf.t_test([1, 2, 3], prior=3),
            ConfigurationError,
            "prior must be a distribution of one number",
        ),
        (
            lambda: ev.bf.t_test(t=2.0, n=9, prior=dist.HalfNormal(0.5), alternative="less"),
            ConfigurationError,
            "no effect size δ between -inf and 0",
        ),
        (
            lambda: ev.bf.t_test(t=2.0, n=9, prior=dist.Uniform(1.0, 2.0), null=(-0.1, 0.1)),
            ConfigurationError,
            "no effect size δ between -0.1 and 0.1",
        ),
        (lambda: ev.bf.t_test(t=2.0, n=9).sequential(), ConfigurationError, "summary statistics"),
        (
            lambda: ev.bf.t_test(t=2.0, n=9, prior=dist.Normal(0, 1)).robustness(),
            ConfigurationError,
            "other priors",
        ),
    ],
)
def test_bad_input_gets_one_message(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_what_is_printed():
    found = ev.bf.t_test(DRUG2, DRUG1, paired=True)
    assert repr(found).splitlines()[:2] == [
        "t test, pairs",
        "  BF10 = 17.26: strong evidence that effect size δ is not 0",
    ]
    assert max(map(len, repr(found).splitlines())) <= 80
    assert "median 1.08" in repr(found)
    assert ev.bf.t_test(t=0.1, n=40).conclusion == "BF01 = 5.835: moderate evidence that effect size δ is 0"
    assert "e+52066" in ev.bf.t_test(t=1000.0, n=100_000).conclusion
    assert ev.bf.t_test(t=1000.0, n=100_000).to_dict()["bf10"] is None


def test_a_prior_is_printed_with_the_numbers_of_its_distribution():
    for prior, label in (
        (dist.Uniform(0.2, 0.8), "Uniform(0.2, 0.8)"),
        (dist.HalfNormal(0.5), "HalfNormal(0.5)"),
        (dist.StudentT(3, 0.35, 0.102), "StudentT(3, 0.35, 0.102)"),
    ):
        assert ev.bf.t_test(t=2.0, n=9, prior=prior).prior == f"δ ~ {label}"


def test_saving_and_comparing(tmp_path):
    import json

    found = ev.bf.t_test(DRUG2, DRUG1, paired=True)
    found.save(tmp_path / "sleep.json")
    assert json.loads((tmp_path / "sleep.json").read_text())["bf10"] == found.bf10
    assert found.to_pandas()["median"][0] == found.posterior.median
    compared = ev.compare(found)
    assert compared.best == "H1: effect size δ is not 0"
    assert compared.probability[0] == pytest.approx(found.bf10 / (1 + found.bf10))


def test_masks_large_numbers_and_uneven_priors():
    masked = np.ma.masked_array([1, 2, 3, 1e6], mask=[0, 0, 0, 1])
    plain = ev.bf.t_test([1, 2, 3])
    assert ev.bf.t_test(masked).log_bf10 == plain.log_bf10
    assert ev.bf.t_test(1e200 * np.array([1.0, 2.0, 3.0])).log_bf10 == pytest.approx(plain.log_bf10, abs=1e-9)
    with pytest.raises(ConfigurationError, match="of its mass is missed"):
        ev.bf.t_test([1, 2, 3], prior=stats.t(0.1))
    assert "Uniform(1, 2)" in ev.bf.t_test([1, 2, 3], prior=dist.Uniform(1.0, 2.0)).prior
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        plain.posterior.quantile(1.0)


def test_a_light_prior_and_a_likelihood_far_away():
    """The posterior lies between both, where panels that follow either are wide."""
    found = ev.bf.t_test(t=-586.0, n=22, n_other=306, prior=stats.norm(0, 0.8))
    assert found.error < 1e-8
    mode = found.posterior.median
    assert -150 < mode < -3
    values = np.linspace(mode - 10, mode + 10, 20_001)
    assert np.trapezoid(found.posterior.density(values), values) == pytest.approx(1, abs=1e-6)
