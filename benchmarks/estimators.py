"""Every estimator and every peer on the same four small problems: cost and error.

    python benchmarks/estimators.py                     # everything: an hour or two on 2 cores
    python benchmarks/estimators.py --problems scale --methods SGAIS dynesty --seeds 1 --out x.json

Each method runs in its own process for each problem (`small_problems.py`). The process is stopped
at the time limit, and the runs it finished count. Methods that are not installed are skipped.
Results go to benchmarks/results/estimators-<date>.json, with a description of the machine, and
into the tables of docs/choosing.md; `--page results.json` rewrites these without measuring.
"""

import argparse
import datetime
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from estimators_table import print_record, write_page
from machine import describe_machine

PROBLEMS = ["linear", "scale", "mixture", "softmax"]
OURS = ["SGAIS", "SMC", "AIS", "NestedSampling", "OnlineNestedSampling", "Sequential"]
OURS += ["Laplace", "HarmonicMean", "PriorSampling"]
PEERS = {  # the package each needs
    "dynesty": "dynesty",
    "nautilus": "nautilus",
    "ultranest": "ultranest",
    "blackjax": "blackjax",
    "pymc": "pymc",
}
TRUTH = "truth"
FOLDER = Path(__file__).parent


def find_runner(problem, method: str):
    """Return a function that runs the method once with a given seed."""
    import peers
    import tempered_peers

    import evidentia as ev

    if method in PEERS:
        prepare = getattr(peers, method, None) or getattr(tempered_peers, method)
        return prepare(problem)
    configuration = getattr(ev, method)()

    def run(seed: int) -> peers.PeerRun:
        found = ev.estimate(problem.model, problem.data, method=configuration, seed=seed)
        return peers.PeerRun(float(found.log_evidence), float(found.standard_error), None)

    return run


def work(name: str, method: str, num_runs: int, out: Path) -> None:
    """Write one line per run to `out` as it finishes, or one line for the truth."""
    from small_problems import SMALL_PROBLEMS, check_quantiles

    import evidentia as ev

    warnings.simplefilter("ignore", ev.EvidenceWarning)  # the errors are measured here
    problem = SMALL_PROBLEMS[name]()
    with out.open("a") as file:
        if method == TRUTH:
            check_quantiles(problem)
            log_evidence, standard_error = problem.truth(problem.data)
            record = {
                "log_evidence": float(log_evidence),
                "standard_error": float(standard_error),
                "num_parameters": problem.model.bind(problem.data).num_parameters,
                "num_observations": len(next(iter(problem.data.values()))),
            }
            print(json.dumps(record), file=file)
            return
        run = find_runner(problem, method)
        for seed in range(num_runs):
            started = time.perf_counter()
            result = run(seed)
            seconds = time.perf_counter() - started
            print(json.dumps(result._asdict() | {"seconds": seconds}), file=file, flush=True)


def measure(name: str, method: str, num_runs: int, limit: float) -> tuple[list[dict], str]:
    """Run a method in its own process; return its finished runs and why it stopped early."""
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder) / "runs", Path(folder) / "errors"
        options = ["--worker", name, method, "--seeds", str(num_runs), "--out", str(out)]
        with errors.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, __file__, *options],
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,  # so that its child processes stop too
            )
            stopped = ""
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                stopped = f"stopped after {limit:g} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode and not stopped:
            lines = errors.read_text().strip().splitlines()
            stopped = f"failed: {lines[-1] if lines else process.returncode}"
        runs = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return runs, stopped


def available(methods: list[str]) -> list[str]:
    """Return the available methods and print the missing ones."""
    import evidentia as ev

    found = []
    for method in methods:
        if method in PEERS and importlib.util.find_spec(PEERS[method]) is None:
            print(f"{method}: not installed, skipped")
        elif method in OURS and not hasattr(ev, method):
            print(f"ev.{method}: not in this version of evidentia, skipped")
        else:
            found.append(method)
    return found


def measure_all(problems: list[str], methods: list[str], seeds: int, limit: float) -> Iterator[dict]:
    """Yield one record for each problem and method as it finishes."""
    methods = available(methods)
    for name in problems:
        truths, stopped = measure(name, TRUTH, 1, 3600)
        if not truths:
            raise SystemExit(f"{name}: no truth, {stopped}")
        for method in methods:
            runs, stopped = measure(name, method, seeds + 1, limit)
            record = {"problem": name, "method": method, "peer": method in PEERS, "truth": truths[0]}
            yield record | {"runs": runs, "stopped": stopped}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--methods", nargs="+", default=OURS + list(PEERS), choices=OURS + list(PEERS))
    parser.add_argument("--seeds", type=int, default=5, help="runs after the first, which compiles")
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds for all runs of a method on a problem"
    )
    parser.add_argument("--out", type=Path, help="write the JSON here, and no page")
    parser.add_argument("--page", type=Path, help="write the page from this JSON without measuring")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker, arguments.seeds, arguments.out)
        return
    page = FOLDER.parent / "docs" / "choosing.md"
    if arguments.page:
        write_page(page, json.loads(arguments.page.read_text()), arguments.page.name)
        return
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that the current child process is stopped too
    today = datetime.date.today().isoformat()
    out = arguments.out or FOLDER / "results" / f"estimators-{today}.json"
    results = {"date": today, "machine": describe_machine(), "limit": arguments.limit, "records": []}
    for record in measure_all(arguments.problems, arguments.methods, arguments.seeds, arguments.limit):
        print_record(record)
        results["records"].append(record)
        out.write_text(json.dumps(results, indent=1) + "\n")  # after each record: the run may be interrupted
    if arguments.out is None:
        write_page(page, results, out.name)


if __name__ == "__main__":
    main()
