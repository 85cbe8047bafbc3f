"""The studies of SGAIS's settings in small: settings, errors and verdicts."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.result import configuration
from experiments import sensitivity as experiment
from experiments.experiment import Settings

pytestmark = pytest.mark.experiments

STUDIES = {study.name: study for study in experiment.STUDIES}


def leaves(value, path=""):
    """Fields of a nested configuration, by path."""
    if not isinstance(value, dict):
        return {path: value}
    return {name: leaf for key in value for name, leaf in leaves(value[key], f"{path}/{key}").items()}


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_a_study_varies_one_setting_about_its_published_value(study):
    published = leaves(configuration(ev.SGAIS.published()))
    assert study.published in study.values
    varied = set()
    for value in study.values:
        method = leaves(configuration(study.method(value)))
        varied |= (changed := {name for name in published if method[name] != published[name]})
        assert len(changed) == (value != study.published)
    assert len(varied) == 1


def test_a_tiny_study_measures_against_the_exact_evidence():
    study = STUDIES["target-ess"]  # its values share all compiled programs
    record = experiment.compare(study, [2, 5, 9], experiment.Plan(rows=600, seeds=3), Settings())
    data, _ = experiment.MODEL.simulate(600, 0)
    evidence = ev.estimate(experiment.MODEL, data, seed=2)
    exact = experiment.MODEL.exact_log_evidence(data)
    errors = record["default"]["error"]
    assert np.isclose(errors[2], evidence.log_evidence - exact, atol=1e-6)
    assert np.all(np.abs(errors) < 5 * evidence.standard_error)
    steps = [np.mean(run["annealing_steps"]) for run in record["runs"]]
    assert steps[0] < steps[1] < steps[2]  # a higher target makes shorter steps
    assert all(len(run["seconds"]) == 2 and len(run["error"]) == 3 for run in record["runs"])
    rows = experiment.table(study, record)
    assert [row["target ESS"] for row in rows] == ["2", "5", "9", "ev.SGAIS()"]
    assert [row["papers (%)"] for row in rows] == [None, 0.1, None, None]
    labels = [axes.get_ylabel() for axes in experiment.draw(study, record).axes]
    assert labels == ["error (nats)", "processor time (seconds)", "annealing steps"]


def made_up(errors, seconds):
    """A record with log Z = -1000 and the given errors and times.

    Standard errors are 0.5 nats, or 0.05% of log Z.
    """
    runs = [
        {
            "error": [error - 1, error, error + 1, error],
            "seconds": [time],
            "annealing_steps": [9],
            "noise": [0.1],
        }
        for error, time in zip(errors, seconds, strict=True)
    ]
    return {"rows": 500, "log_evidence": -1000.0, "runs": runs, "default": runs[0]}


@pytest.mark.parametrize(
    "name, errors, seconds, agrees",
    [
        ("chunk-size", [-3, -2, -1, -1, -2], [5, 4, 3, 2, 1], True),
        ("chunk-size", [-3, -2, -1, -1, -2], [1, 2, 3, 4, 5], False),
        ("moves", [-3, -2, -1, -1, -2], [1, 2, 3, 4, 5], True),
        ("moves", [-5.5, -2, -1, -1, -2], [1, 2, 3, 4, 5], True),  # beyond 0.5% by one standard error
        ("moves", [-20, -2, -1, -1, -2], [1, 2, 3, 4, 5], False),
        ("moves", [-2, -2, -1, -1, 20], [1, 2, 3, 4, 5], False),
        ("moves", [-2, np.nan, -1, -1, 2], [1, 2, 3, 4, 5], False),
        ("learning-rate", [-3, -2, -1, -1, -2], [3, 3, 3, 3, 1], True),  # no direction is judged
    ],
)
def test_the_verdict_follows_errors_and_times(name, errors, seconds, agrees):
    study = STUDIES[name]
    record = made_up(errors, seconds) | {"values": list(study.values)}
    verdict = experiment.judge(study, record)
    assert verdict.agrees == agrees
    assert ("Beyond 0.5%" in verdict.measured) == (
        not np.nanmax(np.abs(errors)) < 6 or np.isnan(errors).any()
    )


def test_experiments_have_names_of_their_own():
    names = [one.name for one in experiment.EXPERIMENTS]
    assert len(set(names)) == 6 and all(name.startswith("sensitivity-") for name in names)
