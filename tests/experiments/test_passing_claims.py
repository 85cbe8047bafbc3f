"""Claims in passing: shares in poor modes, powers of N, and the verdict."""

import copy

import jax
import numpy as np
import pytest

from experiments import passing_claims as experiment

pytestmark = pytest.mark.experiments


def test_a_particle_far_below_the_truth_is_in_a_poor_mode():
    data, params = experiment.MIXTURE.simulate(500, 0)
    one = {name: np.stack([value] * 3) for name, value in params.items()}
    assert experiment.share_in_poor_modes(one, params, data["y"]) == 0
    away = jax.tree.map(np.array, one)
    away["means"][0] += 3.0
    assert experiment.share_in_poor_modes(away, params, data["y"]) == pytest.approx(1 / 3)


def as_claimed():
    errors = {"mean": 0.0, "scatter": 0.1, "root_mean_square": 0.1, "repeats": 20, "seconds": 1.0}
    errors |= {"log_mean_ratio": 0.01, "relative_error": 0.05}
    return {
        "schedules": {
            "linear": errors | {"root_mean_square": 5.0},
            "sigmoid": dict(errors),
            "adaptive": dict(errors),
        },
        "num_adaptive_temperatures": 24,
        "live_points": {"2": dict(errors), "8": errors | {"seconds": 4.0}},
        "local_modes": {"sizes": [500, 1000], "SGAIS": [[0.5, 0.2], [0.3, 0.0]], "AIS": [0.5, 0.3]},
        "reverse_smc": {"forward": [-0.1, 0.02], "reverse": [0.1, 0.02]},
        "algorithm_6": dict(errors),
        "algorithm_7": dict(errors),
        "growth": {"sizes": [1, 2], "Metropolis–Hastings": [1.0, 3.8], "SGAIS": [1.0, 2.1]},
    }


def test_the_verdict_agrees_and_names_what_differs(tmp_path):
    record = as_claimed()
    verdict = experiment.judge(record)
    assert verdict.agrees and "to the power 1.93, that of SGAIS 1.07" in verdict.measured
    for path, value in (
        (("schedules", "linear", "root_mean_square"), 0.05),
        (("live_points", "8", "mean"), 1.0),
        (("live_points", "8", "seconds"), 0.5),
        (("local_modes", "SGAIS"), [[0.1, 0.6]]),
        (("reverse_smc", "reverse"), [-0.1, 0.02]),
        (("algorithm_6", "log_mean_ratio"), -0.5),
        (("growth", "Metropolis–Hastings"), [1.0, 2.0]),
    ):
        wrong = copy.deepcopy(record)
        inner = wrong
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        assert experiment.judge(wrong).measured.count("which differs") == 1, path
    assert len(experiment.table(record)) == 7
    experiment.draw(record).savefig(tmp_path / "figure.png")
