"""Which files of a folder evidentia wrote: told by what is in them, not by a list of names.

A list would be old after a run that was killed, and would include a file that a user has put in
the place of one of ours.
"""

import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from evidentia.checkpoint.results import foreign_file
from evidentia.trajectory import Trajectory

EVIDENCE = "evidence_"  # how the names of folders of evidences begin
SOFTWARE = {"Software": "evidentia"}  # in each picture
COLUMNS = [column.name for column in fields(Trajectory)]
UPDATE = {"num_observations", "batch_size", "models", "alarms"}  # keys of a line of updates


def is_page(path: Path) -> bool:
    """Whether a file is a page of ours."""
    return b'content="evidentia"' in path.read_bytes()


def is_picture(path: Path) -> bool:
    """Whether a file is a picture of ours."""
    with path.open("rb") as file:
        return b"tEXtSoftware\0evidentia" in file.read(1000)


def has_keys(path: Path, keys: tuple[str, ...]) -> bool:
    """Whether a file is a JSON object with some keys."""
    found = json.loads(path.read_text("utf-8"))
    return isinstance(found, dict) and found.keys() >= set(keys)


def _is_journal(path: Path) -> bool:
    """Whether the first line is an update; a journal without lines is ours, too."""
    with path.open("rb") as file:
        first = file.readline(10_000_000)
    found = json.loads(first) if first else dict.fromkeys(UPDATE)
    return isinstance(found, dict) and found.keys() >= UPDATE


def _is_csv(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline(1000).decode().replace('"', "").strip().split(",") == COLUMNS


def _is_parquet(path: Path) -> bool:
    from pyarrow.parquet import read_schema  # slow to import

    return read_schema(path).names == COLUMNS


# The files that a run may write, with what tells that one is ours.
RESULTS: dict[str, Callable[[Path], bool]] = {
    "results.json": partial(has_keys, keys=("evidences", "version")),
    "index.html": is_page,
    "updates.jsonl": _is_journal,
    "trajectory_*.csv": _is_csv,
    "trajectory_*.parquet": _is_parquet,
    **dict.fromkeys(("evidence_*.png", "posterior_*.png"), is_picture),
    **dict.fromkeys(
        ("comparison.png", "stream.png", "coefficients.png", "predictions.png", "prior_sensitivity.png"),
        is_picture,
    ),
}


def not_ours(folder: Path, kinds: Mapping[str, Callable[[Path], bool]] = RESULTS) -> Path | None:
    """A file that a run could replace, or write into, but did not write; None if there is none."""
    saved = (path for path in sorted(folder.glob(f"{EVIDENCE}*")) if not path.name.endswith(".png"))
    return foreign_result(folder, kinds) or next(filter(None, map(_foreign_evidence, saved)), None)


def foreign_result(folder: Path, kinds: Mapping[str, Callable[[Path], bool]] = RESULTS) -> Path | None:
    """As `not_ours`, without the folders of evidences."""
    for path in sorted(folder.iterdir()):
        check = next((kinds[pattern] for pattern in kinds if fnmatchcase(path.name, pattern)), None)
        if check is not None and not _holds(check, path):
            return path
    return None


def _holds(check: Callable[[Path], bool], path: Path) -> bool:
    """Whether a path is a file that passes a check; a link is somebody else's."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    try:
        return check(path)
    except Exception:  # of any kind: the readers of formats raise what they like
        return False


def _foreign_evidence(path: Path) -> Path | None:
    return path if path.is_symlink() else foreign_file(path)
