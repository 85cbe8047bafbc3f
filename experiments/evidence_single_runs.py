"""Single runs of `evidence_against_rows`: long ones, and nested samplers beside each other.

    python -m experiments.evidence_single_runs softmax "nested sampling, adapted" 1000000
    python -m experiments.evidence_single_runs mixture "nested sampling" 1000 3000 --repeats 4

Methods, rows and seeds are those of `evidence_against_rows`. Each run adds its log evidence,
standard error and seconds to results/evidence_single_runs.json; one that is there is not repeated.
An interrupted run leaves the processor seconds that it had taken, as "unfinished".
"""

import argparse
import json
import time
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp

from evidentia.posterior.rows import Window
from experiments.evidence_against_rows import FULL, METHODS, MODELS, WARM_UP, reference, run_once
from experiments.execute import describe_machine
from experiments.experiment import Record

OUT = Path(__file__).parent / "results" / "evidence_single_runs.json"


def stored(out: Path = OUT) -> Record:
    return json.loads(out.read_text()) if out.exists() else {"machine": describe_machine(), "runs": {}}


def store(name: str, run: Record | None, out: Path = OUT) -> None:
    """Add a run to the file, which other processes may have changed."""
    found = stored(out)
    found["runs"][name] = run
    out.write_text(json.dumps(found, indent=1) + "\n")


class Noted:
    """A method whose run notes its processor seconds, `every` so many of them."""

    def __init__(self, method, name: str, every: float = 30.0, out: Path = OUT):
        self.method, self.name, self.every, self.out = method, name, every, out

    def run(self, *arguments):
        started = noted = time.process_time()
        for stage in self.method.run(*arguments):
            if time.process_time() - noted > self.every:
                noted = time.process_time()
                seconds = round(noted - started, 1)
                store(self.name, {"unfinished": True, "processor_seconds": seconds}, self.out)
            yield stage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    model, method = MODELS[given.model], METHODS[given.method]
    data, params = model.simulate(FULL.sizes[-1], 0)
    bound, arrays = model.bind(data), jax.tree.map(jnp.asarray, data)
    compiled = cache(lambda: run_once(method, bound, arrays, jax.random.key(0), WARM_UP, 0))
    for size in given.rows:
        label = f"{given.model}, reference, {size} rows"
        if label not in stored()["runs"]:
            store(label, reference(model, bound, Window(arrays, 0, size), params))
        truth = stored()["runs"][label]
        for repeat in range(given.repeats):
            name = f"{given.model}, {given.method}, {size} rows, run {repeat}"
            if stored()["runs"].get(name, {"unfinished": True}).get("unfinished"):
                compiled()
                store(name, run_once(Noted(method, name), bound, arrays, jax.random.key(0), size, repeat))
            run = stored()["runs"][name]
            off = "" if truth is None else f"{run['log_evidence'] - truth['log_evidence']:+12,.1f} nats off"
            print(
                f"{name:60}{run['log_evidence']:16,.1f}{off}{run['processor_seconds']:10,.1f} s", flush=True
            )


if __name__ == "__main__":
    main()
