"""The six sensitivity studies at the papers' largest size: 10⁶ rows, few runs of each setting.

    python -m experiments.sensitivity_million     # one run of each: 90 minutes of one core
    python -m experiments.sensitivity_million --seeds 2     # two of each: three hours

`sensitivity` has five seeds of each setting at 10⁵ rows. Runs at 10⁶ show whether its conclusions
hold there, and along the way: errors against `ev.SGAIS()` on the same rows, annealing steps so
far, and the processor time, with that of compilation. Each seed has the rows in another order; all
are those of the reference at the end only, so that further seeds show their error there alone.
`--longest` leaves out further seeds of settings whose first took longer, in seconds. Results are
written after each run; a second call goes on from there.
"""

import argparse
import datetime
import json
import time
import warnings
from pathlib import Path

import numpy as np

import evidentia as ev
from experiments.execute import describe_machine
from experiments.experiment import Record
from experiments.sensitivity import METHOD, MODEL, STUDIES

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--longest", type=float, default=float("inf"))
    given = parser.parse_args()
    today = datetime.date.today().isoformat()
    found: Record = (
        json.loads(OUT.read_text()) if OUT.exists() else {"begun": today, "machine": describe_machine()}
    )
    data, _ = MODEL.simulate(MARKS[-1], 0)
    if "reference" not in found:
        found["reference"] = measured(ev.SGAIS(), data, 0)
    print("rows".ljust(34) + "".join(f"{mark:20,}" for mark in MARKS))
    print(" " * 34 + "     error     steps" * len(MARKS) + "   seconds")
    settings = {f"{study.name} {value:g}": study.method(value) for study in STUDIES for value in study.values}
    for seed in range(given.seeds):
        for setting, method in settings.items():
            name = f"{setting}, seed {seed}" if seed else setting
            if name not in found:
                # The published values, which all studies share, have further seeds in one of them.
                is_again = method == METHOD and setting != "particles 10"
                if seed and (is_again or found[setting]["seconds"][0] > given.longest):
                    continue
                found[name] = measured(method, data, seed)
                OUT.write_text(json.dumps(found, indent=1) + "\n")
            show(name, found[name], found["reference"], is_at_end_only=seed > 0)


def show(name: str, run: dict, reference: dict, *, is_at_end_only: bool) -> None:
    columns = run["log_evidence"], reference["log_evidence"], run["annealing_steps"]
    cells = [
        ("" if value is None or (is_at_end_only and mark < MARKS[-1]) else f"{value - true:,.0f}").rjust(10)
        + f"{steps:10,}"
        for mark, value, true, steps in zip(MARKS, *columns, strict=True)
    ]
    print(f"{name:34}{''.join(cells)}{run['seconds'][0]:10,.0f}", flush=True)


if __name__ == "__main__":
    main()
