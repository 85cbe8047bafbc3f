"""What an experiment is: one figure or table of a paper, as numbers, a picture, a table and a
verdict.

Each file of this folder has one, or a few that share their code, and ends with

    if __name__ == "__main__":
        main(EXPERIMENT)

so that `python -m experiments.NAME --quick --out DIR` and `evidentia reproduce NAME --quick --out
DIR` do the same. All of them are listed in `catalogue.py`; `execute.py` runs one and writes what
it found; `report.py` makes a page of many.
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
    """Computed from the numbers: whether they agree with the papers, and what was measured, in a
    sentence that says why if not.
    """

    agrees: bool
    measured: str


@dataclass(frozen=True)
class Settings:
    """How an experiment is run.

    Attributes:
        quick: under a minute on 2 cores, with fewer rows, repeats or steps, in place of the
            papers' settings.
        seed: of everything that is random.
        data_dir: folder with real data, or None: then they are fetched, or the experiment says
            that it needs them.
        parts: file in which `remember` keeps what is done, or None for a run that keeps nothing.
    """

    quick: bool = False
    seed: int = 0
    data_dir: Path | None = None
    parts: Path | None = None

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """What `compute()` returns, as JSON has it; from the file if a run with these settings,
        broken off, has done it already.
        """
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
        """That an earlier run, broken off, took for what is kept of it."""
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
        name: what one types, with hyphens.
        title: of its section in the report.
        reproduces: documents, figures and tables.
        claim: what they claim, in a sentence.
        alt: what one sees in the picture, for those who do not see it.
        run: the numbers, as JSON can hold them.
        draw: the picture of the numbers.
        table: rows of the table under it, by column, the papers' numbers beside ours.
        judge: the verdict.
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
