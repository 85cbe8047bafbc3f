"""Estimates on a Ray instance of this machine, in a program of its own: `one_ray_run.py FOLDER`.

Prints what was tried and what came of it, a line each.
"""

import json
import os
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ray

import evidentia as ev
from evidentia.cluster.ray_executor import RayExecutor
from evidentia.data.batches import Batch

NUM_BLOCKS, ROWS = 6, 20_000
MODEL = ev.models.linear_regression(num_features=2)


def made(number):
    """Rows of a block."""
    generator = np.random.default_rng(number)
    x = generator.standard_normal((ROWS, 2)).astype(np.float32)
    y = x @ np.array([0.5, -1.0]) + 0.25 + generator.standard_normal(ROWS)
    return {"x": x, "y": y.astype(np.float32)}


@dataclass(frozen=True)
class Generated:
    """A source whose reader is killed, or cannot read, when a second look begins."""

    folder: Path
    event: str
    num_rows: int = NUM_BLOCKS * ROWS

    def batches(self, skip=0):
        if skip == 0:
            reading = len(list(self.folder.glob(f"{self.event}-*")))
            (self.folder / f"{self.event}-{reading}").touch()
            if (self.event == "killed once" and reading == 3) or (
                self.event == "always killed" and reading >= 3
            ):
                os.kill(os.getpid(), signal.SIGKILL)
            if self.event == "unreadable" and reading >= 3:
                raise OSError("the disk is gone")
        for number in range(skip // ROWS, NUM_BLOCKS):
            yield Batch(made(number), ROWS)


def estimate(data, **arguments):
    """What came of an estimate."""
    try:
        found, error = ev.estimate(MODEL, data, **arguments), ""
    except ev.EvidentiaError as raised:
        found, error = raised.evidence, f"{type(raised).__name__}: {raised}"
    return {
        "error": error,
        "log_evidence": found and found.log_evidence,
        "standard_error": found and found.standard_error,
        "num_observations": found and found.num_observations,
        "completed": found and found.completed,
    }


def log_evidences(record):
    return [one.log_evidence for one in record.evidences.values()]


def log_likelihood(x):
    return -0.5 * np.sum(((x - 0.5) / 0.1) ** 2)


def peak(executor=None):
    """A plain function of two parameters in the unit square."""
    return ev.Model.from_callable(log_likelihood, lambda cube: cube, num_parameters=2, executor=executor)


def tried(folder):
    """Yield what was tried and what came of it."""
    parts = [made(number) for number in range(NUM_BLOCKS)]
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in ("x", "y")}
    yield "exact", MODEL.exact_log_evidence(arrays)
    ray.data.DataContext.get_current().enable_progress_bars = False
    blocks = ray.data.range(NUM_BLOCKS, override_num_blocks=NUM_BLOCKS)
    dataset = blocks.map_batches(lambda batch: made(int(batch["id"][0])), batch_size=1)
    yield "dataset", estimate(dataset)
    yield "mapping", estimate({"x": dataset})
    executor = RayExecutor()
    yield "source", estimate(Generated(folder, "nothing"), executor=executor)
    yield "killed once", estimate(Generated(folder, "killed once"), executor=executor)
    yield "unreadable", estimate(Generated(folder, "unreadable"), executor=executor)
    yield "always killed", estimate(Generated(folder, "always killed"), executor=executor)
    series = [{name: each[i : i + 200] for name, each in arrays.items()} for i in range(0, 2000, 200)]
    records = list(map(log_evidences, ev.estimate_many(MODEL, series, executor=executor)))
    yield "fleet", records == list(map(log_evidences, ev.estimate_many(MODEL, series)))
    yield "callable", ev.estimate(peak(executor)).log_evidence == ev.estimate(peak()).log_evidence
    pauses = [executor.submit(signal.pause) for _ in range(2)]  # on both processors
    time.sleep(2)  # they run: nothing but the end of its worker stops a call that waits in C
    yield "cancelled", all(each.cancel() for each in pauses) and executor.submit(len, [1, 2]).result(60)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import evidentia.cluster.over_executor

    evidentia.cluster.over_executor.ROWS_PER_PARTITION = ROWS
    try:
        RayExecutor()
    except ev.ConfigurationError as error:
        before = str(error)
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    sys.stdout.write(json.dumps({"no cluster": before}) + "\n")
    for name, outcome in tried(Path(sys.argv[1])):
        sys.stdout.write("\n" + json.dumps({name: outcome}) + "\n")
    ray.shutdown()
