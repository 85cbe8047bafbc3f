"""Crossed effects at scale: log evidence, error, seconds and memory.

    python benchmarks/crossed.py                   # two minutes on 2 cores
    python benchmarks/crossed.py --only films      # 10⁶ ratings, simulated

Each problem runs in a process of its own, with one thread of linear algebra. Levels of simulated
factors have numbers of rows as uneven as those of real ratings.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import evidentia as ev

TABLES = Path(__file__).parents[2] / "shared" / "data" / "tables"


def simulated(rows: int, users: int, items: int, seed: int = 0) -> pd.DataFrame:
    """Ratings of items by users, both chosen with uneven probabilities."""
    generator = np.random.default_rng(seed)
    shares = generator.gamma(1.0, 1.0, users) + 0.1, generator.gamma(0.5, 1.0, items) + 0.05
    a, b = (generator.choice(len(one), rows, p=one / one.sum()) for one in shares)
    x = generator.normal(size=rows)
    effects = 0.45 * generator.normal(size=users)[a] + 0.6 * generator.normal(size=items)[b]
    y = 3.5 + 0.1 * x + effects + 0.9 * generator.normal(size=rows)
    return pd.DataFrame({"y": y, "x": x, "a": a, "b": b})


def lecturers() -> tuple[str, pd.DataFrame]:
    """Ratings of 1,128 lecturers by 2,972 students (InstEval of lme4), or as many simulated."""
    path = TABLES / "InstEval.parquet"
    if path.exists():
        return "y ~ service + (1 | s) + (1 | d)", pd.read_parquet(path)
    return "y ~ x + (1 | a) + (1 | b)", simulated(73_421, 2_972, 1_128)


def departments() -> tuple[str, pd.DataFrame]:
    """The same with a third factor, and slopes of students."""
    path = TABLES / "InstEval.parquet"
    if path.exists():
        return "y ~ service + (service | s) + (1 | d) + (1 | dept)", pd.read_parquet(path)
    found = simulated(73_421, 2_972, 1_128)
    return "y ~ x + (x | a) + (1 | b) + (1 | c)", found.assign(c=found["b"] % 14)


def films() -> tuple[str, pd.DataFrame]:
    """As many ratings, users and films as MovieLens 1M has."""
    return "y ~ x + (1 | a) + (1 | b)", simulated(1_000_000, 6_040, 3_700)


PROBLEMS = {"lecturers": lecturers, "departments": departments, "films": films}


def run(name: str, seeds: int) -> None:
    """Print a row for each seed."""
    formula, table = PROBLEMS[name]()
    for seed in range(seeds):
        started, spent = time.perf_counter(), time.process_time()
        found = ev.estimate(ev.Regression(formula, prior="normal"), table, seed=seed)
        seconds, spent = time.perf_counter() - started, time.process_time() - spent
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        value = f"{found.log_evidence:,.3f} ± {found.standard_error:.3f} | {found.verdict.word}"
        print(
            f"| {name} | `{formula}` | {len(table):,} | {value} | {seconds:.0f} | {spent:.0f} | {memory:.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=list(PROBLEMS), help="one problem, in this process")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.only:
        run(arguments.only, arguments.seeds)
        return
    print("| problem | formula | rows | log evidence | verdict | seconds | of a core | GiB |", flush=True)
    print("|---|---|--:|--:|---|--:|--:|--:|", flush=True)
    for name in PROBLEMS:
        command = [sys.executable, __file__, "--only", name, "--seeds", str(arguments.seeds)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
