"""The six sensitivity studies at the papers' largest size: 10⁶ rows, one run of each setting.

    python -m experiments.sensitivity_million     # an hour and a half of one core

`sensitivity` has five seeds of each setting at 10⁵ rows. One seed at 10⁶ shows whether its
conclusions hold there: the error per row, the annealing steps, and the processor time, with that of
compilation. Results are written after each setting; a second call goes on from there.
"""

import json
import time
import warnings
from pathlib import Path

import evidentia as ev
from experiments.sensitivity import MODEL, STUDIES

ROWS = 1_000_000
OUT = Path(__file__).parent / "results" / "sensitivity_million.json"


def measured(method: ev.SGAIS | ev.Laplace, data, seed: int) -> dict[str, float]:
    """Log evidence, seconds and number of annealing steps of a run."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ev.EvidenceWarning)  # the errors are measured here
        evidence = ev.estimate(MODEL, data, method=method, seed=seed)
    seconds = round(time.process_time() - started, 1)
    steps = int(evidence.trajectory.num_annealing_steps.sum())
    return {"log_evidence": evidence.log_evidence, "seconds": seconds, "annealing_steps": steps}


def main() -> None:
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    data, _ = MODEL.simulate(ROWS, 0)
    if "reference" not in found:
        found["reference"] = measured(ev.SGAIS(), data, 0)
    for study in STUDIES:
        for value in study.values:
            name = f"{study.name} {value:g}"
            if name not in found:
                found[name] = measured(study.method(value), data, 0)
                OUT.write_text(json.dumps(found, indent=1) + "\n")
            run = found[name]
            error = run["log_evidence"] - found["reference"]["log_evidence"]
            print(
                f"{name:27}{error:10,.0f} nats{error / ROWS:10.5f} per row{run['seconds']:8,.0f} s"
                f"{run['annealing_steps']:8,} steps",
                flush=True,
            )


if __name__ == "__main__":
    main()
