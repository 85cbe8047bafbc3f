"""The six sensitivity studies at the papers' largest size: 10⁶ rows, one run of each setting.

    python -m experiments.sensitivity_million     # an hour and a half of one core

`sensitivity` has five seeds of each setting at 10⁵ rows. One seed at 10⁶ shows whether its
conclusions hold there, and along the way: errors against `ev.SGAIS()` on the same rows, annealing
steps so far, and the processor time, with that of compilation. Results are written after each
setting; a second call goes on from there.
"""

import json
import time
import warnings
from pathlib import Path

import numpy as np

import evidentia as ev
from experiments.sensitivity import MODEL, STUDIES

MARKS = 10_000, 100_000, 1_000_000  # rows
OUT = Path(__file__).parent / "results" / "sensitivity_million.json"


def measured(method: ev.SGAIS, data, seed: int) -> dict[str, list[float]]:
    """Log evidence and annealing steps up to each number of rows, and seconds in all."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ev.EvidenceWarning)  # the errors are measured here
        path = ev.estimate(MODEL, data, method=method, seed=seed).trajectory
    steps = np.cumsum(path.num_annealing_steps)
    return {
        "log_evidence": [path.at(mark)["log_evidence"] for mark in MARKS],
        "annealing_steps": [int(steps[path.num_observations <= mark][-1]) for mark in MARKS],
        "seconds": [round(time.process_time() - started, 1)],
    }


def main() -> None:
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    data, _ = MODEL.simulate(MARKS[-1], 0)
    if "reference" not in found:
        found["reference"] = measured(ev.SGAIS(), data, 0)
    print("rows".ljust(26) + "".join(f"{mark:20,}" for mark in MARKS))
    print(" " * 26 + "     error     steps" * len(MARKS) + "   seconds")
    for study in STUDIES:
        for value in study.values:
            name = f"{study.name} {value:g}"
            if name not in found:
                found[name] = measured(study.method(value), data, 0)
                OUT.write_text(json.dumps(found, indent=1) + "\n")
            run = found[name]
            errors = np.subtract(run["log_evidence"], found["reference"]["log_evidence"])
            cells = [
                f"{error:10,.0f}{steps:10,}"
                for error, steps in zip(errors, run["annealing_steps"], strict=True)
            ]
            print(f"{name:26}{''.join(cells)}{run['seconds'][0]:10,.0f}", flush=True)


if __name__ == "__main__":
    main()
