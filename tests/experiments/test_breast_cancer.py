"""The breast cancer experiment in small: predictions, runs against exact values, verdicts."""

from types import SimpleNamespace

import numpy as np
import pytest

from experiments import breast_cancer as experiment
from experiments.breast_cancer_runs import Labelled, Plan, Study, predict, repeat
from experiments.logistic_evidence import ExactEvidence

pytestmark = pytest.mark.experiments

EXACT = {"theta": 0.9, "standard_error": 0.001, "log_evidence": -60.0, "log_evidence_standard_error": 0.004}
EXACT |= {"w2_mean": 0.2, "w2_sd": 0.8, "w2_density": [0.1, 0.4, 0.1]}


def cell(method, count):
    errors = [[0.01, -0.1], [-0.02, 0.2], [0.0, -0.05]] if method == "JALA-EM" else None
    found = {"method": method, "num_particles": count, "multiple": 8, "num_steps": 300, "steps": [1, 300]}
    found |= {"theta": {key: [0.1, 0.9] for key in ("mean", "lowest", "highest")}}
    found |= {"theta_at_milestone": [0.8] * 3, "theta_last": [0.88, 0.91, 0.9]}
    found |= {"theta_averaged": [0.9, 0.905, 0.895], "w2_mean": [0.15, 0.21, 0.24], "w2_sd": [0.8] * 3}
    found |= {
        "w2_density": [0.1, 0.3, 0.1],
        "test_lppd": [-0.05] * 3,
        "test_error": [0.02] * 3,
        "seconds": 1.0,
    }
    found |= {"log_evidence_error": errors, "lppd_of_folds": [[-0.1] * 3]}
    shortest = {"log_evidence_error_of_shortest": errors, "expected_error_of_shortest": 0.02}
    return found | (shortest if errors else {})


@pytest.fixture
def record():
    cells = [cell(method, count) for count in (50, 10) for method in experiment.METHODS]
    return {"w2": [-1.0, 0.0, 1.0], "multiples": [8], "unit_step": 1e-3, "exact": EXACT, "cells": cells}


def test_a_prediction_is_the_weighted_mean_over_particles():
    particles, shares = np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([0.75, 0.25])
    fit = SimpleNamespace(particles=particles, log_weights=np.log(shares))
    rows = Labelled(np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]]), np.array([1, 0, 0]))
    positive = shares @ (1 / (1 + np.exp(-particles @ rows.features.T)))
    expected = np.log([positive[0], 1 - positive[1], 1 - positive[2]])
    lppd, error = predict(fit, rows)
    assert lppd == pytest.approx(expected.mean())
    assert error == pytest.approx(1 / 3)  # the second row


def test_runs_end_at_the_maximiser_and_know_the_evidence_there():
    generator = np.random.default_rng(0)
    features = generator.standard_normal((60, 2))
    labels = (generator.random(60) < 1 / (1 + np.exp(-features @ [1.5, 0.5]))).astype(int)
    rows = Labelled(features, labels)
    study = Study(rows, rows, ExactEvidence(features, labels, 5000, seed=0), Plan(num_runs=4), seed=0)
    found = repeat(study, "JALA-EM", 50, 600, multiple=1)
    assert np.abs(np.array(found["theta_averaged"]) - study.exact.theta).max() < 0.1
    errors = np.array(found["log_evidence_error"])
    assert errors.shape == (4, 2) and np.abs(errors.mean(axis=0)).max() < 0.2
    assert found["steps"][-1] == 600 and len(found["theta"]["mean"]) == len(found["steps"])
    assert np.sum(found["w2_density"]) * 0.1 == pytest.approx(1, abs=0.02)


def test_the_verdict_agrees_with_runs_that_are_right(record):
    verdict = experiment.judge(record)
    assert verdict.agrees
    assert "0.900 ± 0.001" in verdict.measured and "100% of 18 runs" in verdict.measured


@pytest.mark.parametrize(
    "field, value, named",
    [
        ("theta_averaged", [0.9, 0.96, 0.9], "θ of JALA-EM with 50"),
        ("w2_mean", [0.79, 0.8, 0.81], "w₂ of JALA-EM with 50"),
        (
            "log_evidence_error_of_shortest",
            [[0, 1.0], [0, 1.02], [0, 1.05]],
            "log evidence of JALA-EM with 50",
        ),
    ],
)
def test_the_verdict_differs_and_says_where(record, field, value, named):
    record["cells"][0][field] = value
    verdict = experiment.judge(record)
    assert not verdict.agrees and named in verdict.measured.split("outside the tolerance: ")[1]


def test_picture_and_table_have_all_cells(record):
    figure = experiment.draw(record)
    assert len(figure.axes) == 4 and figure.axes[2].get_ylabel() == "10 particles\nθ"
    rows = experiment.table(record)
    assert [row["method, particles"] for row in rows[:2]] == ["JALA-EM, 50", "PGD, 50"]
    assert rows[0]["log Z − exact (nats)"] == "0.02 ± 0.16" and rows[1]["log Z − exact (nats)"] is None
