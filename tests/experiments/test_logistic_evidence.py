"""The evidence of a logistic regression against sums over a grid."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from experiments.logistic_evidence import MODEL, ExactEvidence, log_joint, longest_safe_step

pytestmark = pytest.mark.experiments

GENERATOR = np.random.default_rng(0)
FEATURES = GENERATOR.standard_normal((40, 2))
LABELS = (GENERATOR.random(40) < 1 / (1 + np.exp(-FEATURES @ [2.0, 0.5]))).astype(int)


def log_densities(weights, theta):
    """log p_θ(w, y), written out."""
    probability = 1 / (1 + np.exp(-weights @ FEATURES.T))
    log_likelihood = np.log(np.where(LABELS == 1, probability, 1 - probability)).sum(-1)
    return log_likelihood - np.sum((weights - theta) ** 2, -1) / 10 - np.log(2 * np.pi * 5)


def grid_evidence(theta, spacing=0.05):
    line = np.arange(-3, 7, spacing)
    grid = np.stack(np.meshgrid(line, line), -1)
    return logsumexp(log_densities(grid, theta)) + 2 * np.log(spacing)


def test_evidence_and_maximiser_are_those_of_a_sum_over_a_grid():
    exact = ExactEvidence(FEATURES, LABELS, 20_000, seed=0)
    for theta in (-1.0, 0.0, 2.0):
        error = np.exp(exact.log_weights(theta)).std() / np.exp(exact.log_evidence(theta)) / np.sqrt(20_000)
        assert exact.log_evidence(theta) == pytest.approx(grid_evidence(theta), abs=4 * error)
    shifts = np.array([-0.3, 0.0, 0.3])  # log Z is a parabola near its maximum
    square, slope, _ = np.polyfit(shifts, [grid_evidence(exact.theta + shift) for shift in shifts], 2)
    maximiser = exact.theta - 0.5 * slope / square
    assert 0 < exact.standard_error < 0.03
    assert exact.theta == pytest.approx(maximiser, abs=4 * exact.standard_error + 0.005)


def test_draws_stand_for_the_posterior():
    exact = ExactEvidence(FEATURES, LABELS, 20_000, seed=1)
    line = np.arange(-3, 7, 0.05)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    density = log_densities(grid, 1.0)
    mean = np.exp(density - logsumexp(density)) @ grid
    np.testing.assert_allclose(exact.shares(1.0) @ exact.draws, mean, atol=0.05)
    shares = np.exp(log_densities(grid, exact.theta) - logsumexp(log_densities(grid, exact.theta)))
    slopes = (grid - exact.theta).sum(axis=1) / 5
    assert exact.slope_variance == pytest.approx(shares @ slopes**2 - (shares @ slopes) ** 2, rel=0.1)


def test_the_latent_model_has_the_same_density():
    data = jnp.asarray(FEATURES, jnp.float32), jnp.asarray(2 * LABELS - 1, jnp.float32)
    weights = np.array([0.7, -0.4])
    assert float(log_joint(0.3, jnp.asarray(weights), data)) == pytest.approx(
        log_densities(weights, 0.3), rel=1e-5
    )
    assert MODEL.log_joint is log_joint


def test_no_curvature_exceeds_that_of_the_longest_safe_step():
    curvature = FEATURES.T @ FEATURES / 4 + np.eye(2) / 5
    assert longest_safe_step(FEATURES) == pytest.approx(0.99 / np.linalg.norm(curvature, 2))
