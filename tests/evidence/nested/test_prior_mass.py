"""The sum over shrinking prior mass: exact for known masses, with widths that sum to one."""

import numpy as np
import pytest

from evidentia.evidence.nested.prior_mass import (
    Integral,
    WeightedPoints,
    log_shrinkages,
    log_widths,
    variance_of_log_mass,
)


def integrate(log_likelihood, quadrature, count=200, num_rows=40, rows_of=50):
    """The sum over points placed exactly at the masses that the quadrature assumes."""
    found, log_mass, total_width = Integral(), 0.0, 0.0
    steps = np.tile(log_shrinkages(count, 1, "geometric"), rows_of)
    for _ in range(num_rows):
        widths, log_rest = log_widths(log_mass, np.r_[steps, steps[0]], quadrature)
        masses = log_mass + np.cumsum(steps)
        found = found.add(WeightedPoints(np.zeros((rows_of, 1)), log_likelihood(masses), widths))
        log_mass, total_width = masses[-1], total_width + np.exp(widths).sum()
    return found, total_width + np.exp(log_rest)


# L(X) = X^-1/2: Z = ∫ L dX = 2, and H = E[-½ log X] - log 2 under the density ½ X^-1/2, whose mean
# of log X is -2.
@pytest.mark.parametrize(("quadrature", "error"), [("rectangle", 0.003), ("trapezoid", 1e-4)])
def test_the_integral_and_information_of_a_known_curve(quadrature, error):
    found, total_width = integrate(lambda log_mass: -0.5 * log_mass, quadrature)
    tail = 2 * np.exp(-0.5 * 40 * 50 / 200)  # of the integral, not visited
    assert total_width == pytest.approx(1.0, abs=1e-12)
    # A rectangle is off by L(X) t^½ relative to the mean: 1/4M relative, 1.25e-3.
    assert np.exp(found.log_evidence) + tail == pytest.approx(2.0, rel=error)
    assert found.information == pytest.approx(1 - np.log(2), abs=0.05)


def test_the_lower_sum_is_that_of_likelihood_increments_times_masses():
    """By parts: Σ (L_i - L_{i-1}) X_i, Eq. 3.22, less the last L times what is left."""
    steps = np.tile(log_shrinkages(20, 1, "geometric"), 100)
    widths, log_rest = log_widths(0.0, np.r_[steps, steps[0]], "lower")
    masses = np.exp(np.cumsum(steps))
    likelihoods = masses**-0.5
    increments = np.diff(likelihoods, prepend=0.0) @ masses
    assert np.exp(widths) @ likelihoods == pytest.approx(increments - likelihoods[-1] * np.exp(log_rest))
    upper, _ = log_widths(0.0, np.r_[steps, steps[0]], "rectangle")
    assert np.exp(widths) @ likelihoods < np.exp(upper) @ likelihoods


def test_geometric_shrinkage_is_the_mean_of_the_logarithm_and_arithmetic_the_mean():
    lowest = np.random.default_rng(0).beta(5, 1, size=100_000)  # the largest of five uniform masses
    geometric, arithmetic = (log_shrinkages(5, 1, kind)[0] for kind in ("geometric", "arithmetic"))
    assert np.mean(np.log(lowest)) == pytest.approx(geometric, abs=4 * 0.2 / np.sqrt(100_000))
    assert np.mean(lowest) == pytest.approx(np.exp(arithmetic), abs=4 * 0.141 / np.sqrt(100_000))


def test_several_points_removed_at_once_shrink_as_their_counts_say():
    np.testing.assert_allclose(log_shrinkages(32, 2, "geometric"), [-1 / 32, -1 / 31])
    assert variance_of_log_mass(32, 1) == pytest.approx(1 / 32)
    assert 1 / 32 < variance_of_log_mass(32, 2) < 1 / 31


def test_points_of_likelihood_zero_add_nothing():
    points = WeightedPoints(np.zeros((2, 1)), np.array([-np.inf, -3.0]), np.log([0.5, 0.25]))
    nothing = WeightedPoints(np.zeros((1, 1)), np.array([-np.inf]), np.array([0.0]))
    assert Integral().add(nothing) == Integral()
    found = Integral().add(nothing).add(points)
    assert found.log_evidence == pytest.approx(-3 + np.log(0.25))
    assert found.mean_log_likelihood == pytest.approx(-3.0)
