"""Results as written and shown, resuming an interrupted run, and the page of all results."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from evidentia.cli import main
from evidentia.errors import DataError
from experiments import catalogue
from experiments.execute import execute, load, show
from experiments.experiment import Experiment, Settings, Verdict
from experiments.report import write_report


def draw(record):
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot(record["values"])
    return figure


def toy(name="toy", run=lambda settings: {"values": [1.0, settings.seed]}, limit=1.5):
    return Experiment(
        name=name,
        title=f"A <{name}>",
        reproduces="No paper, Figure 0",
        claim="The sum is small.",
        alt="A line.",
        run=run,
        draw=draw,
        table=lambda record: [{"value": value, "published": None} for value in record["values"]],
        judge=lambda record: Verdict(sum(record["values"]) < limit, f"The sum is {sum(record['values'])}."),
    )


@pytest.fixture
def experiments(monkeypatch):
    """Two experiments in place of the real ones; the second lacks its data."""

    def missing(settings):
        raise DataError("data_dir must hold something.")

    found = {"toy": toy(), "missing": toy("missing", missing)}
    monkeypatch.setattr(catalogue, "EXPERIMENTS", found)
    monkeypatch.setattr("experiments.report.EXPERIMENTS", found)
    monkeypatch.setenv("COLUMNS", "80")
    return found


def test_numbers_picture_and_verdict(tmp_path, capsys):
    outcome = execute(toy(), tmp_path, quick=True, seed=1)
    assert not outcome.verdict.agrees and outcome.about["quick"]
    assert outcome.picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "toy.json").read_text())["record"] == {"values": [1.0, 1]}
    show(outcome, width=80)
    shown = capsys.readouterr().out
    assert "differs" in shown and "The sum is 2.0." in shown and "–" in shown


def test_a_kept_result_is_shown_with_its_note(tmp_path, capsys):
    execute(toy(), tmp_path)
    path = tmp_path / "toy.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"about": stored["about"] | {"note": "half of the <rows>"}}))
    outcome = load(toy(), tmp_path)
    show(outcome, width=80)
    assert "half of the <rows>" in capsys.readouterr().out
    assert "half of the &lt;rows&gt;" in write_report(tmp_path, [outcome], {}).read_text()


def test_a_table_wider_than_the_terminal_goes_on_below(tmp_path, capsys):
    names = [f"a column, number {index}" for index in range(6)]
    wide = replace(toy(), table=lambda record: [dict.fromkeys(names, 0.25)])
    show(execute(wide, tmp_path), width=80)
    lines = capsys.readouterr().out.splitlines()
    headings = [line for line in lines if "a column" in line]
    assert len(headings) == 2 and all(line.startswith(names[0]) and len(line) <= 80 for line in headings)
    assert [line.count("0.25") for line in lines if "0.25" in line] == [
        line.count("a column") for line in headings
    ]
    assert all(sum(name in line for line in headings) == 1 for name in names[1:])


def test_an_earlier_run_is_loaded(tmp_path):
    assert load(toy(), tmp_path) is None
    execute(toy(), tmp_path)
    assert load(toy(), tmp_path).verdict.agrees


def test_a_run_that_was_broken_off_goes_on(tmp_path):
    done = []

    def run(settings):
        parts = [settings.remember(f"part {i}", lambda i=i: done.append(i) or i) for i in range(3)]
        if len(done) == 3:
            done.append("broken")
            raise KeyboardInterrupt
        return {"values": parts}

    with pytest.raises(KeyboardInterrupt):
        execute(toy(run=run), tmp_path)
    kept = json.loads((tmp_path / "toy.parts.json").read_text())
    (tmp_path / "toy.parts.json").write_text(json.dumps(kept | {"seconds": 1000.0}))
    outcome = execute(toy(run=run), tmp_path)
    assert outcome.record == {"values": [0, 1, 2]}
    assert 1000 <= outcome.about["seconds"] < 1060  # the seconds of both runs
    assert done == [0, 1, 2, "broken"]
    assert not list(tmp_path.glob("*.parts.json"))


def test_parts_of_other_settings_are_not_taken(tmp_path):
    path = tmp_path / "parts.json"
    assert Settings(parts=path, seed=0).remember("a", lambda: 1) == 1
    assert Settings(parts=path, seed=1).remember("a", lambda: 2) == 2
    assert Settings(parts=path, seed=1).remember("a", lambda: 3) == 2


def test_one_by_the_command_line(tmp_path, experiments, capsys):
    assert main(["reproduce", "toy", "--quick", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "toy.json").is_file() and "agrees" in capsys.readouterr().out


def test_the_list(experiments, capsys):
    assert main(["reproduce", "--list"]) == 0
    assert "toy" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, message",
    [
        (["nothing"], "NAME must be all, or one of toy, missing; got 'nothing'"),
        ([], "got no name"),
        (["toy", "--data-dir", "nowhere"], "--data-dir must be a folder; got nowhere"),
        (["missing", "--out", "OUT"], "data_dir must hold something"),
    ],
)
def test_mistakes(words, message, experiments, tmp_path, capsys):
    words = [str(tmp_path) if word == "OUT" else word for word in words]
    assert main(["reproduce", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_all_goes_on_without_one_and_writes_the_page(tmp_path, experiments, capsys):
    assert main(["reproduce", "all", "--out", str(tmp_path)]) == 0
    assert "missing was not run" in " ".join(capsys.readouterr().err.split())
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "1 of 1 agree" in page and "1 not run" in page and "data_dir must hold something." in page
    assert "A &lt;toy&gt;" in page and 'alt="A line."' in page
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)  # no external resources


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_in_a_browser(tmp_path, experiments):
    """No console errors, a click on a header sorts, and nothing is wider than a phone."""
    outcome = execute(toy(run=lambda settings: {"values": [3.0, 10.0, 2.0]}), tmp_path)
    path = write_report(tmp_path, [outcome], {})
    script = """<script>
      document.querySelectorAll("details").forEach((each) => each.open = true);
      const table = document.querySelectorAll("table")[1];
      table.querySelector("button").click();
      document.body.dataset.order = [...table.tBodies[0].rows].map((row) => row.cells[0].textContent).join(" ");
      document.body.dataset.wide = document.documentElement.scrollWidth - window.innerWidth;
    </script></body>"""
    path.write_text(path.read_text("utf-8").replace("</body>", script), "utf-8")
    found = browse(path, tmp_path / "profile")
    assert 'data-order="2 3 10"' in found.stdout
    assert int(re.search(r'data-wide="(-?\d+)"', found.stdout)[1]) <= 0
    assert "CONSOLE" not in found.stderr


def browse(page: Path, profile: Path) -> subprocess.CompletedProcess:
    words = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    )
    more = f"--disable-component-update --disable-sync --enable-logging=stderr --user-data-dir={profile}"
    command = [CHROMIUM, *words.split(), *more.split(), "--window-size=400,800", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
