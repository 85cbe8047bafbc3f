"""A folder of results: numbers as JSON, trajectories as CSV and Parquet, pictures, a page."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet

from evidentia.comparison import Comparison
from evidentia.report.page import render_page
from evidentia.report.pictures import all_pictures, file_name
from evidentia.result import Evidence


def results_dict(
    evidences: Mapping[str, Evidence],
    comparison: Comparison,
    *,
    title: str,
    notes: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All numbers of a run, in a form that JSON can hold.

    Args:
        evidences: by name.
        comparison: of the same evidences.
        title: title of the run.
        notes: notes for the reader, one sentence each.
        data: source of the data and how they were prepared.
        more: further entries, by name.

    Returns:
        The entries of `more`, `title`, `notes`, `data`, `version`, `evidences` (see
        `Evidence.to_dict`) and `comparison`.
    """
    return {
        **(more or {}),
        "title": title,
        "notes": list(notes),
        "data": dict(data or {}),
        "version": version("evidentia"),
        "evidences": {name: evidence.to_dict() for name, evidence in evidences.items()},
        "comparison": comparison.to_dict(),
    }


def write_results(
    folder: Path | str,
    evidences: Mapping[str, Evidence],
    comparison: Comparison,
    **about: Any,
) -> None:
    """Write `results.json`, trajectories, pictures and the page `index.html` into a folder.

    Trajectories are `trajectory_<model>.csv` and `.parquet`. Numbers are written first, so that
    they exist even if a picture fails. The arguments `about` are those of `results_dict`.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    results = results_dict(evidences, comparison, **about)
    numbers = json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "results.json").write_text(numbers + "\n", encoding="utf-8")
    for name, evidence in evidences.items():
        table = evidence.trajectory.to_arrow()
        stem = f"trajectory_{file_name(name)}"
        pyarrow.csv.write_csv(table, folder / f"{stem}.csv")
        pyarrow.parquet.write_table(table, folder / f"{stem}.parquet")
    together, single = all_pictures(evidences, comparison)
    for picture in [together, *(picture for pictures in single.values() for picture in pictures)]:
        if picture is not None:
            (folder / f"{picture.name}.png").write_bytes(picture.png)
    page = render_page(
        evidences, comparison, together, single, title=results["title"], notes=results["notes"]
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
