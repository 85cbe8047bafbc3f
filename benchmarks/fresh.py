"""Random problems with exact evidences: runs of a method on seeds, one JSON line each.

    python benchmarks/fresh.py --seeds 0:20 --set development --minutes 30 --out runs.jsonl
    python benchmarks/fresh.py --seeds 0:5 --set development --method SMC --families counts,shares
    python benchmarks/fresh.py --seeds 1000000:1000100 --set fresh --workers 2 --out fresh.jsonl
    python benchmarks/fresh_table.py fresh.jsonl

A problem is a family (`fresh_families/`) and a seed. Development seeds are 0 to 99,999: look at
them as often as you like. Fresh seeds are 1,000,000 and above, for code that is frozen: each run is
recorded with the commit, and a file has the runs of one set, and of one commit if they are fresh.

Runs that a file has already are left out, so the same command goes on where it was stopped. Seeds
are taken in blocks, and in a block family by family, as problems of a family share compiled
programs; programs are also kept on disk (--cache). Each worker is a process that runs many
problems; one that takes longer than --limit seconds is stopped, and the run counts as "no answer".
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
SETS = {"development": range(100_000), "fresh": range(1_000_000, 2**31)}
BLOCK = 10  # seeds of a family, one after the other
MOST_MEMORY = 3_000_000_000  # bytes of a worker, above which compiled programs are dropped
FIRST_CALL = 60.0  # seconds for the start of a worker, beside the limit of a run


class Run(NamedTuple):
    """One run to be made."""

    family: str
    seed: int
    method: str

    @property
    def key(self) -> tuple[str, int, str]:
        return tuple(self)


def measure(run: Run) -> dict:
    """Estimate the evidence of one problem; the record without commit and set."""
    import warnings

    from fresh_families import draw

    import evidentia as ev

    problem = draw(run.family, run.seed)
    record = {**run._asdict(), "drawn": problem.drawn, "truth": problem.truth}
    method = "auto" if run.method == "auto" else getattr(ev, run.method)()
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ev.estimate(problem.model, problem.data or None, method=method, seed=run.seed)
    except Exception as error:  # also those that are no EvidentiaError, which is a finding
        record |= {"error": f"{type(error).__name__}: {error}"[:500]}
    else:
        record |= {
            "estimate": found.log_evidence,
            "standard_error": found.standard_error,
            "verdict": found.verdict.word,
            "signs": list(found.signs),
        }
    return record | {"seconds": round(time.perf_counter() - started, 3)}


def work(tasks: Connection, cache: str) -> None:
    """A worker: receives runs, returns records, until it receives None."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA writes long messages about cached programs
    import jax

    import evidentia as ev

    if cache != "off":
        ev.use_compilation_cache(cache)
    while (run := tasks.recv()) is not None:
        tasks.send(measure(run))
        if _memory() > MOST_MEMORY:
            jax.clear_caches()


def _memory() -> int:
    """Bytes of resident memory of this process; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


class Worker:
    """A process that makes one run at a time, and is replaced if it dies or takes too long."""

    def __init__(self, cache: str, limit: float):
        self.cache, self.limit = cache, limit
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, self.cache), daemon=True)
        self.process.start()
        other.close()
        self.run, self.started, self.allowance = None, 0.0, FIRST_CALL

    def give(self, run: Run) -> None:
        """Start a run."""
        self.run, self.started = run, time.monotonic()
        self.pipe.send(run)

    def result(self) -> dict | None:
        """The record of the run, if it has ended, was stopped or died."""
        run = self.run
        if run is None:
            return None
        seconds = time.monotonic() - self.started
        try:
            if self.pipe.poll():
                self.run, self.allowance = None, 0.0
                return self.pipe.recv()
            if seconds < self.limit + self.allowance:
                return None
            error = f"stopped after {self.limit:g} s"
        except (EOFError, OSError):
            error = "the process died"
        self.stop()
        self._start()
        return {**run._asdict(), "error": error, "seconds": round(seconds, 3), **_what(run)}

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()


def _what(run: Run) -> dict:
    """What a run that gave no answer was about."""
    from fresh_families import draw

    problem = draw(run.family, run.seed)
    return {"drawn": problem.drawn, "truth": problem.truth}


def runs_of(families: list[str], seeds: range, methods: list[str]) -> Iterator[Run]:
    """All runs: blocks of seeds, and in each block family by family."""
    for start in range(seeds.start, seeds.stop, BLOCK):
        for family in families:
            for method in methods:
                for seed in range(start, min(start + BLOCK, seeds.stop)):
                    yield Run(family, seed, method)


def commit() -> str:
    """The commit of the checkout; "+" if files of the package differ from it."""
    git = ["git", "-C", str(FOLDER)]
    name = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
    status = [*git, "status", "--porcelain", "--", "../src", "fresh_families"]
    changed = subprocess.run(status, capture_output=True, text=True, check=True)
    return name.stdout.strip() + ("+" if changed.stdout.strip() else "")


def earlier_runs(path: Path, kind: str, at: str) -> set[tuple[str, int, str]]:
    """Keys of the runs that a file has. Exits if it has another set, or fresh runs of other code."""
    if not path.exists():
        return set()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    if others := {record["set"] for record in records} - {kind}:
        raise SystemExit(f"--out {path} has runs of the set {others.pop()!r}: name another file for {kind!r}.")
    if kind == "fresh" and (others := {record["commit"] for record in records} - {at}):
        raise SystemExit(
            f"--out {path} has fresh runs of commit {others.pop()}; this is {at}. Name another file."
        )
    return {(record["family"], record["seed"], record["method"]) for record in records}


def drive(runs: Iterator[Run], workers: list[Worker], deadline: float, common: dict, out: Path) -> int:
    """Give runs to workers until they end or time is up; append each record at once."""
    count, is_open = 0, True
    with out.open("a") as file:
        while True:
            for worker in workers:
                if worker.run is None and is_open:
                    following = next(runs, None) if time.monotonic() < deadline else None
                    is_open = following is not None
                    if following is not None:
                        worker.give(following)
                if (record := worker.result()) is not None:
                    file.write(json.dumps(record | common) + "\n")
                    file.flush()
                    count += 1
            busy = [worker.pipe for worker in workers if worker.run is not None]
            if not busy and not is_open:
                return count
            wait(busy, timeout=1.0)


def _seeds(text: str, kind: str) -> range:
    try:
        start, stop = (int(part) for part in text.split(":"))
    except ValueError:
        raise SystemExit(f"--seeds must be two integers, as in 0:1000; got {text!r}.") from None
    allowed = SETS[kind]
    if not allowed.start <= start < stop <= allowed.stop:
        raise SystemExit(
            f"--seeds of the set {kind!r} must be within {allowed.start}:{allowed.stop}; got {text!r}."
        )
    return range(start, stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", required=True, help="first:end, the end not included")
    parser.add_argument("--set", required=True, choices=SETS, dest="kind")
    parser.add_argument("--method", default="auto", help="SGAIS, SMC, … with their defaults; commas")
    parser.add_argument("--families", help="names, with commas; all by default")
    parser.add_argument("--minutes", type=float, default=60.0, help="no run starts later")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a run")
    parser.add_argument("--cache", default=str(FOLDER.parent / ".cache" / "fresh"), help="a folder, or off")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    from fresh_families import FAMILIES

    import evidentia as ev

    seeds = _seeds(arguments.seeds, arguments.kind)
    families = arguments.families.split(",") if arguments.families else list(FAMILIES)
    methods = arguments.method.split(",")
    if unknown := set(families) - set(FAMILIES):
        raise SystemExit(f"--families has {', '.join(unknown)}; known are {', '.join(FAMILIES)}.")
    if unknown := [name for name in methods if name != "auto" and not hasattr(ev, name)]:
        raise SystemExit(f"--method has {', '.join(unknown)}, which evidentia does not have; try SGAIS.")
    at = commit()
    known = earlier_runs(arguments.out, arguments.kind, at)
    runs = (run for run in runs_of(families, seeds, methods) if run.key not in known)
    workers = [Worker(arguments.cache, arguments.limit) for _ in range(arguments.workers)]
    try:
        deadline = time.monotonic() + 60 * arguments.minutes
        count = drive(runs, workers, deadline, {"set": arguments.kind, "commit": at}, arguments.out)
    finally:
        for worker in workers:
            worker.stop()
    print(f"{count:,} runs; {len(known):,} were there before.")


if __name__ == "__main__":
    main()
