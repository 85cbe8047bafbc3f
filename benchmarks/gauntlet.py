"""The default method on problems of every shape: coverage, error, seconds, and silent failures.

    python benchmarks/gauntlet.py                       # all problems, 20 seeds: an hour
    python benchmarks/gauntlet.py --problems "ridge, 100 rows" --seeds 3 --out somewhere.json
    python benchmarks/gauntlet.py --problems "shells, 2" --into benchmarks/results/gauntlet.json
    python benchmarks/gauntlet.py --truths              # truths that need long runs: hours

A *silent failure* is an error above 4 standard errors and above 0.1 nats without a
`DiagnosticWarning`. Each problem (`gauntlet_problems/`) runs in a process of its own. Results go
to benchmarks/results/gauntlet.json, with a description of the machine, and to docs/gauntlet.md.
"""

import argparse
import datetime
import json
import math
import subprocess
import sys
import time
import warnings
from pathlib import Path

from gauntlet_table import markdown_page, summary_of
from machine import describe_machine

FOLDER = Path(__file__).parent
TRUTHS = FOLDER / "results" / "gauntlet_truths.json"
LONG_RUNS = 4


def measure(name: str, seeds: int) -> dict:
    """Run the default method with several seeds; the first run compiles."""
    from gauntlet_problems import PROBLEMS

    import evidentia as ev

    problem = PROBLEMS[name]()
    truth, truth_error = problem.truth, problem.truth_error
    if math.isnan(truth):
        truth, truth_error = _long_truths().get(name, (math.nan, math.nan))
    runs = []
    for seed in range(seeds):
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ev.DiagnosticWarning)
            try:
                found = ev.estimate(problem.model, problem.data or None, seed=seed)
            except ev.EvidentiaError as error:
                runs.append({"seed": seed, "failed": f"{type(error).__name__}: {error}"})
                continue
        runs.append(
            {
                "seed": seed,
                "log_evidence": found.log_evidence,
                "standard_error": found.standard_error,
                "seconds": time.perf_counter() - started,
                "signs": list(found.signs),
                "warned": any(issubclass(each.category, ev.DiagnosticWarning) for each in caught),
            }
        )
    return {"name": name, "truth": truth, "truth_error": truth_error, "runs": runs}


def measure_truth(name: str) -> dict:
    """The log evidence by many particles along the path with exact moves: mean and its error."""
    from gauntlet_problems import PROBLEMS

    import evidentia as ev

    warnings.simplefilter("ignore")
    problem, found = PROBLEMS[name](), {}
    methods = {
        "rows in sequence": ev.SGAIS(
            num_particles=4096, refresh=False, gradient=ev.gradients.FullBatch(), target_ess=0.9
        ),
        "all rows, tempered": ev.SMC(
            num_particles=4096, chain_length=1, target_ess=0.9, kernel=ev.kernels.HMC(num_trajectories=8)
        ),
    }
    for label, method in methods.items():
        runs = [
            ev.estimate(problem.model, problem.data, method=method, seed=1000 + seed).log_evidence
            for seed in range(LONG_RUNS)
        ]
        found[label] = runs
    return {"name": name, "runs": found}


def _long_truths() -> dict[str, tuple[float, float]]:
    """The mean of both methods, and the larger of its standard error and half their distance."""
    if not TRUTHS.exists():
        return {}
    truths = {}
    for name, by_method in json.loads(TRUTHS.read_text()).items():
        means = [sum(runs) / len(runs) for runs in by_method.values()]
        spread = [
            math.sqrt(sum((run - mean) ** 2 for run in runs) / (len(runs) - 1) / len(runs))
            for mean, runs in zip(means, by_method.values(), strict=True)
        ]
        error = max(math.hypot(*spread) / 2, abs(means[0] - means[1]) / 2)
        truths[name] = (sum(means) / 2, error)
    return truths


def _in_own_process(name: str, options: list[str], limit: float) -> dict:
    command = [sys.executable, __file__, "--worker", name, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"name": name, "stopped": f"stopped after {limit:g} s", "runs": []}
    if done.returncode:
        last = (done.stderr.strip() or "killed").splitlines()[-1]
        return {"name": name, "stopped": f"failed: {last}", "runs": []}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problems", nargs="*", help="names; all by default")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each problem")
    parser.add_argument("--out", type=Path, default=FOLDER / "results" / "gauntlet.json")
    parser.add_argument(
        "--into", type=Path, help="replace these problems in earlier results, and write the page"
    )
    parser.add_argument("--truths", action="store_true", help="measure the truths that need long runs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work = measure_truth if arguments.truths else lambda name: measure(name, arguments.seeds)
        print(json.dumps(work(arguments.worker)))
        return
    from gauntlet_problems import FAMILIES, LONG, PROBLEMS

    names = arguments.problems or list(LONG if arguments.truths else PROBLEMS)
    options = ["--seeds", str(arguments.seeds), *(["--truths"] if arguments.truths else [])]
    results = {"date": datetime.date.today().isoformat(), "machine": describe_machine(), "records": []}
    records = results["records"]
    for name in names:
        record = _in_own_process(name, options, arguments.limit)
        records.append(record | {"date": results["date"], "processor": results["machine"]["processor"]})
        print(summary_of(records[-1]), flush=True)
        if not arguments.truths and not arguments.into:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.truths:
        known = json.loads(TRUTHS.read_text()) if TRUTHS.exists() else {}
        known |= {record["name"]: record["runs"] for record in records if record["runs"]}
        TRUTHS.write_text(json.dumps(known, indent=1) + "\n")
        return
    if arguments.into:
        known = json.loads(arguments.into.read_text())
        others = [each for each in known["records"] if each["name"] not in names]
        results = known | {
            "records": sorted([*others, *records], key=lambda each: list(PROBLEMS).index(each["name"]))
        }
        arguments.into.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.into or not arguments.problems:
        page = markdown_page(results, {name: family for family, names in FAMILIES.items() for name in names})
        (FOLDER.parent / "docs" / "gauntlet.md").write_text(page)


if __name__ == "__main__":
    main()
