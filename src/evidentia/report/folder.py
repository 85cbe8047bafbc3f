"""A folder of results: numbers as JSON, saved evidences, trajectories, pictures, a page."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet

from evidentia.checkpoint.results import foreign_file
from evidentia.comparison import Comparison
from evidentia.errors import ConfigurationError
from evidentia.report.page import render_page
from evidentia.report.pictures import all_pictures, file_name
from evidentia.report.section import Section
from evidentia.result import Evidence

EVIDENCE = "evidence_"  # how the names of folders of evidences begin


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
    sections: Sequence[Section] = (),
    **about: Any,
) -> None:
    """Write `results.json`, evidences, trajectories, pictures and `index.html` into a folder.

    Evidences are folders `evidence_<model>` for `evidentia.load`, trajectories are
    `trajectory_<model>.csv` and `.parquet`. Numbers are written first, so that they exist even if
    a picture fails. `sections` come first on the page. The arguments `about` are those of
    `results_dict`.

    Raises:
        OSError: the folder cannot be written to.
        CheckpointError: the folder of an evidence cannot be, or it holds other files.
        ConfigurationError: two names would be the same in file names.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _check_file_names(evidences)
    results = results_dict(evidences, comparison, **about)
    numbers = json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False)
    replace_file(folder / "results.json", lambda path: path.write_text(numbers + "\n", encoding="utf-8"))
    for name, evidence in evidences.items():
        evidence.save(folder / f"{EVIDENCE}{file_name(name)}")
        table = evidence.trajectory.to_arrow()
        stem = f"trajectory_{file_name(name)}"
        replace_file(folder / f"{stem}.csv", partial(pyarrow.csv.write_csv, table))
        replace_file(folder / f"{stem}.parquet", partial(pyarrow.parquet.write_table, table))
    together, single = all_pictures(evidences, comparison)
    groups = [[together] if together else [], *single.values(), *(section.pictures for section in sections)]
    for picture in chain.from_iterable(groups):
        replace_file(folder / f"{picture.name}.png", partial(_write_bytes, picture.png))
    page = render_page(
        evidences, comparison, together, single, sections, title=results["title"], notes=results["notes"]
    )
    replace_file(folder / "index.html", lambda path: path.write_text(page, encoding="utf-8"))


def not_ours(folder: Path) -> Path | None:
    """A file that `write_results` would replace but did not write; None if there is none."""
    results, page = folder / "results.json", folder / "index.html"
    if results.exists():
        try:
            found = json.loads(results.read_text("utf-8"))
        except (ValueError, RecursionError):
            return results
        if not (isinstance(found, dict) and {"evidences", "version"} <= set(found)):
            return results
    elif page.exists() and b'content="evidentia"' not in page.read_bytes():
        return page
    saved = (each for each in sorted(folder.glob(f"{EVIDENCE}*")) if each.is_dir())
    return next((foreign for each in saved if (foreign := foreign_file(each))), None)


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file under another name, then rename it: a full disk leaves the old one whole."""
    new = path.with_name(f".{path.name}.new")
    try:
        write(new)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def _write_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _check_file_names(names: Iterable[str]) -> None:
    """Raise ConfigurationError if two names become the same file name."""
    taken: dict[str, str] = {}
    for name in names:
        # Some file systems do not tell capitals apart.
        other = taken.setdefault(file_name(name).lower(), name)
        if other != name:
            raise ConfigurationError(
                f"the names {other!r} and {name!r} would be the same in file names ({file_name(name)}). Rename one."
            )
