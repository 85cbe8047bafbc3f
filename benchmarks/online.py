"""`Online` against data in memory: is an update's cost flat, and is the log evidence the same?

    python benchmarks/online.py                          # half an hour on 2 cores
    python benchmarks/online.py --parts flat --rows 1e7

  flat       The linear model on a simulated stream: median seconds of an update and resident
             memory, in each tenth of the updates from row 10,000 on. Target: last over first at
             most 1.2 (time) and 1.05 (memory).
  files      `evidentia estimate`, in its own process, on Parquet files of the linear model
             (written by generate_rows.py if missing): rows per second, also of reading alone,
             peak memory (target: below 2 GiB at 10⁸ rows), and error against the exact log
             evidence, from float64 sums over all rows.
  agreement  The papers' three models at 10⁶ rows: `Online` with a reservoir of 10⁵ against
             `estimate`. Target: differences below two joint standard errors.

Results go to benchmarks/results/online.json, with a description of the machine, and to
docs/benchmarks-online.md.
"""

import argparse
import datetime
import json
import math
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from detection_page import with_detection
from generate_rows import generate_rows
from machine import describe_machine
from online_page import online_page
from reading import measure_reading

import evidentia as ev

FOLDER = Path(__file__).resolve().parent
KEPT = FOLDER / "results" / "online.json"
DETECTION = KEPT.with_name("detection.json")
MODELS = {
    "linear": ev.models.linear_regression(num_features=5),
    "softmax": ev.models.softmax_regression(num_features=10, num_classes=4),
    "mixture": ev.models.gaussian_mixture(num_components=5, num_features=2),
}


def resident_bytes() -> int:
    """Resident memory of the process, or its peak where the system reports only that."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def flat(num_rows: int, batch_size: int) -> dict:
    """Seconds and memory of updates in each tenth of the stream."""
    online = ev.Online(MODELS["linear"], seed=0)
    generator = np.random.default_rng(0)
    weights, seconds, memory = generator.standard_normal(5).astype(np.float32), [], []
    while online.num_observations < num_rows:
        x = generator.standard_normal((batch_size, 5), np.float32)
        y = x @ weights + generator.standard_normal(batch_size, np.float32)
        update = online.update({"x": x, "y": y})
        if update.num_observations >= 10_000:
            seconds.append(update.seconds)
            if len(seconds) % 100 == 1:
                memory.append(resident_bytes())
    tenths = [float(np.median(part)) for part in np.array_split(seconds, 10)]
    held = [float(np.median(part)) for part in np.array_split(memory, 10)]
    return {
        "rows": online.num_observations,
        "batch_size": batch_size,
        "median_seconds": tenths,
        "resident_bytes": held,
        "total_seconds": float(np.sum(seconds)),
        "time_ratio": tenths[-1] / tenths[0],
        "memory_ratio": held[-1] / held[0],
    }


def files(folder: Path, num_rows: int) -> dict:
    """Rate, memory and error of the command on files larger than memory."""
    if not folder.exists():
        generate_rows(folder, num_rows, num_rows // 100)
    pattern = f"{folder}/*.parquet"
    columns = {"x": [f"x{index}" for index in range(5)], "y": "y"}
    reading = measure_reading(ev.read_parquet(pattern, columns))
    command = [
        sys.executable,
        "-m",
        "evidentia",
        "estimate",
        pattern,
        "--model",
        "linear",
        "--target",
        "y",
        "--json",
        "--quiet",
    ]
    started = time.perf_counter()
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - started
    (found,) = json.loads(printed)["evidences"].values()
    return {
        "rows": found["num_observations"],
        "seconds": seconds,
        "rows_per_second": found["num_observations"] / seconds,
        "reading_rows_per_second": reading["rows_per_second"],
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "log_evidence": found["log_evidence"],
        "standard_error": found["standard_error"],
        "error": found["log_evidence"] - exact_from_sums(ev.read_parquet(pattern, columns)),
    }


def exact_from_sums(source) -> float:
    """Exact log evidence of the linear model, from XᵀX, Xᵀy and yᵀy in float64."""
    moments, count = np.zeros((7, 7)), 0
    for batch in source.batches():
        x, y = (batch.arrays[name].astype(np.float64) for name in ("x", "y"))
        design = np.column_stack([x, np.ones(len(y)), y])
        moments += design.T @ design
        count += len(y)
    gram, projected, square = moments[:6, :6], moments[:6, 6], moments[6, 6]
    precision = gram + np.eye(6)
    quadratic = square - projected @ np.linalg.solve(precision, projected)
    return float(-0.5 * (count * math.log(2 * math.pi) + np.linalg.slogdet(precision)[1] + quadratic))


def agreement(name: str, num_rows: int, batch_size: int, reservoir_size: int, seeds: int) -> list[dict]:
    """Compare the log evidence of `Online` and `estimate` on the same rows."""
    model, found = MODELS[name], []
    data, _ = model.simulate(num_rows, 0)
    in_memory = ev.estimate(model, data, seed=100)
    for seed in range(seeds):
        online, started, log_predictive = (
            ev.Online(model, seed=seed, reservoir_size=reservoir_size),
            time.perf_counter(),
            0.0,
        )
        for first in range(0, num_rows, batch_size):
            batch = {key: values[first : first + batch_size] for key, values in data.items()}
            log_predictive += online.update(batch).log_predictive
        evidence = online.evidence()
        joint = math.hypot(evidence.standard_error, in_memory.standard_error)
        found.append(
            {
                "model": name,
                "rows": num_rows,
                "reservoir_size": reservoir_size,
                "seed": seed,
                "difference": evidence.log_evidence - in_memory.log_evidence,
                "standard_errors": [evidence.standard_error, in_memory.standard_error],
                "joint_standard_errors": (evidence.log_evidence - in_memory.log_evidence) / joint,
                "sum_of_log_predictives_less_log_evidence": log_predictive - in_memory.log_evidence,
                "reservoir_standard_error": evidence.diagnostics["reservoir_standard_error"],
                "seconds": time.perf_counter() - started,
                "seconds_in_memory": in_memory.seconds,
                "warnings": evidence.diagnostics["warnings"],
            }
        )
        print(found[-1], flush=True)
    return found


def write(results: dict, path: Path) -> None:
    """Write the results, and their page in the docs if they are those of the repository."""
    path.write_text(json.dumps(results, indent=1, default=float) + "\n")
    if path == KEPT:
        page = online_page(results)
        if DETECTION.exists():
            page = with_detection(page, json.loads(DETECTION.read_text()))
        (FOLDER.parent / "docs" / "benchmarks-online.md").write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["flat", "files", "agreement"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument(
        "--folder", type=Path, default=Path("parts"), help="folder of the files; 2.4 GB for 10⁸ rows"
    )
    parser.add_argument("--rows", type=float, default=1e8, help="rows of the stream and of the files")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--agreement-rows", type=float, default=1e6)
    parser.add_argument("--reservoir-size", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=KEPT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ev.EvidenceWarning)
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    results |= {"machine": describe_machine(), "date": str(datetime.date.today())}
    if "flat" in arguments.parts:
        results["flat"] = flat(int(arguments.rows), arguments.batch_size)
        print(results["flat"], flush=True)
        write(results, arguments.out)
    if "files" in arguments.parts:
        results["files"] = files(arguments.folder, int(arguments.rows))
        print(results["files"], flush=True)
        write(results, arguments.out)
    if "agreement" in arguments.parts:
        found = [run for run in results.get("agreement", []) if run["model"] not in arguments.models]
        for name in arguments.models:
            found += agreement(
                name, int(arguments.agreement_rows), 5000, arguments.reservoir_size, arguments.seeds
            )
            results["agreement"] = found
            write(results, arguments.out)


if __name__ == "__main__":
    main()
