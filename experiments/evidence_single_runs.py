"""Single runs of `evidence_against_rows`: long ones, and the published nested sampler.

    python -m experiments.evidence_single_runs softmax "nested sampling" 1000000     # 11 minutes
    python -m experiments.evidence_single_runs mixture "published nested sampling" 1000 3000 10000

Methods are those of `evidence_against_rows`, whose nested sampler adapts its steps, and "published
nested sampling" with the papers' steps of 0.03 (η = 10⁻³). Each run adds its error, standard error
and seconds to results/evidence_single_runs.json, where a second call goes on; `--repeats` has
the number of runs at each number of rows. With the rows and seeds of the full experiment; by
extrapolation, at 10⁶ rows nested sampling takes 11 minutes (softmax) and 36 (mixture), AIS 9
(linear) and 105 (softmax).
"""

import argparse
import json
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp

import evidentia as ev
from evidentia.posterior.rows import Window
from experiments.evidence_against_rows import FULL, METHODS, MODELS, WARM_UP, reference, run_once
from experiments.execute import describe_machine

CHOICES = METHODS | {"published nested sampling": ev.NestedSampling.published()}
OUT = Path(__file__).parent / "results" / "evidence_single_runs.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("method", choices=CHOICES)
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    model, method = MODELS[given.model], CHOICES[given.method]
    data, params = model.simulate(FULL.sizes[-1], 0)
    bound, arrays = model.bind(data), jax.tree.map(jnp.asarray, data)
    found = json.loads(OUT.read_text()) if OUT.exists() else {"machine": describe_machine(), "runs": {}}
    compiled = cache(lambda: run_once(method, bound, arrays, jax.random.key(0), WARM_UP, 0))
    for size in given.rows:
        truth = found["runs"].setdefault(f"{given.model}, reference, {size} rows", None)
        if truth is None:
            truth = reference(model, bound, Window(arrays, 0, size), params)
            found["runs"][f"{given.model}, reference, {size} rows"] = truth
        for repeat in range(given.repeats):
            name = f"{given.model}, {given.method}, {size} rows, run {repeat}"
            if name not in found["runs"]:
                compiled()
                found["runs"][name] = run_once(method, bound, arrays, jax.random.key(0), size, repeat)
                OUT.write_text(json.dumps(found, indent=1) + "\n")
            run = found["runs"][name]
            off = "" if truth is None else f"{run['log_evidence'] - truth['log_evidence']:+12,.1f} nats off"
            print(
                f"{name:60}{run['log_evidence']:16,.1f}{off}{run['processor_seconds']:10,.1f} s", flush=True
            )


if __name__ == "__main__":
    main()
