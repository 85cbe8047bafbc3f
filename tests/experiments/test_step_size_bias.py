"""The bias that a step size leaves in θ: its formula, and the verdict."""

import numpy as np
import pytest

from experiments import step_size_bias as experiment

pytestmark = pytest.mark.experiments


def test_without_a_step_size_the_fixed_point_is_the_maximiser():
    assert experiment.expected(1e-9) == pytest.approx(experiment.BEST, abs=1e-6)
    small, large = (experiment.expected(gamma) - experiment.BEST for gamma in (0.05, 0.1))
    assert 0 < small < large < 2.2 * small


def test_pgd_settles_where_the_formula_says():
    found = experiment.measure("PGD", 0.2, 30, seed=0)
    bias, error = found["bias"]
    # Of order 1/N beside it, for N = 30 particles.
    assert abs(bias - (experiment.expected(0.2) - experiment.BEST)) < 4 * error + 1 / 30
    assert found["distance"][0] >= abs(bias)


def record(jala_em=0.0, pgd=(0.11, 0.06, 0.03)):
    def bias(name, index):
        return jala_em if name == "JALA-EM" else pgd[index]

    rows = [
        {
            "method": name,
            "gamma": gamma,
            "particles": count,
            "bias": [bias(name, index), 0.002],
            "distance": [0.1, 0.01],
        }
        for name in experiment.METHODS
        for index, gamma in enumerate(experiment.GAMMAS)
        for count in experiment.COUNTS
    ]
    return {"settings": rows, "expected": [0.11, 0.06, 0.03]}


def test_the_verdict_follows_the_biases(tmp_path):
    assert experiment.judge(record()).agrees
    assert not experiment.judge(record(jala_em=0.05)).agrees
    assert not experiment.judge(record(pgd=(0.03, 0.06, 0.03))).agrees
    assert not experiment.judge(record(pgd=(0.002, 0.001, 0.0))).agrees
    assert len(experiment.table(record())) == 27
    experiment.draw(record()).savefig(tmp_path / "figure.png")
    assert np.isfinite(experiment.BEST)
