"""Evidence of a log density in NumPy with its draws: Stan's, without Stan."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, expit

import evidentia as ev
from evidentia import bridge_sampling_of

HEADS, TOSSES = 7, 10
EXACT = betaln(2 + HEADS, 1 + TOSSES - HEADS) - betaln(2, 1)


def log_density(positions):
    """Tosses with a Beta(2, 1) prior of the rate, on the log odds, with all constants."""
    rate = expit(positions[:, 0])
    log_likelihood = HEADS * np.log(rate) + (TOSSES - HEADS) * np.log1p(-rate)
    return log_likelihood + stats.beta.logpdf(rate, 2, 1) + np.log(rate) + np.log1p(-rate)


def draws_of(seed, shape=(4, 500)):
    rate = np.random.default_rng(seed).beta(2 + HEADS, 1 + TOSSES - HEADS, shape)
    return np.log(rate / (1 - rate))[..., None]


DRAWS = draws_of(0)


def test_the_exact_evidence():
    runs = [
        bridge_sampling_of(log_density, draws_of(seed), num_observations=TOSSES, seed=seed)
        for seed in range(20)
    ]
    scores = np.array([(run.log_evidence - EXACT) / run.standard_error for run in runs])
    assert abs(scores.mean()) < 4 / np.sqrt(20) and np.abs(scores).max() < 4.5, scores


def test_the_result_is_an_evidence_like_others(tmp_path):
    found = bridge_sampling_of(log_density, DRAWS, num_observations=TOSSES, name="coin")
    assert repr(found).startswith("Evidence(coin: ") and found.num_observations == TOSSES
    assert found.posterior["unconstrained"].shape == (2000, 1)
    fair = {
        "log_evidence": TOSSES * np.log(0.5),
        "standard_error": 0.0,
        "num_observations": TOSSES,
        "seconds": 0.0,
    }
    assert ev.compare({"coin": found, "fair": fair}).log_bayes_factor_error[1] == found.standard_error
    found.save(tmp_path / "coin")
    kept = ev.load(tmp_path / "coin")
    assert kept.log_evidence == found.log_evidence and kept.method == repr(found.method)
    assert len(str(found.to_dict())) < 3000
    one_chain = bridge_sampling_of(log_density, DRAWS.reshape(-1, 1), num_observations=TOSSES)
    assert abs(one_chain.log_evidence - EXACT) < 5 * one_chain.standard_error


def test_lp_of_stan_may_lack_constants_but_nothing_else():
    lp = log_density(DRAWS.reshape(-1, 1)).reshape(4, 500)
    bridge_sampling_of(log_density, DRAWS, num_observations=TOSSES, lp=lp.astype(np.float32) - 12.5)
    without_jacobian = lp - np.log(expit(DRAWS)[..., 0]) - np.log1p(-expit(DRAWS)[..., 0])
    with pytest.raises(
        ev.ConfigurationError, match=r"lp must be log_density.*order of the parameters.*Jacobian"
    ):
        bridge_sampling_of(log_density, DRAWS, num_observations=TOSSES, lp=without_jacobian)
    with pytest.raises(
        ev.ConfigurationError, match=r"lp must be one number for each of the draws \(4, 500\); got"
    ):
        bridge_sampling_of(log_density, DRAWS, num_observations=TOSSES, lp=lp[:2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"draws": DRAWS[0, :, 0]},
            r"draws must be an array \(draws, parameters\) or .*got ndarray of shape \(500,\)",
        ),
        ({"draws": {"rate": DRAWS}}, r"draws must be an array .*got dict"),
        ({"draws": DRAWS * np.nan}, "draws must be finite; 2,000 values of 2,000 are not"),
        ({"draws": DRAWS[:, :5]}, "draws must give at least 10 draws in each chain"),
        ({"log_density": 3}, r"log_density must be a function .*got 3"),
        ({"log_density": lambda u: 0.0}, r"one number for each of 2000 positions; got shape \(\)"),
        ({"log_density": lambda u: np.full(len(u), -np.inf)}, "the density is zero at 2,000 of 2,000"),
        ({"num_observations": 0}, "num_observations must be an integer of at least 1; got 0"),
        ({"num_particles": 3}, "num_particles must be an integer of at least 100; got 3"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_arguments_name_themselves(changes, message):
    arguments = {"log_density": log_density, "draws": DRAWS, "num_observations": TOSSES, **changes}
    with pytest.raises(ev.ConfigurationError, match=message):
        bridge_sampling_of(**arguments)


def test_functions_that_fail_or_are_undefined():
    with pytest.raises(ev.ModelError, match="log_density failed with KeyError"):
        bridge_sampling_of(lambda u: {}["x"], DRAWS, num_observations=TOSSES)
    with pytest.raises(ev.EstimationError, match=r"log_density is NaN or \+inf at 2,000 of 2,000"):
        bridge_sampling_of(lambda u: np.full(len(u), np.nan), DRAWS, num_observations=TOSSES)


def test_draws_of_another_density_are_contradicted():
    other = draws_of(0) - 0.7
    with pytest.warns(ev.DiagnosticWarning, match=r"draws may be of another posterior"):
        found = bridge_sampling_of(log_density, other, num_observations=TOSSES)
    assert "draws contradicted" in found.signs
