"""Warnings of a run point to the line of the user, whatever computed them."""

import inspect
import warnings
from pathlib import Path

import jaxtyping
import pytest

import evidentia as ev
from evidentia import errors
from evidentia.cli import main

MODEL = ev.models.linear_regression(3)


def data(num_rows):
    return MODEL.simulate(num_rows, seed=0)[0]


@pytest.fixture(autouse=True)
def frames_of_checks_are_ours(monkeypatch):
    """Calls within evidentia go through jaxtyping here, as tests check annotations."""
    ours = (errors._PACKAGE, str(Path(jaxtyping.__file__).parent))
    monkeypatch.setattr(errors, "_PACKAGE", ours)


def said_here(call):
    """The warnings of a call, which must all point to the line of `call`."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    assert said
    line = inspect.getsourcelines(call)[1]
    assert {(warning.filename, warning.lineno) for warning in said} == {(__file__, line)}
    return [str(warning.message) for warning in said]


def test_estimate():
    rows, method = data(2000), ev.PriorSampling(num_particles=1000)
    (message,) = said_here(lambda: ev.estimate(MODEL, rows, method=method))
    assert "the effective sample size" in message or "draws" in message


@pytest.mark.slow
def test_online(monkeypatch):
    monkeypatch.setattr("evidentia.evidence.population.warning_signs.MAX_HEIGHT_SPREAD", 0.0)
    online = ev.Online(MODEL, seed=0)
    online.update(data(500))
    (message,) = said_here(lambda: online.evidence())
    assert "the log posterior density" in message


@pytest.mark.slow
def test_pilot_runs_say_nothing():
    """Each of several runs for a target has a sign; that of the last one is said."""
    rows, method = data(60), ev.PriorSampling(num_particles=64)
    (message,) = said_here(lambda: ev.estimate(MODEL, rows, method=method, target_standard_error=0.5))
    assert "of 64 from the prior" not in message


def test_command_line(tmp_path, capsys):
    """Notes for people: a sentence, and no file or line."""
    rows = data(2000)
    path = tmp_path / "rows.csv"
    header = ",".join([*(f"x{i}" for i in range(3)), "y"])
    lines = [",".join(map(str, [*x, y])) for x, y in zip(rows["x"], rows["y"], strict=True)]
    path.write_text("\n".join([header, *lines]))
    words = ["estimate", str(path), "-m", "linear", "-t", "y", "--method", "prior-sampling", "--quiet"]
    assert main(words) == 3  # as its verdict is "failed"
    error = capsys.readouterr().err
    assert "Note: " in error
    assert ".py" not in error and "Warning" not in error
