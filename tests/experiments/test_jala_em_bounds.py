"""The bounds of JALA-EM's theory in small: settings, constants, verdict."""

import numpy as np
import pytest

from experiments import jala_em_bounds as experiment

pytestmark = pytest.mark.experiments


def test_the_bound_begins_at_the_start_and_ends_at_its_floor():
    limit = experiment.bound(experiment.GAMMAS[0], constants=0.0)
    first = (experiment.THETA0 - experiment.BEST) ** 2
    assert limit[0] == pytest.approx(first * (1 - experiment.GAMMAS[0] * 1.5)) and limit[-1] < 1e-9
    floor = experiment.bound(experiment.GAMMAS[0], constants=1.0)[-1]
    assert floor == pytest.approx(2 / 3 * (8 * 3 / 12 + 4) / 3)


def test_a_setting_keeps_its_bounds_and_settles_near_the_maximiser():
    found = experiment.measure(experiment.GAMMAS[0], 0.2, 30, runs=10, seed=0)
    assert found["gradient_error_over_bound"] < 1 and found["distance_over_bound"] < 1
    assert 1 <= found["excess"] <= 2.5  # particles are resampled below half of their number
    assert found["settled"][0] < 0.05 and found["distance"][0] > 0.5 * experiment.BEST**2


def record(power=-1.0, over=0.1):
    rows = [
        {
            "gamma": gamma,
            "step_size": step_size,
            "particles": count,
            "gradient_error_over_bound": 0.1,
            "distance_over_bound": over,
            "settled": [count**power, 0.01 * count**power],
            "settled_bound": 100.0 / count,
        }
        for gamma in experiment.GAMMAS
        for step_size in experiment.STEP_SIZES
        for count in experiment.COUNTS
    ]
    return {"settings": rows}


def test_the_verdict_follows_the_numbers():
    assert experiment.judge(record()).agrees
    assert not experiment.judge(record(power=-0.5)).agrees
    assert not experiment.judge(record(over=1.2)).agrees
    slopes = experiment.slopes(record(power=-0.8))
    np.testing.assert_allclose([slope for slope, _ in slopes.values()], -0.8, atol=1e-9)
