"""Run an experiment, write its results, and show them."""

import argparse
import datetime
import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
from rich.console import Console
from rich.table import Table

from evidentia.report.own_files import SOFTWARE
from experiments.experiment import Experiment, Record, Settings, Verdict

PACKAGES = ("evidentia", "jax", "numpyro", "numpy")


class Outcome(NamedTuple):
    """The result of a run.

    `about` holds date, seconds, versions and machine, and a note on a kept result where it needs
    one; `picture` is the file of the figure.
    """

    experiment: Experiment
    settings: Settings
    record: Record
    verdict: Verdict
    about: dict[str, Any]
    picture: Path


def execute(
    experiment: Experiment, out: Path, *, quick: bool = False, seed: int = 0, data_dir: Path | None = None
) -> Outcome:
    """Run and write `NAME.json` and `NAME.png` to a folder; continues an interrupted run."""
    out.mkdir(parents=True, exist_ok=True)
    parts = out / f"{experiment.name}.parts.json"
    settings = Settings(quick, seed, data_dir, parts)
    started = time.perf_counter() - settings.seconds_before
    record = json.loads(json.dumps(experiment.run(settings)))
    about = {
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.perf_counter() - started, 1),
        "quick": quick,
        "seed": seed,
        "machine": describe_machine(),
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
    }
    (out / f"{experiment.name}.json").write_text(
        json.dumps({"about": about, "record": record}) + "\n", "utf-8"
    )
    parts.unlink(missing_ok=True)
    return _outcome(experiment, settings, record, about, out)


def load(experiment: Experiment, out: Path) -> Outcome | None:
    """Load an earlier result from a folder and redraw its picture; None if there is none."""
    path = out / f"{experiment.name}.json"
    if not path.is_file():
        return None
    stored = json.loads(path.read_text("utf-8"))
    about, record = stored["about"], stored["record"]
    return _outcome(experiment, Settings(about["quick"], about["seed"]), record, about, out)


def show(outcome: Outcome, width: int | None = None) -> None:
    """Print claim, table and verdict."""
    console = Console(highlight=False, markup=False, width=width)
    experiment, verdict = outcome.experiment, outcome.verdict
    console.print(f"{experiment.title} ({experiment.reproduces})", style="bold")
    console.print(f"Claimed:  {experiment.claim}")
    for table in tables_that_fit(experiment.table(outcome.record), console):
        console.print(table)
    console.print(f"Measured: {verdict.measured}")
    style = "bold green" if verdict.agrees else "bold red"
    console.print("Verdict:  " + ("agrees" if verdict.agrees else "differs"), style=style)
    if "note" in outcome.about:
        console.print(f"Note:     {outcome.about['note']}")
    console.print(f"Written:  {outcome.picture} and .json, after {outcome.about['seconds']:.0f} s")


def tables_that_fit(rows: list[dict[str, Any]], console: Console) -> list[Table]:
    """Split a table that is too wide for the console; each part has the first column."""
    if not rows:
        return []
    first, *others = rows[0]
    tables, columns = [], [first]
    for name in others:
        wider = as_table(rows, [*columns, name])
        needed = console.measure(wider, options=console.options.update(width=10_000)).maximum
        if len(columns) > 1 and needed > console.width:
            tables.append(as_table(rows, columns))
            columns = [first]
        columns.append(name)
    return [*tables, as_table(rows, columns)]


def as_table(rows: list[dict[str, Any]], columns: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left")
    for row in rows:
        table.add_row(*(cell(row[name]) for name in columns))
    return table


def cell(value: Any) -> str:
    """A value of a table as text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}".replace("-", "−") if abs(value) < 1000 else f"{value:,.0f}".replace("-", "−")
    return f"{value:,}" if isinstance(value, int) else str(value)


def describe_machine() -> str:
    """Processor and cores; nothing that identifies the machine itself."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text("utf-8").splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores, {processor}; JAX on {jax.default_backend()}"


def main(*experiments: Experiment) -> None:
    """The command line of an experiment's file."""
    parser = argparse.ArgumentParser(description="; ".join(one.title for one in experiments))
    parser.add_argument(
        "--quick", action="store_true", help="under a minute, instead of the papers' settings"
    )
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for numbers and picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, help="folder with real data")
    arguments = parser.parse_args()
    for experiment in experiments:
        show(
            execute(
                experiment,
                arguments.out,
                quick=arguments.quick,
                seed=arguments.seed,
                data_dir=arguments.data_dir,
            )
        )


def _outcome(experiment, settings, record, about, out) -> Outcome:
    picture = out / f"{experiment.name}.png"
    experiment.draw(record).savefig(picture, dpi=130, facecolor="white", metadata=SOFTWARE)
    return Outcome(experiment, settings, record, experiment.judge(record), about, picture)
