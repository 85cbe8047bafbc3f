"""Why ν hardly moves in `error_model`: the same climbs with more steps, on Student-t data.

    python -m experiments.error_model_longer      # under a minute

While σ² is too large, larger ν fits better, so log ν stays at its bound, log 5, until log σ² has
come down from 1; the paper's 250 steps end about then. The record has the mean θ of ten repeats
after some numbers of steps, the share of the repeats at the bound, and the mean of the exact
maximiser of ν, given the rows and the weights that fit them best, at most 5.

Source: Cuin, Carbone, Akyildiz (2025), section 5.2 and appendix C.4, Figures 7 and 8.
"""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from experiments.error_model_runs import UPPER, climb, starts
from experiments.error_models import FREEDOM_RATE, simulate
from experiments.execute import describe_machine

MARKS, REPEATS, SIZES = (100, 250, 500, 800), 10, (500, 1500)
OUT = Path(__file__).parent / "results" / "error_model_longer.json"


def best_log_freedom(v: np.ndarray, y: np.ndarray) -> float:
    """log ν at the maximum over weights, σ² and ν ≤ 5 of the likelihood and the prior of ν."""
    start = np.append(np.linalg.lstsq(v, y, rcond=None)[0], [0.0, np.log(4.0)])

    def loss(x: np.ndarray) -> float:
        freedom = np.exp(x[-1])
        log_rows = student.logpdf(y - v @ x[:-2], freedom, scale=np.exp(0.5 * x[-2]))
        return FREEDOM_RATE * freedom - log_rows.sum()

    bounds = [(None, None)] * (len(start) - 1) + [(np.log(0.2), np.log(5.0))]
    return minimize(loss, start, method="L-BFGS-B", bounds=bounds).x[-1]


def measured(num_rows: int, seed: int = 0) -> dict:
    data = simulate("student", num_rows, REPEATS, seed)
    thetas, _ = climb("student", data, starts("student", data, seed)["importance"], seed, MARKS[-1])
    freedoms = [best_log_freedom(*rows) for rows in zip(data["v"], data["y"], strict=True)]
    return {
        "steps": MARKS,
        "theta": [thetas[:, mark].mean(axis=0).round(3).tolist() for mark in MARKS],
        "share_at_bound": [float(np.mean(thetas[:, mark, 2] >= UPPER[2] - 1e-6)) for mark in MARKS],
        "best_log_freedom": round(float(np.mean(freedoms)), 3),
        "repeats": REPEATS,
    }


def main() -> None:
    found = {f"{size} rows": measured(size) for size in SIZES}
    OUT.write_text(json.dumps({"machine": describe_machine(), **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
