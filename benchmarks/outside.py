"""The first problems that came from outside, on many seeds: right, or warned about?

    python benchmarks/outside.py --seeds 20 --minutes 60
    python benchmarks/outside.py --page     # docs/outside.md of results/outside.jsonl

The seeds are those of the estimate. Runs that are in the file are not repeated.
"""

import argparse
import json
import time
from pathlib import Path

from fresh import FOLDER, RESULTS, commit_of_source, read_records, result_of
from fresh_table import table_of
from machine import describe_machine
from outside_problems import PROBLEMS

import evidentia as ev

FILE = RESULTS / "outside.jsonl"


def page_of(records: list[dict]) -> str:
    """The documentation page."""
    missing = [name for name in PROBLEMS if name not in {record["family"] for record in records}]
    machine, commits = describe_machine(), ", ".join(sorted({record["commit"] for record in records}))
    return (
        "# The first problems from outside\n\n"
        "Problems on which an earlier version was silently wrong, by up to hundreds of nats, with other seeds of the estimate:\n"
        "`python benchmarks/outside.py` (data and truths are in `outside_problems.py`). *Silent failures* are trusted and off by more than four\n"
        'standard errors and 0.1 nats; *warned* are those with a sign. "Random likelihood" has no right answer: its function returns\n'
        f"another number at each call. Code at {commits}, on {machine['processor']}. Not run on it: {', '.join(missing) or 'none'}.\n\n"
        + table_of(records)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", help="names, with semicolons; all by default")
    parser.add_argument("--minutes", type=float, default=60.0, help="no run starts later")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--cache", help="folder of compiled programs")
    parser.add_argument("--page", action="store_true", help="write the page of the results and end")
    options = parser.parse_args()
    if options.page:
        (FOLDER.parent / "docs" / "outside.md").write_text(page_of(read_records(FILE)))
        return
    if options.cache:
        ev.use_compilation_cache(options.cache)
    done = {(record["family"], record["seed"]) for record in read_records(options.out)}
    ends, commit = time.monotonic() + 60 * options.minutes, commit_of_source()
    with options.out.open("a") as lines:
        for name in options.problems.split(";") if options.problems else PROBLEMS:
            problem = PROBLEMS[name]()
            for seed in range(options.seeds):
                if (name, seed) in done or time.monotonic() > ends:
                    continue
                record = {"family": name, "seed": seed, "truth": problem.truth, "commit": commit}
                found = result_of(problem.model, problem.data, "auto", seed)
                lines.write(json.dumps(record | found) + "\n")
                lines.flush()


if __name__ == "__main__":
    main()
