"""The breast cancer experiment in small: choice of steps, runs against exact values, verdicts."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from evidentia.latent.problem import Problem
from experiments import breast_cancer as experiment
from experiments.breast_cancer_runs import (
    METHODS,
    W2,
    Labelled,
    Plan,
    Study,
    from_the_prior,
    log_predictive,
    path_of_theta,
    repeat,
)
from experiments.breast_cancer_tuning import best_before_stopping, cross_validate, grid, lppd_paths
from experiments.logistic_evidence import MODEL, ExactEvidence

pytestmark = pytest.mark.experiments

EXACT = {"theta": 0.9, "standard_error": 0.001, "log_evidence": -60.0, "log_evidence_standard_error": 0.004}
EXACT |= {"w2_mean": 0.2, "w2_sd": 0.8, "w2_density": [0.1, 0.4, 0.1]}
EXACT |= {"distance_of_draws": {"50": 0.1, "10": 0.2}}
DISTANCES = {("PGD", 10): [0.4, 0.41, 0.39], ("SOUL", 10): [0.8, 0.81, 0.79]}


def cell(method, count, **changed):
    found = {"method": method, "num_particles": count, "step_size": 1e-3, "theta_step": 0.1}
    found |= {"num_steps": 300, "steps": [1, 300], "theta_at_milestone": [0.8] * 3}
    found |= {"theta": {key: [0.1, 0.9] for key in ("mean", "lowest", "highest")}}
    found |= {"theta_last": [0.88, 0.91, 0.9], "theta_averaged": [0.9, 0.905, 0.895]}
    found |= {"steps_to_maximiser": [100, 120, 110], "w2_mean": [0.15, 0.21, 0.24]}
    found |= {"w2_sd": [0.8] * 3, "w2_densities": [[0.1, 0.3, 0.1]] * 3, "test_lppd": [-0.05] * 3}
    found |= {"w2_distance": DISTANCES.get((method, count), [0.1, 0.11, 0.09]), "test_error": [0.02] * 3}
    return found | {"log_evidence_error": None} | changed


@pytest.fixture
def record():
    cells = [cell(method, count) for count in (50, 10) for method in METHODS]
    for one in cells[::3]:
        small = [[0.01, -0.01], [-0.02, 0.02], [0.0, -0.005]]
        one |= {"log_evidence_error": [[500.0, 510.0]] * 3, "fewest_effective": [1.0, 1.1, 1.2]}
        one |= {
            way: cell("JALA-EM", 50, log_evidence_error=small) for way in ("from_posterior", "on_given_path")
        }
    w2 = [-1.0, 0.0, 1.0]
    return {"w2": w2, "unit_step": 1e-3, "exact": EXACT, "distance_of_long_chain": 0.03, "cells": cells}


def rows_of(count):
    generator = np.random.default_rng(0)
    features = generator.standard_normal((count, 2))
    return Labelled(
        features, (generator.random(count) < 1 / (1 + np.exp(-features @ [1.5, 0.5]))).astype(int)
    )


@pytest.fixture(scope="module")
def study():
    rows = rows_of(60)
    return Study(rows, rows, ExactEvidence(*rows, 5000, seed=0), Plan(num_runs=4, tuning_steps=20), seed=0)


def test_a_prediction_is_the_unweighted_mean_over_particles():
    particles = np.array([[1.0, 0.0], [0.0, -2.0]], np.float32)
    rows = Labelled(np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]]), np.array([1, 0, 0]))
    positive = np.mean(1 / (1 + np.exp(-particles @ rows.features.T)), axis=0)
    expected = np.log([positive[0], 1 - positive[1], 1 - positive[2]])
    np.testing.assert_allclose(log_predictive(particles, *rows.data), expected, rtol=1e-5)


def test_the_grid_has_all_pairs_of_steps():
    pairs = grid("JALA-EM", 0.01)
    assert len(pairs) == 30 and set(pairs[:, 1]) == {0.05, 0.1, 0.15}
    assert pairs[:, 0].min() == pytest.approx(0.002) and pairs[:, 0].max() == pytest.approx(0.02)
    assert np.all(grid("PGD", 0.01)[:, 0] == grid("PGD", 0.01)[:, 1])


@pytest.mark.parametrize("name", METHODS)
def test_steps_as_data_are_steps_of_the_method(name):
    rows, start, key = rows_of(60), from_the_prior(20, 2, seed=1), jax.random.key(3)
    is_held_out, (size, theta_step) = np.arange(60) % 3 == 0, (0.02, 0.1)
    pairs = np.array([[size, theta_step]], np.float32)
    found = lppd_paths(name, key, start, pairs, rows.data, is_held_out[None], num_steps=10)
    method = METHODS[name](num_particles=20, step_size=size, optimizer=optax.sgd(theta_step))
    problem = Problem(MODEL, start[0], rows.part(~is_held_out).data)
    update = jax.jit(partial(method.update, problem))
    state = method.init(problem, key, jnp.zeros(()), jnp.asarray(start))
    for index in range(10):
        state, _ = update(jax.random.fold_in(key, index), state)
    expected = log_predictive(method.particles(state)[0], *rows.part(is_held_out).data).mean()
    assert found.shape == (1, 1, 1)
    assert float(found[0, 0, 0]) == pytest.approx(float(expected), rel=1e-3)


def test_tuning_stops_after_ten_evaluations_without_gain():
    rising = np.linspace(-1, -0.5, 20)
    assert best_before_stopping(rising) == (-0.5, 20)
    late = np.concatenate([[-0.5], np.full(10, -0.5 + 0.9e-5), [-0.1]])
    assert best_before_stopping(late) == (-0.5, 11)


def test_cross_validation_has_a_score_for_each_pair_and_fold(study):
    found = cross_validate(study, "PGD", 10)
    assert np.shape(found["lppd"]) == (10, 3) and np.all(np.array(found["lppd"]) < 0)
    assert np.all(np.array(found["iterations"]) == 20)


@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")  # of the start from the prior
def test_runs_end_at_the_maximiser_and_know_the_evidence_there(study):
    steps = 0.2 * study.unit_step, 0.05
    runs = partial(repeat, study, "JALA-EM", 50, 600, steps)
    from_prior, found = runs(), runs("posterior")
    path = path_of_theta(study, "JALA-EM", 50, 600, steps)
    on_path = runs("posterior", path)
    assert np.abs(np.array(found["theta_averaged"]) - study.exact.theta).max() < 0.1
    assert np.all(np.array(from_prior["steps_to_maximiser"]) > 0)
    for each in (found, on_path):
        errors = np.array(each["log_evidence_error"])
        assert errors.shape == (4, 2)
        assert np.all(np.abs(errors.mean(axis=0)) < 0.1 + 4 * errors.std(axis=0, ddof=1) / 2)  # of 4 runs
    assert np.abs(np.mean(from_prior["log_evidence_error"])) > 1  # a start that the weights do not expect
    np.testing.assert_allclose(on_path["theta_last"], path[-1], rtol=1e-3)
    assert found["theta_last"][0] == pytest.approx(path[-1], rel=1e-6)
    assert found["steps"][-1] == 600 and len(found["theta"]["mean"]) == len(found["steps"])
    width = W2[1] - W2[0]
    np.testing.assert_allclose(np.sum(found["w2_densities"], axis=1) * width, 1, atol=0.02)
    assert max(found["w2_distance"]) < 0.3


def test_the_verdict_agrees_with_runs_that_are_as_claimed(record):
    verdict = experiment.judge(record)
    assert verdict.agrees
    assert "0.900 ± 0.001" in verdict.measured and "PGD 0.40" in verdict.measured
    assert "with 50 particles +510, from the posterior 0.00 ± 0.02" in verdict.measured


@pytest.mark.parametrize(
    "index, field, value, named",
    [
        (0, "theta_averaged", [0.9, 0.96, 0.9], "θ of JALA-EM with 50"),
        (2, "w2_distance", [0.5, 0.5, 0.51], "w₂ of SOUL with 50 is too far from the exact posterior"),
        (3, "w2_distance", [0.35, 0.35, 0.35], "w₂ of JALA-EM degrades more than that of independent draws"),
        (4, "w2_distance", [0.1, 0.1, 0.12], "w₂ of PGD with 10 is no worse than that of JALA-EM"),
    ],
)
def test_the_verdict_differs_and_says_where(record, index, field, value, named):
    record["cells"][index][field] = value
    if index == 3:
        record["cells"][0][field] = [0.1, 0.1, 0.1]
    verdict = experiment.judge(record)
    assert not verdict.agrees and named in verdict.measured.split("Not as claimed: ")[1]


def test_a_wrong_log_evidence_on_a_given_path_is_a_fault(record):
    record["cells"][0]["on_given_path"]["log_evidence_error"] = [[0, 1.0], [0, 1.02], [0, 1.05]]
    assert experiment.faults(record) == ["log evidence of JALA-EM with 50 on a given path"]


def test_picture_and_table_have_all_cells(record):
    figure = experiment.draw(record)
    assert len(figure.axes) == 8 and figure.axes[4].get_ylabel() == "10 particles\nθ"
    rows = experiment.table(record)
    assert [row["method, particles"] for row in rows[:2]] == ["JALA-EM with 50", "PGD with 50"]
    assert rows[0]["start from posterior"] == "0.00 ± 0.02" and rows[1]["start from posterior"] is None
    assert rows[0]["steps until θ is near"] == 110
