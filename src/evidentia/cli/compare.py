"""`evidentia compare`: comparison of models from the results of earlier runs."""

import json
import math
import reprlib
from pathlib import Path
from typing import Annotated, Any

import typer

from evidentia.cli import output
from evidentia.cli.options import AsJson
from evidentia.errors import DataError

EXAMPLES = """[bold]Example[/bold]

  evidentia estimate table.csv -m linear -t price --out results/all

  evidentia estimate table.csv -m linear -t price --features area --out results/area

  evidentia compare results/all results/area"""


def command(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS...", help="Folders written by --out, or their results.json."),
    ],
    as_json: AsJson = False,
) -> None:
    """Compare models by the results of earlier runs on the same data.

    Prints log Bayes factors and model probabilities with their errors.
    """
    from evidentia.cli.results import show_comparison
    from evidentia.results.comparing import compare

    comparison = compare(_named([(path, _read(path)) for path in results]))
    if as_json:
        output.print_json(comparison.to_dict())
    else:
        show_comparison(comparison)
    output.end(comparison.verdicts)


def _read(path: Path) -> dict[str, Any]:
    """Read a results.json."""
    file = path / "results.json" if path.is_dir() else path
    if not file.is_file():
        where = "this folder holds no results.json" if path.is_dir() else "there is no such file or folder"
        raise DataError(
            f"{path}: {where}. Name a folder that evidentia estimate or regress wrote with --out."
        )
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as JSON: {error}.") from error
    except RecursionError:
        raise DataError(f"{file} cannot be read as JSON: it is nested too deeply.") from None
    evidences = found.get("evidences") if isinstance(found, dict) else None
    if not isinstance(evidences, dict) or not evidences:
        raise DataError(
            f"{file} holds no evidentia results. Name a folder that evidentia estimate or regress wrote with --out."
        )
    _check_types(file, found)
    from evidentia.results.comparing import checksum

    if "sha256" in found and found["sha256"] != checksum(found["evidences"]):  # earlier versions wrote none
        raise DataError(f"{file} was changed or damaged after it was written: its SHA-256 does not match.")
    return found


def _check_types(file: Path, found: dict[str, Any]) -> None:
    """Raise DataError, which names the entry, unless the entries used here have their types.

    `compare` checks the numbers.
    """
    about = found.get("data") or {}
    if not isinstance(about, dict):
        raise DataError(f"{file}: data must be a mapping; got {reprlib.repr(about)}.")
    for name in ("observations", "target", "file"):
        if not isinstance(value := about.get(name), str | None):
            raise DataError(f"{file}: data.{name} must be text; got {reprlib.repr(value)}.")
    features = about.get("features", [])
    if not isinstance(features, list) or not all(isinstance(feature, str) for feature in features):
        raise DataError(f"{file}: data.features must be a list of names; got {reprlib.repr(features)}.")
    for model, evidence in found["evidences"].items():
        if not isinstance(evidence, dict):
            raise DataError(f"{file}: the entry of {model} must be a mapping; got {reprlib.repr(evidence)}.")
        if not isinstance(completed := evidence.get("completed", True), bool):
            raise DataError(
                f"{file}: completed of {model} must be true or false; got {reprlib.repr(completed)}."
            )
        if not isinstance(rows := evidence.get("num_observations"), int):
            raise DataError(
                f"{file}: num_observations of {model} must be an integer; got {reprlib.repr(rows)}."
            )
        if isinstance(error := evidence.get("standard_error"), float) and math.isnan(error):
            raise DataError(
                f"{file}: standard_error of {model} must be a number, or null if unknown; got NaN."
            )


def _named(runs: list[tuple[Path, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Collect all evidences by model name, or by folder and model if model names repeat."""
    _check_same_data(runs)
    names = [name for _, run in runs for name in run["evidences"]]
    found = {}
    for path, run in runs:
        for name, evidence in run["evidences"].items():
            if not evidence.get("completed", True):
                rows = f"{evidence.get('num_observations'):,} rows"
                output.show_note(f"{path}: {name} was stopped early, at {rows}.")
            if len(set(names)) < len(names):
                name = _place(path) if len(run["evidences"]) == 1 else f"{_place(path)}: {name}"
            found[name] = evidence
    if len(found) < len(names):
        raise DataError("the results have the same names; rename the folders, and name each result once.")
    return found


def _place(path: Path) -> str:
    path = path.resolve()
    if path.name == "results.json":
        return path.parent.name
    return path.name if path.is_dir() else path.stem


def _check_same_data(runs: list[tuple[Path, dict[str, Any]]]) -> None:
    """Raise DataError unless all runs have the same observations; their features may differ.

    A run without a fingerprint of its observations may be of any, which a note says. Those of its
    evidences' arrays will do: `compare` checks them.
    """
    data = {path: run.get("data") or {} for path, run in runs}
    unknown = [
        str(path)
        for path, run in runs
        if not data[path].get("observations")
        and not all(evidence.get("fingerprints") for evidence in run["evidences"].values())
    ]
    if unknown and len(data) > 1:
        output.show_note(
            f"Whether all results are of the same observations cannot be told: no fingerprint of them is in {', '.join(unknown)}."
        )
    if len({about.get("observations") for about in data.values()} - {None}) > 1:
        listed = "; ".join(
            f"{path}: {about.get('target') or 'columns ' + ', '.join(about.get('features') or about.get('columns', []))} of {about.get('file')}"
            for path, about in data.items()
        )
        raise DataError(
            f"these results are for different observations ({listed}). Their evidence is not comparable: estimate all "
            "models on the same rows of the same target (for mixtures: the same columns, standardised the same way)."
        )
