"""A folder of results: numbers as JSON, saved evidences, trajectories, pictures, a page."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet

from evidentia.errors import CheckpointError
from evidentia.report.file_names import file_names
from evidentia.report.own_files import EVIDENCE, foreign_result, not_ours
from evidentia.report.page import render_page
from evidentia.report.pictures import all_pictures
from evidentia.report.section import Section
from evidentia.results.comparing import checksum
from evidentia.results.comparison import Comparison
from evidentia.results.result import Evidence
from evidentia.system.locking import FolderLock
from evidentia.system.storage import replace, replacing

__all__ = ["not_ours", "results_dict", "write_results"]

PATIENCE = 60.0  # seconds to wait for another run that writes into the folder


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
        `Evidence.to_dict`), their `sha256` and `comparison`.
    """
    results = {name: evidence.to_dict() for name, evidence in evidences.items()}
    return {
        **(more or {}),
        "title": title,
        "notes": list(notes),
        "data": dict(data or {}),
        "version": version("evidentia"),
        "evidences": results,
        "sha256": checksum(results),
        "comparison": comparison.to_dict(),
    }


def write_results(
    folder: Path | str,
    evidences: Mapping[str, Evidence],
    comparison: Comparison,
    sections: Sequence[Section] = (),
    **about: Any,
) -> None:
    """Write `results.json`, evidences, trajectories, pictures and `index.html` into a folder.

    Evidences are folders `evidence_<model>` for `evidentia.load`, trajectories are
    `trajectory_<model>.csv` and `.parquet` (`file_names` has the names). Numbers are written
    first, so that they exist even if a picture fails. `sections` come first on the page. The
    arguments `about` are those of `results_dict`. One thread or process writes at a time.

    Raises:
        OSError: the folder cannot be written to.
        CheckpointError: the folder of an evidence cannot be, or there is a file that would be
            replaced and that evidentia did not write.
    """
    folder = Path(folder)
    with FolderLock(folder, "the folder", patience=PATIENCE, is_kept=False):
        if foreign := foreign_result(folder):
            raise CheckpointError(
                f"{foreign} was not written by evidentia. Name another folder, or move the file."
            )
        results = results_dict(evidences, comparison, **about)
        numbers = json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False)
        replace(folder / "results.json", numbers.encode() + b"\n")
        for name, stem in file_names(evidences).items():
            evidences[name].save(folder / f"{EVIDENCE}{stem}")
            table = evidences[name].trajectory.to_arrow()
            with replacing(folder / f"trajectory_{stem}.csv") as file:
                pyarrow.csv.write_csv(table, file)
            with replacing(folder / f"trajectory_{stem}.parquet") as file:
                pyarrow.parquet.write_table(table, file)
        together, single = all_pictures(evidences, comparison)
        groups = [
            [together] if together else [],
            *single.values(),
            *(section.pictures for section in sections),
        ]
        for picture in chain.from_iterable(groups):
            replace(folder / f"{picture.name}.png", picture.png)
        page = render_page(
            evidences, comparison, together, single, sections, title=results["title"], notes=results["notes"]
        )
        replace(folder / "index.html", page.encode())
