"""Published cases whose exact values were computed elsewhere, to the digits given."""

import numpy as np
import pytest
from scipy.special import gammaln

import evidentia as ev

DRUG1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_log_evidences_of_the_sleep_data():
    """Under p(σ²) = 1/σ², which both hypotheses share: ln m₀ in closed form, and the others."""
    y = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    null = -5 * np.log(2 * np.pi) + gammaln(5) - 5 * np.log(y @ y / 2)
    assert null == pytest.approx(-20.8092656, abs=5e-8)
    found = {way: ev.bf.t_test(y, alternative=way) for way in ("two-sided", "greater", "less")}
    assert null + found["two-sided"].log_bf10 == pytest.approx(-17.9609388, abs=5e-8)
    assert null + found["greater"].log_bf10 == pytest.approx(-17.2707169, abs=5e-8)
    assert found["two-sided"].bf10 == pytest.approx(17.258880, abs=5e-7)
    assert found["greater"].bf10 == pytest.approx(34.416936, abs=5e-7)
    assert found["greater"].bf10 / found["less"].bf10 == pytest.approx(341, abs=0.5)
    assert found["two-sided"].statistics["t"] == pytest.approx(4.0621277, abs=5e-8)


def test_the_sleep_data_with_a_random_effect_have_another_prior():
    table = {"extra": DRUG1 + DRUG2, "group": [1] * 10 + [2] * 10, "ID": [*range(10)] * 2}
    found = ev.bf.anova("extra ~ C(group) + ID", table, random="ID")
    assert found.bf10["C(group) + ID"] == pytest.approx(11.6795, abs=5e-5)


@pytest.mark.parametrize(
    ("alternative", "bf10"), [("two-sided", 2.7308746e16), ("less", 5.4617492e16), ("greater", 0.01856415)]
)
def test_the_correlation_of_64_pairs_with_all_its_digits(alternative, bf10):
    found = ev.bf.correlation(r=-0.856341390601075, n=64, alternative=alternative)
    assert found.bf10 == pytest.approx(bf10, rel=3e-7)


def test_one_sided_correlations_average_to_the_two_sided_one():
    two, more, less = (
        ev.bf.correlation(r=-0.856, n=64, alternative=way).bf10 for way in ("two-sided", "greater", "less")
    )
    assert more + less == pytest.approx(2 * two, rel=1e-12)


def test_a_correlation_of_known_means_and_variances():
    """Of unit variances and r ~ uniform(-1, 1), from draws of both sides (case A5)."""
    generator, r = np.random.default_rng(3), np.linspace(-1, 1, 200_001)[1:-1]
    log_likelihood = -5 * np.log1p(-(r**2)) - (12.4 - 9.78 * r) / (2 * (1 - r**2))
    weights = np.exp(log_likelihood - log_likelihood.max())
    posterior = generator.choice(r, 200_000, p=weights / weights.sum())
    prior = generator.uniform(-1, 1, 200_000)
    found = ev.bf.savage_dickey({"r": posterior}, "r", 0.0, {"r": prior})
    assert found.log_bf10 == pytest.approx(np.log(19.8512357), abs=3 * found.error)
    assert found.error < 0.15


def test_the_main_effects_of_the_puzzles_are_equal_to_all_digits():
    times = "49,47,46,47,48,47,41,46,43,47,46,45,48,46,47,45,49,44,44,45,42,45,45,40"
    times += ",49,46,47,45,49,45,41,43,44,46,45,40,45,43,44,45,48,46,40,45,40,45,47,40"
    table = {
        "RT": [float(time) for time in times.split(",")],
        "ID": [*range(12)] * 4,
        "shape": (["round"] * 12 + ["square"] * 12) * 2,
        "colour": ["mono"] * 24 + ["colour"] * 24,
    }
    found = ev.bf.anova("RT ~ shape * colour + ID", table, random="ID")
    assert found.log_bf("shape") == pytest.approx(found.log_bf("colour"), abs=1e-9)
    for model, bf in (("shape", 319477.212), ("shape + colour", 1325714.086)):
        assert found.log_bf(model, "1") == pytest.approx(np.log(bf), abs=2e-5)
    for model, bf in (
        ("shape", 2.8648407),
        ("shape + colour", 11.8880456),
        ("shape + colour + shape:colour", 4.4362491),
    ):
        assert found.log_bf(model) == pytest.approx(np.log(bf), abs=2e-5)
