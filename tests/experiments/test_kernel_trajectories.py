"""Kernels on a correlated Gaussian: stationary laws, paths and verdict."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from evidentia.kernels import SGHMC, SGLD
from experiments import kernel_trajectories as experiment

pytestmark = pytest.mark.experiments


@pytest.fixture(scope="module")
def record():
    """A run with fewer draws; the paths are tested separately."""
    kernels = {
        name: experiment.measure(kernel, 300, 0) | {"places": [[0.0, 0.0], [1.0, 1.0]]}
        for name, kernel in experiment.KERNELS.items()
    }
    return {"kernels": kernels}


def test_without_noise_sgld_keeps_the_law_of_its_recursion():
    # Along an axis of variance s, θ ← (1 - η/2s) θ + N(0, η): its variance is s / (1 - η/4s).
    covariance = experiment.expected_covariance(SGLD(0.02), gradient_noise=0.0)
    found = experiment.AXES @ covariance @ experiment.AXES.T
    expected = experiment.VARIANCES / (1 - 0.02 / (4 * experiment.VARIANCES))
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-12)


def test_short_steps_and_long_moves_keep_the_target():
    for kernel in (SGLD(1e-5), SGHMC(1e-5, num_steps=100_000)):
        found = experiment.expected_covariance(kernel)
        np.testing.assert_allclose(found, experiment.COVARIANCE, rtol=1e-3)
    # Published moves of 20 steps do not: each starts with a velocity that is too small.
    found = experiment.expected_covariance(SGHMC(1e-5, num_steps=20))
    np.testing.assert_allclose(found, 0.962 * experiment.COVARIANCE, rtol=1e-3)


def test_noise_in_the_gradient_widens_the_law():
    # The noise of a step grows from 2αη to 2αη + η², and the covariance by the same factor, 1 + η
    # / 2α.
    kernel = SGHMC(0.01, 0.5, 10_000)
    noisy, exact = experiment.expected_covariance(kernel), experiment.expected_covariance(kernel, 0.0)
    np.testing.assert_allclose(noisy, 1.01 * exact, rtol=1e-3)


def test_a_path_leads_where_the_move_does():
    for name in ("HMC", "SGHMC"):
        kernel = experiment.KERNELS[name]
        places = experiment.trace(replace(kernel, num_steps=10), 0)
        # The start, and every second step of the accepted moves.
        assert places[0] == pytest.approx(experiment.START, abs=1e-4)
        assert 0.8 * experiment.NUM_SHOWN / 2 < len(places) <= experiment.NUM_SHOWN / 2 + 1
        # Four steps of at most 0.3, with velocities below three standard deviations: no jump to
        # another trajectory.
        assert np.max(np.linalg.norm(np.diff(places, axis=0), axis=1)) < 4 * 0.3 * 3


def test_the_kernels_with_velocities_need_fewer_evaluations(record):
    verdict = experiment.EXPERIMENT.judge(record)
    assert verdict.agrees, verdict.measured
    assert record["kernels"]["SGHMC"]["moments"][3] > 1.1 * experiment.VARIANCES[1]


def test_the_verdict_can_differ(record):
    for name, change in (
        ("HMC", {"moments": [0.0, 0.0, 1.95, 0.06, 0.0]}),
        ("SGLD", {"moments": [0.0, 0.0, 1.95, 0.05, 0.0]}),  # the target's, out of reach for SGLD
        ("random walk", {"evaluations_per_draw": 12.0}),
        ("SGHMC", {"evaluations_per_draw_error": 50.0}),
    ):
        wrong = copy.deepcopy(record)
        wrong["kernels"][name].update(change)
        assert not experiment.EXPERIMENT.judge(wrong).agrees, name


def test_picture_and_table(record, tmp_path):
    experiment.draw(record).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert [row["kernel"] for row in experiment.table(record)] == list(experiment.KERNELS)
