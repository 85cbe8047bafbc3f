"""Do the bounds hold? `sandwich` on linear regressions with exact evidence.

    python benchmarks/sandwich.py                 # 100 seeds for each method: minutes on 2 cores
    python benchmarks/sandwich.py --seeds 20

Each seed has its own parameters and data. The result goes to
benchmarks/results/sandwich-<date>.json.
"""

import argparse
import datetime
import json
import warnings
from pathlib import Path

import numpy as np
from machine import describe_machine

import evidentia as ev

FOLDER = Path(__file__).parent
ROWS, FEATURES = 200, 5
METHODS = {
    "AIS()": ev.AIS(),
    "SMC()": ev.SMC(),
    "SGAIS()": ev.SGAIS(),
    # Short moves: the gap must show the error that the standard error misses.
    "AIS, poor moves": ev.AIS(target_ess=0.7, kernel=ev.kernels.HMC(num_trajectories=1, num_steps=1)),
}


def measure(label: str, seeds: int) -> dict:
    """How often the exact value lies between the bounds, and how wide their gap is."""
    model = ev.models.linear_regression(num_features=FEATURES)
    found = [ev.sandwich(model, ROWS, method=METHODS[label], seed=seed) for seed in range(seeds)]
    above = [run.seed for run in found if run.lower > run.exact]
    below = [run.seed for run in found if run.upper < run.exact]
    return {
        "method": label,
        "runs": seeds,
        "between": seeds - len(above) - len(below),
        "seeds_above": above,
        "seeds_below": below,
        "gap": float(np.median([run.gap for run in found])),
        "forward_error": float(np.mean([run.forward.log_evidence - run.exact for run in found])),
        "reverse_error": float(np.mean([run.reverse.log_evidence - run.exact for run in found])),
        "forward_standard_error": float(np.mean([run.forward.standard_error for run in found])),
        "reverse_standard_error": float(np.mean([run.reverse.standard_error for run in found])),
        "seconds": float(np.median([run.seconds for run in found])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ev.EvidenceWarning)
    rows = []
    for label in METHODS:
        rows.append(measure(label, arguments.seeds))
        print(rows[-1], flush=True)
    today = datetime.date.today().isoformat()
    results = {
        "date": today,
        "machine": describe_machine(),
        "model": f"linear regression, {FEATURES} features, {ROWS} rows",
        "confidence": 0.99,
        "rows": rows,
    }
    (FOLDER / "results" / f"sandwich-{today}.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
