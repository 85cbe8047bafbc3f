"""The demo: its candidates match their names, and the true model wins."""

import json

import numpy as np
import pytest

import evidentia as ev
from evidentia.cli import candidates as module
from evidentia.cli import main, run
from evidentia.cli.candidates import candidates
from evidentia.cli.run import Candidate


def test_candidates_are_what_they_say():
    full, missing, noise = candidates(1000, seed=3)
    assert [each.data["x"].shape for each in (full, missing, noise)] == [(1000, 10), (1000, 8), (1000, 15)]
    np.testing.assert_array_equal(missing.data["x"], full.data["x"][:, :8])
    np.testing.assert_array_equal(noise.data["x"][:, :10], full.data["x"])
    assert {id(each.data["y"]) for each in (full, missing, noise)} == {id(full.data["y"])}
    # Noise is independent of features and labels, so correlations are of order 1/sqrt(rows).
    together = np.column_stack([noise.data["x"], np.eye(4)[full.data["y"]]])
    correlations = np.corrcoef(together.T)[10:15, [*range(10), *range(15, 19)]]
    assert np.abs(correlations).max() < 5 / np.sqrt(1000)


def test_seeds():
    first, again, other = (candidates(100, seed)[2].data for seed in (0, 0, 1))
    np.testing.assert_array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert not np.array_equal(first["x"][:, :5], first["x"][:, 10:])


@pytest.mark.reference
def test_demo_finds_the_true_model(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--num-observations", "2000", "--num-particles", "64", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.split("\n\n")[0].splitlines()[1:])) <= 80
    assert "all 10 features has the highest log evidence" in " ".join(out.split())
    for name in ("all 10 features", "two features missing", "five noise features"):
        assert f"{name}: 2,000 rows" in err  # plain lines without a terminal
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["comparison"]["best"] == "all 10 features"
    assert {file.suffix for file in tmp_path.iterdir()} >= {".json", ".csv", ".parquet", ".png", ".html"}


@pytest.mark.slow
def test_ctrl_c_keeps_the_models_before_apart_from_the_one_at_work(tmp_path, capsys, monkeypatch):
    model = ev.models.linear_regression(1)
    data, _ = model.simulate(1200, seed=0)
    names = ("first", "second", "third")
    monkeypatch.setattr(
        module, "candidates", lambda rows, seed: [Candidate(name, model, data) for name in names]
    )
    complete = run.estimate
    calls = []

    def interrupted(*arguments, progress, **options):
        """Press Ctrl-C after the first chunk of the second model."""
        calls.append(arguments)

        def press(update):
            progress(update)
            if len(calls) == 2:
                raise KeyboardInterrupt

        return complete(*arguments, progress=press, **options)

    monkeypatch.setattr(run, "estimate", interrupted)
    assert (
        main(["demo", "--num-observations", "1200", "--num-particles", "64", "--out", str(tmp_path)]) == 130
    )
    out, err = capsys.readouterr()
    assert "Note: Stopped after 100 of 1200 observations" in err
    assert "Done" not in out
    for folder, name, rows in (
        (tmp_path, "first", 1200),
        (tmp_path / "stopped", "second", 100),
    ):
        found = json.loads((folder / "results.json").read_text())["evidences"]
        assert {name: evidence["num_observations"] for name, evidence in found.items()} == {name: rows}
        assert (folder / "index.html").exists()


def test_demo_complains_about_numbers(tmp_path, capsys, monkeypatch):
    for words, message in {
        ("--num-observations", "1"): "--num-observations must be an integer of at least 2; got 1",
        ("--num-particles", "1"): "num_particles must be an integer of at least 2; got 1",
        ("--seed", "-1"): "--seed must be an integer from 0",
    }.items():
        monkeypatch.setenv("COLUMNS", "200")
        assert main(["demo", *words, "--out", str(tmp_path)]) == 2
        assert message in capsys.readouterr().err
