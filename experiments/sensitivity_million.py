"""The six sensitivity studies at the papers' largest size: 10⁶ rows, one run of each setting.

    python -m experiments.sensitivity_million     # an hour and a half of one core

`sensitivity` has five seeds of each setting at 10⁵ rows. One seed at 10⁶ shows whether its
conclusions hold there, and along the way: errors against `ev.SGAIS()` on the same rows, annealing
steps so far, and the processor time, with that of compilation. Results are written after each
setting; a second call goes on from there.
"""

import datetime
import json
import time
import warnings
from pathlib import Path

import numpy as np

import evidentia as ev
from experiments.execute import describe_machine
from experiments.sensitivity import MODEL, STUDIES

MARKS = 10_000, 100_000, 1_000_000  # rows
OUT = Path(__file__).parent / "results" / "sensitivity_million.json"


def measured(method: ev.SGAIS, data, seed: int) -> dict[str, list[float | None]]:
    """Log evidence (None within a chunk), annealing steps at each number of rows; seconds."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ev.EvidenceWarning)  # the errors are measured here
        path = ev.estimate(MODEL, data, method=method, seed=seed).trajectory
    steps = np.cumsum(path.num_annealing_steps)
    return {
        "log_evidence": [
            float(path.at(mark)["log_evidence"]) if mark in path.num_observations else None for mark in MARKS
        ],
        "annealing_steps": [int(steps[path.num_observations <= mark][-1]) for mark in MARKS],
        "seconds": [round(time.process_time() - started, 1)],
    }


def main() -> None:
    today = datetime.date.today().isoformat()
    found = json.loads(OUT.read_text()) if OUT.exists() else {"begun": today, "machine": describe_machine()}
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
            columns = run["log_evidence"], found["reference"]["log_evidence"], run["annealing_steps"]
            cells = [
                ("" if value is None else f"{value - true:,.0f}").rjust(10) + f"{steps:10,}"
                for value, true, steps in zip(*columns, strict=True)
            ]
            print(f"{name:26}{''.join(cells)}{run['seconds'][0]:10,.0f}", flush=True)


if __name__ == "__main__":
    main()
