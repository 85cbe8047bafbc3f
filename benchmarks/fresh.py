"""Problems with exact evidences that nobody has seen: a method on families drawn by a seed.

    python benchmarks/fresh.py --seeds 0:1000 --minutes 30 --workers 2 --out development.jsonl
    python benchmarks/fresh.py --seeds 1000000:1003000 --out benchmarks/results/fresh.jsonl
    python benchmarks/fresh.py --seeds 0:5000 --method "SMC(chain_length=1)" --families peaks,ring
    python benchmarks/fresh.py --page     # docs/gauntlet-fresh.md of results/fresh*.jsonl

Seed s is problem s of family number s mod F (`fresh_families/`). Seeds below 1,000,000 are for
development; from there on they are *fresh*, for code that was frozen before: one call takes one
kind. Each run is one line of the file, written at once; runs that are in the file are not
repeated. A run that takes longer than --limit is stopped and counts as no answer. Each worker is a
process that keeps its compiled programs, also on disk; one above 3 GB is replaced.
"""

import argparse
import ast
import contextlib
import datetime
import json
import multiprocessing
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from fresh_table import FRESH_FROM, markdown_page, summary_of
from machine import describe_machine

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
MOST_MEMORY = 3e9  # bytes of a worker
MOST_CORES = 1  # of a worker's linear algebra


class Worker(NamedTuple):
    """A process, its connection, and what it runs since when."""

    process: Any
    connection: Connection
    seed: int | None
    since: float


def method_of(text: str) -> Any:
    """A method of evidentia by its name, with literal arguments: "SMC(num_particles=64)"."""
    import evidentia as ev

    call = ast.parse(text if text.endswith(")") else f"{text}()", mode="eval").body
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or call.args:
        raise SystemExit(f"--method must be a method's name, with arguments by name if any; got {text!r}.")
    return getattr(ev, call.func.id)(
        **{each.arg or "": ast.literal_eval(each.value) for each in call.keywords}
    )


def run_once(family: str, seed: int, method: Any) -> dict[str, Any]:
    """One run: the problem that a seed draws, its truth and what the method finds."""
    from fresh_families import draw

    problem = draw(family, seed)
    record = {"family": family, "seed": seed, "drawn": problem.drawn, "truth": float(problem.truth)}
    return record | result_of(problem.model, problem.data, method, seed)


def result_of(model: Any, data: Any, method: Any, seed: int) -> dict[str, Any]:
    """What a method finds, or the error that it raises, and the seconds."""
    import evidentia as ev

    is_exact = isinstance(model, ev.Regression) and model.is_exact
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = ev.estimate(model, data, method="auto" if is_exact else method, seed=seed % 2**31)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return {"failed": text[:500], "seconds": round(time.perf_counter() - started, 3)}
    return {
        "log_evidence": found.log_evidence,
        "standard_error": found.standard_error,
        "verdict": found.verdict.word,
        "signs": sorted(found.signs),
        "seconds": round(time.perf_counter() - started, 3),
    }


def serve(connection: Connection, text: str, cache: str) -> None:
    """A worker: takes (family, seed), answers with a record and the memory in bytes."""
    import evidentia as ev

    # Loading programs from disk prints false alarms about the processor, thousands of lines.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    ev.use_compilation_cache(cache)
    method = method_of(text)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            family, seed = connection.recv()
            connection.send((run_once(family, seed, method), _memory()))


def _memory() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def started_worker(text: str, cache: str) -> Worker:
    """A new process that waits for work."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=serve, args=(its, text, cache), daemon=True)
    process.start()
    its.close()
    return Worker(process, mine, None, 0.0)


def stopped(worker: Worker) -> None:
    """End a process that this program started."""
    worker.process.kill()
    worker.process.join()
    worker.connection.close()


def records_of(seeds: Iterable[int], names: list[str], options: argparse.Namespace) -> Iterable[dict]:
    """Records in the order of their ends; families are shared out among the workers."""
    ends = time.monotonic() + 60 * options.minutes
    pending = dict.fromkeys(seeds)
    workers = [started_worker(options.method, options.cache) for _ in range(options.workers)]
    try:
        while True:
            for number, worker in enumerate(workers):
                if worker.seed is None and pending and time.monotonic() < ends:
                    own = (s for s in pending if s % len(names) % options.workers == number)
                    seed = next(own, next(iter(pending)))
                    del pending[seed]
                    worker.connection.send((names[seed % len(names)], seed))
                    workers[number] = worker._replace(seed=seed, since=time.monotonic())
            busy = [worker.connection for worker in workers if worker.seed is not None]
            if not busy:
                return
            wait(busy, timeout=1.0)
            for number, worker in enumerate(workers):
                record, is_alive = answer_of(worker, names, options.limit)
                if record is not None:
                    yield record
                    workers[number] = worker._replace(seed=None)
                if not is_alive:
                    stopped(worker)
                    workers[number] = started_worker(options.method, options.cache)
    finally:
        for worker in workers:
            stopped(worker)


def answer_of(worker: Worker, names: list[str], limit: float) -> tuple[dict | None, bool]:
    """The record of a run that ended or was too long, and whether the worker can take another."""
    if worker.seed is None:
        return None, True
    seconds = time.monotonic() - worker.since
    if worker.connection.poll():
        try:
            record, memory = worker.connection.recv()
            return record, memory < MOST_MEMORY
        except (EOFError, OSError):
            failed = "the process died"
    elif seconds > limit:
        failed = f"stopped after {limit:g} s"
    else:
        return None, True
    record = {"family": names[worker.seed % len(names)], "seed": worker.seed, "failed": failed}
    return record | {"seconds": round(seconds, 3)}, False


def commit_of_source() -> str:
    """The commit of the code, with "+" if the library's or the families' files differ from it."""
    at = FOLDER.parent
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=at, capture_output=True, text=True, check=False
    )
    changed = subprocess.run(
        ["git", "status", "--porcelain", "src", "benchmarks/fresh_families"],
        cwd=at,
        capture_output=True,
        text=True,
        check=False,
    )
    return (found.stdout.strip() or "unknown") + ("+" if changed.stdout.strip() else "")


def seeds_of(text: str) -> range:
    """Seeds "from:below", of one kind."""
    first, _, below = text.partition(":")
    seeds = range(int(first), int(below) if below else int(first) + 1)
    if seeds and (seeds[0] < FRESH_FROM) != (seeds[-1] < FRESH_FROM):
        raise SystemExit(f"--seeds must be all below {FRESH_FROM:,} or none; got {text}.")
    return seeds


def read_records(path: Path) -> list[dict]:
    """The lines of a file, without one that was cut off."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def write_page() -> None:
    """The documentation page, of all files of results."""
    records = [record for path in sorted(RESULTS.glob("fresh*.jsonl")) for record in read_records(path)]
    (FOLDER.parent / "docs" / "gauntlet-fresh.md").write_text(markdown_page(records, describe_machine()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="0:1000", help="from:below; 0:1000 by default")
    parser.add_argument("--method", default="SGAIS", help="SGAIS by default")
    parser.add_argument("--families", help="names, with commas; all by default")
    parser.add_argument("--minutes", type=float, default=30.0, help="no run starts later")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a run")
    parser.add_argument("--out", type=Path, default=Path("fresh.jsonl"))
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "evidentia-fresh-programs"))
    parser.add_argument("--page", action="store_true", help="write the page of the results and end")
    options = parser.parse_args()
    if options.page:
        write_page()
        return
    from fresh_families import FAMILIES

    names = list(FAMILIES)
    asked = options.families.split(",") if options.families else names
    if unknown := set(asked) - set(names):
        raise SystemExit(f"--families must be among {', '.join(names)}; got {', '.join(sorted(unknown))}.")
    method_of(options.method)
    known = {(each["method"], each["seed"]) for each in read_records(options.out)}
    seeds = [
        seed
        for seed in seeds_of(options.seeds)
        if names[seed % len(names)] in asked and (options.method, seed) not in known
    ]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(MOST_CORES))
    about = {
        "method": options.method,
        "commit": commit_of_source(),
        "date": datetime.date.today().isoformat(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    records = []
    with options.out.open("a") as lines:
        for record in records_of(seeds, names, options):
            records.append(record | about)
            lines.write(json.dumps(records[-1]) + "\n")
            lines.flush()
    print(summary_of(records))


if __name__ == "__main__":
    main()
