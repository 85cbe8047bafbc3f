"""Speed and accuracy of SGAIS() against a bare pass, SGAIS.published() and dynesty.

    python benchmarks/run.py                    # all problems: about 40 minutes on 2 cores
    python benchmarks/run.py --problems linear --seeds 2 --out somewhere.json

SGAIS.published() and dynesty run on the papers' models only. Each problem (`problems.py`) runs in
its own process, with all methods on the same data and compiled beforehand; the first call, with
compilation, has its own column. Results go to benchmarks/results/<date>.json, with a description
of the machine, and to docs/benchmarks.md.
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

from machine import describe_machine
from table import markdown_page, print_table

PROBLEMS = ["linear", "scaled_linear", "softmax", "student_t", "rare"]
PROBLEMS += [f"mixture_{seed}" for seed in range(5)] + ["ijcnn1", "skin_raw", "skin_standardised"]
# Numbers of rows at which the error is measured too, but for mixtures: with few rows these have
# many modes, and importance sampling about one of them is no truth.
MARKS = [500, 1000, 10_000, 100_000]
PEERS = {"linear": ["published", "dynesty"], "softmax": ["published"]}
FOLDER = Path(__file__).parent


def find_problem(name: str):
    """The problem of that name; None if its data are missing."""
    import problems

    if name.startswith("mixture_"):
        return problems.mixture(int(name.removeprefix("mixture_")))
    if name.startswith("skin_"):
        return problems.skin(standardised=name.endswith("standardised"))
    return getattr(problems, name)()


def measure(name: str, seeds: int, dynesty_limit: float) -> list[dict]:
    """Measure all methods on a problem: one record each."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from peers import Likelihood, bare_pass, run_dynesty
    from scipy.special import ndtri

    import evidentia as ev
    from evidentia.posterior.rows import Window

    warnings.simplefilter("ignore", ev.EvidenceWarning)  # diagnostics are in the records
    problem = find_problem(name)
    if problem is None:
        print(f"{name}: its table is missing, skipped", flush=True)
        return []
    model, data, bound = problem.model, problem.data, problem.model.bind(problem.data)
    size = len(next(iter(data.values())))
    is_mixture = name.startswith("mixture")
    marks = [mark for mark in MARKS if mark < size and not is_mixture] + [size]
    truths = {mark: problem.truth(problem.first(mark)) for mark in marks}
    rows = Window(jax.tree.map(jnp.asarray, data), 0, size)
    common = {
        "model": problem.name,
        "num_parameters": bound.num_parameters,
        "num_observations": size,
        "truth": truths[size][0],
        "truth_standard_error": truths[size][1],
        "truths": {str(mark): truth for mark, truth in truths.items()},
        "bound": problem.bound,
    }

    def estimate(method: ev.SGAIS, seed: int) -> ev.Evidence:
        # In order, since errors along the way are those of the first rows.
        return ev.estimate(model, data, method=method, seed=seed, in_order=True)

    def run(label: str, method: ev.SGAIS, repeats: int) -> dict:
        cold = math.nan
        if repeats > 1:  # a run of minutes is not repeated to time compilation
            cold = estimate(method, repeats).seconds
        runs = [estimate(method, seed) for seed in range(repeats)]
        seen = {
            str(mark): (mark, [run.trajectory for run in runs if mark in run.trajectory.num_observations])
            for mark in marks
        }
        return common | {
            "method": label,
            "seconds": [run.seconds for run in runs],
            "cold_seconds": None if math.isnan(cold) else cold,
            "errors": [run.log_evidence - truths[size][0] for run in runs],
            "standard_errors": [run.standard_error for run in runs],
            "trajectory_errors": {
                name: [path.at(mark)["log_evidence"] - truths[mark][0] for path in paths]
                for name, (mark, paths) in seen.items()
                if paths
            },
            "trajectory_standard_errors": {
                name: [path.at(mark)["standard_error"] for path in paths]
                for name, (mark, paths) in seen.items()
                if paths
            },
            "warnings": [run.diagnostics["warnings"] for run in runs],
        }

    records = [run("SGAIS()", ev.SGAIS(), seeds)]
    passes = [bare_pass(bound, rows, ev.SGAIS().num_particles) for _ in range(3)]
    records.insert(0, common | {"method": "bare pass", "seconds": [min(passes)]})
    if "published" in PEERS.get(name, []):
        records.append(run("SGAIS.published()", ev.SGAIS.published(), 1))
    if "dynesty" in PEERS.get(name, []):
        likelihood = Likelihood(bound, rows.arrays)
        likelihood.one(np.zeros(bound.num_parameters))  # compiles
        started = time.perf_counter()
        # The parameters of that problem have independent N(0, 1) priors, so ndtri maps the unit
        # cube.
        log_evidence, standard_error, _ = run_dynesty(
            likelihood, ndtri, num_live=250, seed=0, limit_seconds=dynesty_limit
        )
        seconds = time.perf_counter() - started
        finished = not math.isnan(log_evidence)
        records.append(
            common
            | {
                "method": "dynesty",
                "seconds": [seconds],
                "finished": finished,
                "errors": [log_evidence - truths[size][0]] if finished else [],
                "standard_errors": [standard_error] if finished else [],
            }
        )
    print_table(records, header=name == PROBLEMS[0])
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--seeds", type=int, default=10, help="runs of SGAIS(); one for each mixture")
    parser.add_argument(
        "--dynesty-limit", type=float, default=200, help="seconds after which dynesty is stopped"
    )
    parser.add_argument("--out", type=Path, help="write the JSON here, and no page")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        records = measure(arguments.worker, arguments.seeds, arguments.dynesty_limit)
        arguments.out.write_text(json.dumps(records))
        return
    records = []
    for name in arguments.problems:
        part = FOLDER / "results" / f".{name}.json"
        seeds = 1 if name.startswith("mixture") else arguments.seeds
        options = ["--worker", name, "--out", str(part), "--seeds", str(seeds)]
        options += ["--dynesty-limit", str(arguments.dynesty_limit)]
        subprocess.run([sys.executable, __file__, *options], check=True)
        records += json.loads(part.read_text())
        part.unlink()
    today = datetime.date.today().isoformat()
    results = {"date": today, "machine": describe_machine(), "records": records}
    out = arguments.out or FOLDER / "results" / f"{today}.json"
    out.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.out is None:
        (FOLDER.parent / "docs" / "benchmarks.md").write_text(markdown_page(results, out.name))


if __name__ == "__main__":
    main()
