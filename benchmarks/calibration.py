"""Is the standard error right? Runs on models with exact evidence, each on its own data.

    python benchmarks/calibration.py    # 200 runs per model and method: an hour on 2 cores
    python benchmarks/calibration.py --runs 40 --methods 'SGAIS()' 'SMC()' --out rows.json

The new rows replace those of the same methods in the newest file of benchmarks/results and in
docs/benchmarks.md.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from table import markdown_page

import evidentia as ev

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))
from tests.evidence.test_analytic_truths import CASES  # noqa: E402

SIZES = [50, 300, 2000, 10_000, 100_000]
METHODS = {  # with the sizes each is meant for
    "SGAIS()": (ev.SGAIS(), SIZES),
    "SGAIS(refresh=False)": (ev.SGAIS(refresh=False), SIZES[:4]),
    "Laplace()": (ev.Laplace(), SIZES),
    "SMC()": (ev.SMC(), SIZES[:3]),
    "AIS()": (ev.AIS(), SIZES[:3]),
    "Sequential()": (ev.Sequential(), SIZES[:3]),
    "NestedSampling()": (ev.NestedSampling(), SIZES[:2]),
    "OnlineNestedSampling()": (ev.OnlineNestedSampling(), SIZES[1:3]),
    "PriorSampling()": (ev.PriorSampling(), [10, 20]),
}


def calibrate(name: str, label: str, runs: int) -> dict:
    """Coverage and mean error of one model and method over `runs` data sets."""
    case, (method, sizes) = CASES[name], METHODS[label]
    errors, standard_errors = [], []
    for index in range(runs):
        size = sizes[index % len(sizes)]
        data = case.simulate(np.random.default_rng([size, index]), size)
        evidence = ev.estimate(case.explicit, data, method=method, seed=index)
        errors.append(evidence.log_evidence - case.exact(data))
        standard_errors.append(evidence.standard_error)
    scores = np.array(errors) / standard_errors
    return {
        "model": name,
        "method": label,
        "runs": runs,
        "sizes": sizes,
        "covered": float(np.mean(np.abs(scores) < 2)),
        "mean_score": float(np.mean(errors) / np.mean(standard_errors)),
        "largest_score": float(np.max(np.abs(scores))),
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "standard_error": float(np.mean(standard_errors)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, help="write the rows here, not to the results and the page")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ev.EvidenceWarning)
    rows = []
    for label in arguments.methods:
        for name in CASES:
            rows.append(calibrate(name, label, arguments.runs))
            print(rows[-1], flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
        return
    newest = max((FOLDER / "results").glob("2*.json"))  # other results have a name before the date
    results = json.loads(newest.read_text())
    kept = [row for row in results.get("calibration", []) if row["method"] not in arguments.methods]
    results["calibration"] = sorted(kept + rows, key=lambda row: list(METHODS).index(row["method"]))
    newest.write_text(json.dumps(results, indent=1) + "\n")
    (FOLDER.parent / "docs" / "benchmarks.md").write_text(markdown_page(results, newest.name))


if __name__ == "__main__":
    main()
