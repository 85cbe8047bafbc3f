"""Speed and accuracy side by side: SGAIS(), SGAIS.published(), dynesty and a bare pass, on the papers' models.

    python benchmarks/run.py                              # all models and sizes: about 15 minutes on 2 cores
    python benchmarks/run.py --models linear --sizes 10000 --seeds 2 --out somewhere.json

Each model runs in a process of its own. Everything in a row of the table is measured in that process, on the same data,
compiled beforehand (the compile time is a column of its own). Results go to benchmarks/results/<date>.json with the
machine's description, and to docs/benchmarks.md.
"""

import argparse
import datetime
import json
import math
import subprocess
import sys
import time
from pathlib import Path

from machine import describe_machine
from table import markdown_page, print_table

SIZES = [10_000, 100_000, 1_000_000]
SEEDS = {
    "linear": 20,
    "softmax": 5,
}  # runs of SGAIS() for each model; the slower published settings get 3 at most
MODELS = list(SEEDS)
FOLDER = Path(__file__).parent


def measure(name: str, sizes: list[int], seeds: int, dynesty_limit: float) -> list[dict]:
    """One record per size and method."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from peers import bare_pass, dynesty
    from reference import importance_sampling

    import evidentia as ev
    from evidentia.rows import Rows

    model = {
        "linear": ev.models.linear_regression(num_features=5),
        "softmax": ev.models.softmax_regression(num_features=10, num_classes=4),
    }[name]
    data, _ = model.simulate(max(sizes), 0)
    bound = model.bind(data)
    records, finished = [], True
    for size in sizes:
        part = {key: array[:size] for key, array in data.items()}
        rows = Rows(jax.tree.map(jnp.asarray, part), 0, size)
        if model.exact_log_evidence is not None:
            truth, truth_error = model.exact_log_evidence(part), 0.0
        else:
            truth, truth_error = importance_sampling(bound, rows, np.zeros(bound.num_parameters))
        common = {
            "model": name,
            "num_parameters": bound.num_parameters,
            "num_observations": size,
            "truth": truth,
            "truth_standard_error": truth_error,
        }
        passes = [bare_pass(bound, rows, ev.SGAIS().num_particles) for _ in range(3)]
        records.append(common | {"method": "bare pass", "seconds": [min(passes)]})
        for label, method in {"SGAIS()": ev.SGAIS(), "SGAIS.published()": ev.SGAIS.published()}.items():
            started = time.perf_counter()
            ev.estimate(model, part, method=method, seed=seeds)
            cold = time.perf_counter() - started
            repeats = seeds if label == "SGAIS()" else min(seeds, 3)
            runs = [ev.estimate(model, part, method=method, seed=seed) for seed in range(repeats)]
            records.append(
                common
                | {
                    "method": label,
                    "seconds": [run.seconds for run in runs],
                    "cold_seconds": cold,
                    "errors": [run.log_evidence - truth for run in runs],
                    "standard_errors": [run.standard_error for run in runs],
                    "trajectory_errors": _trajectory_errors(model, part, runs, sizes),
                }
            )
        if finished:
            log_evidence, standard_error, seconds = dynesty(bound, rows, limit_seconds=dynesty_limit)
            finished = not math.isnan(log_evidence)
            records.append(
                common
                | {
                    "method": "dynesty",
                    "seconds": [seconds],
                    "finished": finished,
                    "errors": [log_evidence - truth] if finished else [],
                    "standard_errors": [standard_error] if finished else [],
                }
            )
        else:  # where it has not finished on fewer rows it would not on more
            records.append(common | {"method": "dynesty", "seconds": [], "finished": False})
        print_table(records[-4:], header=size == sizes[0])
    return records


def _trajectory_errors(model, data, runs, sizes) -> dict[str, list[float]]:
    """Errors at the sizes on the way, where the exact value is known."""
    if model.exact_log_evidence is None:
        return {}
    total = runs[0].num_observations
    errors = {}
    for n in [500, 1000, *(size for size in sizes if size < total)]:
        exact = model.exact_log_evidence({name: array[:n] for name, array in data.items()})
        errors[str(n)] = [run.trajectory.at(n)["log_evidence"] - exact for run in runs]
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument(
        "--seeds", type=int, help="runs of SGAIS(), by default 20 for linear and 5 for softmax"
    )
    parser.add_argument(
        "--dynesty-limit", type=float, default=120, help="seconds after which dynesty is stopped"
    )
    parser.add_argument("--out", type=Path, help="where the JSON goes; no page is written then")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        records = measure(arguments.worker, arguments.sizes, arguments.seeds, arguments.dynesty_limit)
        arguments.out.write_text(json.dumps(records))
        return
    records = []
    for name in arguments.models:
        part = FOLDER / "results" / f".{name}.json"
        options = ["--worker", name, "--out", str(part), "--seeds", str(arguments.seeds or SEEDS[name])]
        options += ["--dynesty-limit", str(arguments.dynesty_limit), "--sizes", *map(str, arguments.sizes)]
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
