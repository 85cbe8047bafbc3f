"""Tables of runs on random problems: coverage, warnings, silent failures and their bound.

python benchmarks/fresh_table.py runs.jsonl                 # a table for the terminal
python benchmarks/fresh_table.py runs.jsonl --failures      # every silent failure
python benchmarks/fresh_table.py results/gauntlet_fresh.jsonl --page ../docs/gauntlet-fresh.md
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gauntlet_table import SILENT_ERRORS, SILENT_NATS
from scipy import stats

HEADER = (
    "| family | runs | no answer | within 2 s.e. | warned | silent failures | error | reported | seconds |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)


class Tally(NamedTuple):
    """Numbers of runs; sums of squares over those that are trusted."""

    runs: int = 0
    answers: int = 0
    covered: int = 0
    trusted: int = 0
    silent: int = 0
    square: float = 0.0  # of the errors, in nats²
    variance: float = 0.0  # reported
    seconds: float = 0.0

    def __add__(self, other) -> "Tally":
        return Tally(*(mine + its for mine, its in zip(self, other, strict=True)))


def error_of(record: Mapping) -> float:
    """The error of a run in nats; infinite if the estimate is not finite."""
    error = abs(record["estimate"] - record["truth"])
    return error if math.isfinite(error) else math.inf


def is_silent(record: Mapping) -> bool:
    """Whether a run is trusted and wrong by more than 0.1 nats and 4 standard errors."""
    return (
        record.get("verdict") == "trusted"
        and not error_of(record) <= max(SILENT_NATS, SILENT_ERRORS * record["standard_error"])
    )


def tally_of(record: Mapping) -> Tally:
    """One run."""
    if "error" in record:
        return Tally(runs=1, seconds=record["seconds"])
    error, reported = error_of(record), record["standard_error"]
    trusted = record["verdict"] == "trusted"
    return Tally(
        runs=1,
        answers=1,
        covered=error < 2 * reported + 1e-4 * SILENT_NATS,
        trusted=trusted,
        silent=is_silent(record),
        square=error**2 if trusted else 0.0,
        variance=reported**2 if trusted else 0.0,
        seconds=record["seconds"],
    )


def highest_rate(failures: int, runs: int, confidence: float = 0.95) -> float:
    """The upper bound of a rate (Clopper and Pearson 1934); 3/n for none in n, about."""
    if failures >= runs:
        return 1.0
    return float(stats.beta.ppf(confidence, failures + 1, runs - failures))


def _line(name: str, tally: Tally) -> str:
    def share(part: int, whole: int) -> str:
        return f"{100 * part / whole:.0f}%" if whole else ""

    def root(square: float) -> str:
        return f"{math.sqrt(square / tally.trusted):.3f}" if tally.trusted else ""

    cells = [
        name,
        f"{tally.runs:,}",
        str(tally.runs - tally.answers),
        share(tally.covered, tally.answers),
        share(tally.answers - tally.trusted, tally.answers),
        str(tally.silent),
        root(tally.square),
        root(tally.variance),
        f"{tally.seconds / max(1, tally.runs):.2g}",
    ]
    return "| " + " | ".join(cells) + " |\n"


def table_of(records: Sequence[Mapping]) -> str:
    """One line for each family, one for all, and the bound of silent failures, of one method."""
    names = dict.fromkeys(record["family"] for record in records)
    by_family = {
        name: sum((tally_of(each) for each in records if each["family"] == name), Tally()) for name in names
    }
    total = sum(by_family.values(), Tally())
    bound = highest_rate(total.silent, total.trusted)
    lines = "".join(_line(name, tally) for name, tally in by_family.items())
    return (
        f"{HEADER}{lines}{_line('**all**', total)}\n"
        f"{total.silent} of {total.trusted:,} trusted runs were silent failures: with 95% confidence, their rate is below "
        f"{100 * bound:.2g}%.\n"
    )


def markdown_page(records: Sequence[Mapping]) -> str:
    """The documentation page of the runs of one set, a section for each method."""
    (kind,) = {record["set"] for record in records}
    commits = ", ".join(sorted({record["commit"] for record in records}))
    seeds = [record["seed"] for record in records]
    sections = "\n".join(
        f"## {'No method named' if method == 'auto' else f'`{method}()`'}\n\n"
        + table_of([record for record in records if record["method"] == method])
        for method in dict.fromkeys(record["method"] for record in records)
    )
    origin = (
        "None of these problems was seen before the code was frozen."
        if kind == "fresh"
        else "These seeds were used in development; fresh ones are what counts."
    )
    return f"""# Problems that nobody has seen

Random problems of {len({record["family"] for record in records})} families (`benchmarks/fresh_families/`): the seed draws dimension, number of rows, priors' widths, noise,
directions and conflict between prior and data, and the log evidence is known exactly. {origin}
Seeds {min(seeds):,} to {max(seeds):,} (the {kind} set), commit {commits}; `python benchmarks/fresh.py --seeds
{min(seeds)}:{max(seeds) + 1} --set {kind} --out runs.jsonl` repeats the runs.

*No answer*: an error, or no end within the time limit. *Warned*: the verdict is not "trusted". *Silent failures*: trusted,
and wrong by more than {SILENT_NATS} nats and {SILENT_ERRORS:g} standard errors. *Error* and *reported*: root mean squares of errors and of standard
errors over the trusted runs, in nats. *Seconds* are means that include compilation.

{sections}"""


def read(path: Path) -> list[dict]:
    """The records of a file, which must be of one set."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    if len({record["set"] for record in records}) != 1:
        raise SystemExit(f"{path} must have the runs of one set; development and fresh runs are never mixed.")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, help="a file that fresh.py wrote")
    parser.add_argument("--failures", action="store_true", help="list silent failures and runs without answer")
    parser.add_argument("--page", type=Path, help="write the documentation page here")
    arguments = parser.parse_args()
    records = read(arguments.runs)
    if arguments.page:
        arguments.page.write_text(markdown_page(records))
        return
    for method in dict.fromkeys(record["method"] for record in records):
        chosen = [record for record in records if record["method"] == method]
        print(f"{method}, {chosen[0]['set']} seeds\n\n{table_of(chosen)}")
        if arguments.failures:
            for record in chosen:
                if is_silent(record) or "error" in record:
                    print(_failure(record))


def _failure(record: Mapping) -> str:
    where = f"{record['family']}, seed {record['seed']}, {record['drawn']}"
    if "error" in record:
        return f"no answer: {where}: {record['error']}"
    error = record["estimate"] - record["truth"]
    return f"silent: {where}: {error:+.3f} ± {record['standard_error']:.3f}, {record['seconds']:.1f} s"


if __name__ == "__main__":
    main()
