"""One self-contained HTML page of experiment results, without other files or the network.

python -m experiments.report DIR        # of the results in a folder, without running anything
"""

import argparse
import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from PIL import Image

from experiments.catalogue import EXPERIMENTS
from experiments.execute import Outcome, cell, load

FILE_NAME = "report.html"
THUMBNAIL = 288, 288  # pixels


def write_report(folder: Path, outcomes: Sequence[Outcome], not_run: Mapping[str, str]) -> Path:
    """Write the page to a folder; `not_run` has the reason for each experiment not run."""
    loaders = [FileSystemLoader(Path(__file__).parent), PackageLoader("evidentia.report", ".")]
    environment = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    path = folder / FILE_NAME
    page = environment.get_template("report.html.j2").render(
        title="The papers' figures and tables, and ours",
        agreeing=sum(outcome.verdict.agrees for outcome in outcomes),
        sections=[_section(outcome) for outcome in outcomes],
        not_run=[(EXPERIMENTS[name], why) for name, why in not_run.items()],
    )
    path.write_text(page, encoding="utf-8")
    return path


def _section(outcome: Outcome) -> dict:
    rows = outcome.experiment.table(outcome.record)
    about = outcome.about
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return {
        "experiment": outcome.experiment,
        "verdict": outcome.verdict,
        "quick": about["quick"],
        "seconds": f"{about['seconds']:,.0f} s",
        "made": f"{about['date']}, {about['machine']}, {versions}",
        "note": about.get("note"),
        "png": _encoded(outcome.picture.read_bytes()),
        "thumbnail": _encoded(_thumbnail(outcome.picture)),
        "header": list(rows[0]) if rows else [],
        "rows": [[(cell(value), "" if value is None else value) for value in row.values()] for row in rows],
    }


def _thumbnail(picture: Path) -> bytes:
    """A small copy of a picture, as PNG."""
    with Image.open(picture) as image:
        small = image.convert("RGB")
        small.thumbnail(THUMBNAIL)
        written = io.BytesIO()
        small.save(written, "PNG")
    return written.getvalue()


def _encoded(png: bytes) -> str:
    return base64.b64encode(png).decode("ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    found = {name: load(experiment, folder) for name, experiment in EXPERIMENTS.items()}
    outcomes = [outcome for outcome in found.values() if outcome is not None]
    not_run = {name: "this folder has no result of it." for name, outcome in found.items() if outcome is None}
    print(write_report(folder, outcomes, not_run))


if __name__ == "__main__":
    main()
