"""Design analyses against single t tests, the non-central t law, and bounds of any test."""

import json
import time

import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.optimize import brentq

import evidentia as ev
from evidentia.bf import t_tests
from evidentia.bf.hypotheses import intervals_of
from evidentia.bf.many_t import log_bayes_factors
from evidentia.bf.prior import law_of, of_law
from evidentia.bf.stopping import t_paths
from evidentia.bf.surface import surface_of
from evidentia.bf.t_tests import EVERYWHERE
from evidentia.errors import ConfigurationError

INFORMED = dist.StudentT(3, 0.35, 0.102)
SMALL = {"num_runs": 500, "seed": 3}


def sides(alternative, interval=None):
    return intervals_of("δ", EVERYWHERE, 0.0, alternative, interval)


def prior_of(own):
    return t_tests.cauchy(np.sqrt(0.5)) if own is None else of_law(*law_of(own))


@pytest.mark.parametrize("own", [None, INFORMED])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(("n", "t"), [(2, [-30, 0, 1e4]), (20, [-6, 0.5, 9]), (10**5, [-4, 3, 160])])
def test_many_t_statistics_have_the_bayes_factors_of_single_tests(own, alternative, n, t):
    found = log_bayes_factors(np.array(t, float), n - 1, n, prior_of(own), sides(alternative))
    expected = [ev.bf.t_test(t=each, n=n, prior=own, alternative=alternative).log_bf10 for each in t]
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("own", "alternative"), [(None, "two-sided"), (INFORMED, "greater")])
def test_the_surface_has_them_between_its_points(own, alternative):
    looks, generator = np.arange(5, 200), np.random.default_rng(0)

    def exact(t, n):
        return log_bayes_factors(t, 2 * (n - 1), n / 2, prior_of(own), sides(alternative))

    surface = surface_of(exact, (-8.0, 25.0), looks)
    assert surface.error < 1e-4
    for n in (5, 6, 37, 111, 199):
        t = generator.uniform(-8, 25, 200)
        assert surface.at(t, n) == pytest.approx(exact(t, n), abs=2e-4)


@pytest.mark.parametrize(("effect", "n"), [(0.5, 50), (-0.3, 80)])
def test_a_fixed_design_has_the_shares_of_the_non_central_t_law(effect, n):
    found = ev.bf.design(effect, n=n, upper=6, lower=1 / 3, num_runs=20_000)
    places = [
        brentq(lambda t, b=b: ev.bf.t_test(t=t, n=n, n_other=n).log_bf10 - np.log(b), 0, 20)
        for b in (1 / 3, 6)
    ]
    for outcome, shift in ((found.one, effect * np.sqrt(n / 2)), (found.zero, 0.0)):
        law = stats.nct(2 * n - 2, shift) if shift else stats.t(2 * n - 2)
        lower, upper = law.cdf(places[0]) - law.cdf(-places[0]), law.sf(places[1]) + law.cdf(-places[1])
        for share, exact in ((outcome.share_lower, lower), (outcome.share_upper, upper)):
            assert share == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


@pytest.mark.parametrize("test", ["two samples", "pairs"])
def test_a_sequential_design_against_a_loop_of_t_tests(test):
    generator, num_runs, looks = np.random.default_rng(5), 60, [10, 14, 18, 22]
    stopped = np.zeros(num_runs)  # 1 at the upper threshold, -1 at the lower one
    for run in range(num_runs):
        x, y = generator.normal(0.8, 1, 22), generator.normal(0, 1, 22)
        for n in looks:
            data = (x[:n], y[:n]) if test == "two samples" else (x[:n],)
            log_bf10 = ev.bf.t_test(*data, alternative="greater").log_bf10
            if abs(log_bf10) >= np.log(4):
                stopped[run] = np.sign(log_bf10)
                break
    found = ev.bf.design(
        0.8, test, n_min=10, n_max=22, step=4, upper=4, alternative="greater", num_runs=5_000
    )
    for share, expected in ((found.one.share_upper, 1), (found.one.share_lower, -1)):
        error = found.one.standard_error(share) * np.sqrt(5_000 / num_runs)
        assert share == pytest.approx(np.mean(stopped == expected), abs=4 * error + 1e-9)


@pytest.mark.parametrize("num_samples", [1, 2])
def test_paths_are_those_of_growing_samples(num_samples):
    """The t statistics at two looks, and how they move together."""
    paths = t_paths(np.random.default_rng(0), np.full(40_000, 0.4), np.array([5, 6, 20]), num_samples)
    generator = np.random.default_rng(1)
    rows = generator.normal(0, 1, (40_000, num_samples, 20))
    rows[:, 0] += 0.4
    if num_samples == 2:
        expected = [stats.ttest_ind(rows[:, 0, :n], rows[:, 1, :n], axis=1).statistic for n in (5, 6, 20)]
    else:
        expected = [stats.ttest_1samp(rows[:, 0, :n], 0, axis=1).statistic for n in (5, 6, 20)]
    for ours, theirs in zip(paths, expected, strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-3
    ranks = [stats.spearmanr(each[0], each[2]).statistic for each in (paths, expected)]
    assert ranks[0] == pytest.approx(ranks[1], abs=0.02)


@pytest.mark.parametrize("upper", [3.0, 10.0])
def test_misleading_evidence_for_h1_is_bounded(upper):
    """Under H₀ the chance of ever reaching BF₁₀ = b is at most 1 / b (Ville)."""
    found = ev.bf.design(0.3, n_min=3, n_max=60, step=3, upper=upper, lower=0, num_runs=2_000)
    assert 0 < found.false_positive < 1 / upper
    assert found.zero.share_lower == 0


def test_evidence_under_the_prior_predicts_its_own_odds():
    """With effects from the prior, P(BF₁₀ >= b | H₁) >= b P(BF₁₀ >= b | H₀), and log BF₁₀ fits."""
    found = ev.bf.design(stats.norm(0, 0.5), "pairs", 30, prior=dist.Normal(0, 0.5), num_runs=20_000)
    assert np.mean(np.exp(-found.one.log_bf10)) == pytest.approx(1, abs=0.03)
    assert found.one.claim == "δ ~ norm(0, 0.5)"


def test_shares_curves_and_rows_fit_together():
    found = ev.bf.design(0.5, n_max=60, step=7, upper=6, **SMALL)
    assert found.looks.tolist() == [20, 27, 34, 41, 48, 55, 60]
    table = found.to_pandas()
    assert table.columns.tolist() == ["hypothesis", "n", "upper", "lower", "running"]
    last = table[(table["hypothesis"] == "H1") & (table["n"] == 60)].iloc[0]
    assert last[["upper", "lower", "running"]].tolist() == pytest.approx(
        [found.one.share_upper, found.one.share_lower, found.one.share_never]
    )
    assert found.one.mean_n == pytest.approx(found.one.num_observations.mean())
    assert found.one.quantile_n(0.5) in found.looks
    assert found.false_negative == found.one.share_lower
    assert (
        json.loads(json.dumps(found.to_dict(), allow_nan=False))["H1"]["share_upper"] == found.one.share_upper
    )
    again = ev.bf.design(0.5, n_max=60, step=7, upper=6, **SMALL)
    assert (again.one.log_bf10 == found.one.log_bf10).all()
    assert (ev.bf.design(0.5, n_max=60, step=7, num_runs=500).one.log_bf10 != found.one.log_bf10).any()


def test_thresholds_that_are_never_reached():
    found = ev.bf.design(0.5, n_max=40, step=10, upper=np.inf, **SMALL)
    assert found.one.share_never == found.zero.share_never == 1
    assert found.to_dict()["upper"] is None and found.to_dict()["lower"] is None


def test_what_is_printed_and_drawn():
    wide = dist.StudentT(3, 0.35, 0.102)
    planned = ev.bf.design(wide, n_max=30, prior=wide, alternative="greater", **SMALL)
    lines = repr(planned).splitlines()
    assert lines[0] == "design of a t test, two samples: n = 20 to 30 per sample, 11 looks"
    assert max(map(len, lines)) <= 80
    assert "* misleading evidence" in lines[-1]
    assert len(planned.plot().lines) == 4
    fixed = ev.bf.design(0.5, "pairs", 40, **SMALL)
    assert "n = 40 pairs, fixed" in repr(fixed)
    assert fixed.plot().get_xlabel() == "BF10 (logarithmic) with n = 40"
    plt.close("all")


@pytest.mark.slow
def test_ten_thousand_runs_of_200_rows_are_quick():
    start = time.process_time()
    ev.bf.design(0.5, n_min=10, n_max=200)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ev.bf.design(0.5), "got neither"),
        (lambda: ev.bf.design(0.5, n=20, n_max=40), "got both"),
        (lambda: ev.bf.design(0.5, "paired", 20), "'one sample', 'pairs', 'two samples'"),
        (lambda: ev.bf.design("medium", n=20), "effect must be a finite number or a distribution"),
        (lambda: ev.bf.design(np.inf, n=20), "effect must be a finite number or a distribution"),
        (lambda: ev.bf.design([0.1, 0.2], n=20), "effect must be a distribution of one number"),
        (lambda: ev.bf.design(0.5, n=1), "n must be a whole number of at least 2"),
        (lambda: ev.bf.design(0.5, n_max=10), "n_max must be at least n_min, 20; got 10"),
        (lambda: ev.bf.design(0.5, n_max=40, step=0), "step must be a whole number of at least 1"),
        (lambda: ev.bf.design(0.5, n=20, upper=0.5), "upper must be a Bayes factor above 1"),
        (lambda: ev.bf.design(0.5, n=20, lower=3), "lower must be a Bayes factor below 1"),
        (lambda: ev.bf.design(0.5, n=20, alternative="more"), "alternative must be"),
        (
            lambda: ev.bf.design(0.5, n=20, prior=dist.HalfNormal(0.5), alternative="less", num_runs=10),
            "no effect size δ between -inf and 0",
        ),
        (lambda: ev.bf.design(0.5, n=20, scale="small"), "scale must be"),
        (lambda: ev.bf.design(0.5, n=20, num_runs=0), "num_runs must be an integer of at least 1"),
        (lambda: ev.bf.design(0.5, n=20, seed=-1), "seed must be"),
        (lambda: ev.bf.design(0.5, n_max=10**7, num_runs=10**6), "this machine has"),
    ],
)
def test_bad_input_gets_one_message(call, words):
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_intervals_as_null_hypotheses(alternative):
    interval, t = (-0.2, 0.25), [-3.0, 0.1, 2.5, 30.0]
    found = log_bayes_factors(np.array(t), 39, 20, prior_of(None), sides(alternative, interval))
    expected = [ev.bf.t_test(t=each, n=40, null=interval, alternative=alternative).log_bf10 for each in t]
    single = log_bayes_factors(np.array(t), 39, 40, prior_of(None), sides(alternative, interval))
    assert single == pytest.approx(expected, abs=1e-6)
    assert np.all(found != single)


def test_a_design_with_an_interval_has_effects_within_it():
    planned = ev.bf.design(0.6, n_max=60, null=(-0.1, 0.1), num_runs=2_000)
    point = ev.bf.design(0.6, n_max=60, num_runs=2_000)
    assert planned.zero.claim == "δ in -0.1 to 0.1" and "outside of -0.1 to 0.1" in repr(planned)
    assert planned.one.share_upper == pytest.approx(point.one.share_upper, abs=0.06)
    assert max(map(len, repr(planned).splitlines())) <= 80
    with pytest.raises(ConfigurationError, match="null must be 0 or an interval"):
        ev.bf.design(0.6, n=60, null=0.3)
    with pytest.raises(ConfigurationError, match="no effect size δ between -2 and -1"):
        ev.bf.design(0.6, n=60, null=(-2, -1), prior=dist.HalfNormal(1.0))


def test_a_design_is_saved_with_its_conclusion(tmp_path):
    planned = ev.bf.design(0.5, n=50, num_runs=500)
    planned.save(tmp_path / "design.json")
    saved = json.loads((tmp_path / "design.json").read_text())
    assert saved["conclusion"] == planned.conclusion
    assert saved["conclusion"].startswith("If δ is 0.5, BF10 >= 10 is reached in ")
