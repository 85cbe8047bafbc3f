"""What an experiment is: one figure or table of a paper, as numbers, a picture, a table and a verdict.

Each file of this folder has one, or a few that share their code, and ends with

    if __name__ == "__main__":
        main(EXPERIMENT)

so that `python -m experiments.NAME --quick --out DIR` and `evidentia reproduce NAME --quick --out DIR` do the same. All of them
are listed in `catalogue.py`; `execute.py` runs one and writes what it found; `report.py` makes a page of many.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

Record = dict[str, Any]


class Verdict(NamedTuple):
    """Computed from the numbers: whether they agree with the papers, and what was measured, in a sentence that says why if not."""

    agrees: bool
    measured: str


@dataclass(frozen=True)
class Settings:
    """How an experiment is run.

    Attributes:
        quick: under a minute on 2 cores, with fewer rows, repeats or steps, in place of the papers' settings.
        seed: of everything that is random.
        data_dir: folder with real data, or None: then they are fetched, or the experiment says that it needs them.
        parts: file in which `remember` keeps what is done, or None for a run that keeps nothing.
    """

    quick: bool = False
    seed: int = 0
    data_dir: Path | None = None
    parts: Path | None = None

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """What `compute()` returns, as JSON has it; from the file if a run with these settings, broken off, has done it already."""
        if self.parts is None:
            return json.loads(json.dumps(compute()))
        mine = {"quick": self.quick, "seed": self.seed}
        stored = json.loads(self.parts.read_text("utf-8")) if self.parts.is_file() else {}
        done = stored["done"] if stored.get("settings") == mine else {}
        if key not in done:
            done[key] = json.loads(json.dumps(compute()))
            self.parts.write_text(json.dumps({"settings": mine, "done": done}), "utf-8")
        return done[key]


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
