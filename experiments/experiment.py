"""What an experiment is: one figure or table of a paper, as numbers, picture, table and verdict.

Each file in this folder has one, or a few that share their code, and ends with

    if __name__ == "__main__":
        main(EXPERIMENT)

so that `python -m experiments.NAME --quick --out DIR` and `evidentia reproduce NAME --quick --out
DIR` do the same. `catalogue.py` lists all experiments, `execute.py` runs one and writes its
results, and `report.py` makes a page of many.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

Record = dict[str, Any]


class Verdict(NamedTuple):
    """Whether the numbers agree with the papers, and a sentence with what was measured."""

    agrees: bool
    measured: str


@dataclass(frozen=True)
class Settings:
    """How an experiment is run.

    Attributes:
        quick: under a minute on 2 cores, with fewer rows, repeats or steps than the papers.
        seed: the random seed.
        data_dir: folder with real data, or None to fetch them or raise an error.
        parts: file in which `remember` keeps finished parts, or None to keep nothing.
    """

    quick: bool = False
    seed: int = 0
    data_dir: Path | None = None
    parts: Path | None = None

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return `compute()` as JSON, from the file if an interrupted run has stored it."""
        if self.parts is None:
            return json.loads(json.dumps(compute()))
        kept = self._kept()
        if key not in kept["done"]:
            started = time.perf_counter()
            kept["done"][key] = json.loads(json.dumps(compute()))
            kept["seconds"] += time.perf_counter() - started
            self.parts.write_text(json.dumps(kept), "utf-8")
        return kept["done"][key]

    @property
    def seconds_before(self) -> float:
        """Seconds that an interrupted run spent on its stored parts."""
        return self._kept()["seconds"]

    def _kept(self) -> Record:
        mine = {"quick": self.quick, "seed": self.seed}
        if self.parts is None or not self.parts.is_file():
            return {"settings": mine, "seconds": 0.0, "done": {}}
        kept = json.loads(self.parts.read_text("utf-8"))
        return kept if kept.get("settings") == mine else {"settings": mine, "seconds": 0.0, "done": {}}


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the papers.

    Attributes:
        name: as on the command line, with hyphens.
        title: of its section in the report.
        reproduces: documents, figures and tables.
        claim: what they claim, in a sentence.
        alt: a description of the picture, for readers who cannot see it.
        run: computes the numbers, as JSON can hold them.
        draw: draws the picture.
        table: rows of the table, by column, with the papers' numbers and ours.
        judge: computes the verdict.
    """

    name: str
    title: str
    reproduces: str
    claim: str
    alt: str
    run: Callable[[Settings], Record]
    draw: Callable[[Record], Figure]
    table: Callable[[Record], list[dict[str, Any]]]
    judge: Callable[[Record], Verdict]
