"""The studies of SGAIS's settings in small: settings, errors and verdicts."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.results.configurations import configuration
from experiments import sensitivity as experiment
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments

STUDIES = {study.name: study for study in experiment.STUDIES}


def leaves(value, path=""):
    """Fields of a nested configuration, by path."""
    if not isinstance(value, dict):
        return {path: value}
    return {name: leaf for key in value for name, leaf in leaves(value[key], f"{path}/{key}").items()}


TOGETHER = {"mini-batch": 2, "learning-rate-steps": 2}  # settings that change together


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_a_study_varies_one_setting_about_its_published_value(study):
    published = leaves(configuration(ev.SGAIS.published()))
    assert study.published in study.values
    for value in study.values:
        method = leaves(configuration(study.method(value)))
        changed = {name for name in published if method[name] != published[name]}
        assert len(changed) == (0 if value == study.published else TOGETHER.get(study.name, 1))


def test_rate_and_steps_have_a_constant_product():
    for value in experiment.RATES:
        kernel = STUDIES["learning-rate-steps"].method(value).kernel
        assert kernel.learning_rate * kernel.num_steps == pytest.approx(2.0, rel=0.06)


def test_a_tiny_study_measures_against_the_reference():
    study = STUDIES["target-ess"]  # its values share all compiled programs
    record = experiment.compare(study, [2, 5, 9], experiment.Plan(rows=600, seeds=3), Settings())
    steps = [np.mean(run["annealing_steps"]) for run in record["runs"]]
    assert steps[0] < steps[1] < steps[2]  # a higher target makes shorter steps
    assert all(len(run["seconds"]) == 2 and len(run["error"]) == 3 for run in record["runs"])
    for run in record["runs"]:
        np.testing.assert_allclose(np.add(run["error"], record["log_evidence"]), run["log_evidence"])
    rows = experiment.table(study, record)
    assert [row["target ESS"] for row in rows] == ["2", "5", "9", "ev.Laplace()"]
    labels = [axes.get_ylabel() for axes in experiment.draw(study, record).axes]
    assert labels == ["error (nats per row)", "processor time (seconds)", "annealing steps"]


def made_up(errors, seconds, steps):
    """A record of 500 rows with the given errors, times and annealing steps."""
    runs = [
        {
            "error": [error, -error],
            "seconds": [time],
            "annealing_steps": [count],
            "steps_per_chunk": [count / 2],
        }
        for error, time, count in zip(errors, seconds, steps, strict=True)
    ]
    return {"rows": 500, "log_evidence": -1000.0, "runs": runs, "reference": runs[0]}


UP, DOWN = [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "name, errors, seconds, steps, complaint",
    [
        ("particles", DOWN, UP, UP, None),
        ("particles", UP, UP, UP, "the error should fall"),
        ("particles", DOWN, DOWN, UP, "the time should grow"),
        ("target-ess", [400, 2, 2, 2, 2], UP, UP, None),  # with a target ESS of 1 any error will do
        ("target-ess", [2, 49, 49, 49, 50], UP, UP, "the error at 9 is 0.1 nats per row"),
        ("target-ess", DOWN, UP, DOWN, "the number of annealing steps should grow"),
        ("moves", DOWN, UP, DOWN, None),
        ("mini-batch", DOWN, UP, UP, None),
        ("mini-batch", DOWN, UP, DOWN, "the number of annealing steps per chunk should grow"),
        ("learning-rate", DOWN, DOWN, DOWN, None),
        ("learning-rate-steps", UP, DOWN, UP, None),
        ("learning-rate-steps", [1, 2, 3, 4, np.nan], DOWN, UP, "the error should grow"),
    ],
)
def test_the_verdict_follows_what_the_paper_says(name, errors, seconds, steps, complaint):
    study = STUDIES[name]
    record = made_up(errors, seconds, steps) | {"values": list(study.values)}
    verdict = experiment.judge(study, record)
    assert verdict.agrees == (complaint is None)
    assert complaint is None or complaint in verdict.measured


def test_experiments_have_names_of_their_own():
    names = [one.name for one in experiment.EXPERIMENTS]
    assert len(set(names)) == 6 and all(name.startswith("sensitivity-") for name in names)
