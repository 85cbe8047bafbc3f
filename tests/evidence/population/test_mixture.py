"""Fits: they cover the particles, and leave out what has no spread or far too much."""

import numpy as np
import pytest

from evidentia.evidence.population.mixture import Mixture, fitted, improved, together, with_components
from evidentia.posterior.gaussian import LocalGaussian
from tests.evidence.population.rings import COUNT, around, even


def test_a_fit_covers_the_particles():
    proposal = fitted(even(around(COUNT)), np.random.default_rng(0))
    assert proposal is not None and proposal.is_learnt and len(proposal.components) == 8
    assert proposal.shares.sum() == pytest.approx(1.0)
    centres = np.array([mode.centre for mode in proposal.components])
    np.testing.assert_allclose(np.hypot(*centres.T), 2.0, atol=0.2)


def test_few_particles_have_few_components():
    generator = np.random.default_rng(0)
    particles = even(generator.standard_normal((40, 3)))
    proposal = fitted(particles, generator)
    assert proposal is not None and len(proposal.components) == 3  # four particles for each parameter
    assert fitted(even(np.zeros((40, 3))), generator) is None


def test_a_step_raises_the_likelihood_of_the_particles():
    particles = even(around(COUNT))
    start = Mixture(tuple(LocalGaussian(np.array(c), np.eye(2), 0.0) for c in ([1.0, 0.0], [-1.0, 0.0])))
    heights = [start.log_density(particles.positions).mean()]
    for _ in range(5):
        start = improved(start, particles)
        heights.append(start.log_density(particles.positions).mean())
    assert np.all(np.diff(heights) > 0)


def test_a_component_whose_draws_are_on_a_line_is_left_out():
    # The covariance is [[1, 1], [1, 1]] to the last digit, which has no inverse.
    on_line = even(np.array([[1.0, 1.0], [-1.0, -1.0]] * 50))
    start = Mixture((LocalGaussian(np.zeros(2), 1e30 * np.eye(2), 0.0),), np.zeros(1))
    assert improved(start, on_line) is start


def test_a_component_too_small_for_draws_in_float32_is_left_out():
    # Beside 2.0, numbers of float32 are 2.4e-7 apart. Half of the draws are twenty of these apart,
    # half are one apart: beside 0.0 both could be drawn.
    generator = np.random.default_rng(0)
    spacing = np.spacing(np.float32(2.0))
    wide, narrow = (width * spacing * generator.standard_normal((100, 2)) for width in (20.0, 1.0))
    apart = np.array([1000 * spacing, 0.0])
    for shift, expected in ((2.0, 1), (0.0, 2)):
        centres = (np.full(2, shift), shift + apart)
        start = Mixture(
            tuple(LocalGaussian(c, np.eye(2) / (9 * spacing**2), 0.0) for c in centres), np.log([0.5, 0.5])
        )
        found = improved(start, even(np.concatenate([centres[0] + wide, centres[1] + narrow])))
        assert len(found.components) == expected
    assert fitted(even(2.0 + narrow), generator) is None and fitted(even(narrow), generator) is not None


def test_the_shares_of_a_mixture_of_proposals_add_up():
    one, two = (fitted(even(around(COUNT, arc=arc)), np.random.default_rng(0)) for arc in (3.0, 6.0))
    assert one is not None and two is not None
    both = together([one, two], [0.9, 0.1])
    positions = around(20)
    expected = 0.9 * np.exp(one.log_density(positions)) + 0.1 * np.exp(two.log_density(positions))
    np.testing.assert_allclose(np.exp(both.log_density(positions)), expected)


def test_a_mode_wider_than_the_particles_is_left_out():
    particles = even(around(COUNT))
    fit = fitted(particles, np.random.default_rng(0))
    assert fit is not None
    narrow, flat = (LocalGaussian(np.array([2.0, 0.0]), np.diag([400.0, p]), 0.0) for p in (9.0, 1e-6))
    found = with_components(fit, Mixture((narrow, flat)), particles)
    assert len(found.components) == len(fit.components) + 1 and found.shares[-1] == pytest.approx(0.5)
    assert (
        with_components(fit, Mixture((flat,)), particles) is fit
        and with_components(fit, None, particles) is fit
    )
