"""Known densities and autocorrelated draws of them: the error, the warp, and poor draws."""

import numpy as np
import pytest
from scipy import stats

import evidentia as ev
from evidentia.errors import EstimationError
from evidentia.evidence.bridge.halves import bridge_halves, check_enough, combined, importance_sampling
from evidentia.evidence.bridge.iteration import bridge
from evidentia.evidence.bridge.warp import Target, fit

SKEW = 0.8


def chains(rng, num_draws, size, correlation):
    """Stationary autoregressions, whose every draw is N(0, I)."""
    found = np.empty((4, num_draws, size))
    found[:, 0] = rng.normal(size=(4, size))
    for step in range(1, num_draws):
        noise = rng.normal(size=(4, size)) * np.sqrt(1 - correlation**2)
        found[:, step] = correlation * found[:, step - 1] + noise
    return found


def log_normal(positions):
    return stats.norm.logpdf(positions).sum(axis=-1)


def skewed(normals):
    return np.sinh(np.arcsinh(normals) + SKEW)


def log_skewed(positions):
    normals = np.sinh(np.arcsinh(positions) - SKEW)
    return log_normal(normals) + 0.5 * (np.log1p(normals**2) - np.log1p(positions**2)).sum(axis=-1)


def run(log_density, draws, seed, count=2000):
    return list(bridge_halves(Target(log_density), draws, np.random.default_rng([seed, 1]), count))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log_density", "change", "size", "correlation"),
    [
        (log_normal, lambda normals: normals, 1, 0.0),
        (log_normal, lambda normals: normals, 5, 0.8),
        (log_skewed, skewed, 2, 0.0),
        (log_skewed, skewed, 2, 0.8),
    ],
)
def test_the_standard_error_covers_autocorrelated_draws(log_density, change, size, correlation):
    scores = []
    for seed in range(60):
        draws = change(chains(np.random.default_rng(seed), 500, size, correlation))
        log_evidence, variance = combined(run(log_density, draws, seed))
        scores.append(log_evidence / np.sqrt(variance))  # the evidence is one
    # 60 independent scores; where both halves fit alike, errors are up to 20% too small.
    assert abs(np.mean(scores)) < 4 / np.sqrt(60)
    assert abs(np.std(scores) - 1) < 4 / np.sqrt(120)


def test_the_warp_halves_the_error_of_a_skewed_density():
    """Against the same fit without the mirror image, on the same draws."""
    warped, plain = [], []
    for seed in range(20):
        draws = skewed(chains(np.random.default_rng(seed), 500, 2, 0.0))
        density = fit(draws[:, :250].reshape(-1, 2))
        others = density.draw(np.random.default_rng([seed, 1]), 1000)
        target, ess = Target(log_skewed), 1000.0
        for errors, log_ratios in ((warped, density.log_ratios), (plain, density._plain)):
            at_draws = log_ratios(target, draws[:, 250:].reshape(-1, 2)).reshape(4, -1)
            errors.append(bridge(at_draws, log_ratios(target, others), ess).log_evidence)
    assert np.std(warped) < 0.7 * np.std(plain), (np.std(warped), np.std(plain))


def test_halves_that_differ_are_part_of_the_error():
    halves = run(log_normal, chains(np.random.default_rng(0), 500, 1, 0.0), 0)
    reported = sum(half.bridged.variance for half in halves)

    def with_estimates(*values):
        pairs = zip(halves, values, strict=True)
        return [half._replace(bridged=half.bridged._replace(log_evidence=value)) for half, value in pairs]

    agreed = 1.9 * np.sqrt(reported)
    assert combined(with_estimates(0.0, agreed)) == pytest.approx((agreed / 2, reported / 4))
    mean, variance = combined(with_estimates(0.0, 1.0))
    assert mean == 0.5 and np.sqrt(variance) == pytest.approx(0.5 - np.sqrt(reported), rel=0.01)


def test_importance_sampling_from_the_fit_is_a_second_opinion():
    log_evidence, variance, shape = importance_sampling(
        run(log_normal, chains(np.random.default_rng(0), 500, 3, 0.5), 0)
    )
    assert abs(log_evidence) < 4 * np.sqrt(variance) and shape < 0.7


def test_chains_in_different_places_do_not_converge():
    far = chains(np.random.default_rng(0), 200, 2, 0.0)
    far[:, 100:] += 60.0
    with pytest.raises(ev.EstimationError, match="did not converge"):
        run(log_normal, far, 0)


def test_a_chain_that_stands_still_is_an_error():
    draws = chains(np.random.default_rng(0), 100, 2, 0.0)
    draws[..., 1] = 3.0
    with pytest.raises(
        ev.EstimationError, match="covariance of the posterior draws is singular.*trace plots"
    ):
        run(log_normal, draws, 0)


def test_too_few_draws_are_refused():
    with pytest.raises(ev.ConfigurationError, match="draws must give at least 10 draws.*got 4 of 9"):
        check_enough(np.zeros((4, 9, 1)), "draws")
    with pytest.raises(ev.ConfigurationError, match="84 in all for the 20 parameters.*got 4 of 20"):
        check_enough(np.zeros((4, 20, 20)), "draws")
    check_enough(np.zeros((1, 84, 20)), "draws")


def test_draws_whose_covariance_rounds_to_a_singular_one_are_an_error():
    # The covariance has a Cholesky factor, and its inverse in float64 has none.
    first, second, third = np.random.default_rng(0).standard_normal((3, 200))
    positions = np.stack([first, first + 1e-5 * second, first + 1e-5 * third], axis=1)
    with pytest.raises(EstimationError, match="covariance of the posterior draws is singular"):
        fit(positions)
