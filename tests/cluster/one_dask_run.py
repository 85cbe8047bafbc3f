"""Estimates on a Dask cluster of this machine, in a program of its own: `one_dask_run.py FOLDER`.

Prints what was tried and what came of it, a line each. Functions of a program go to the workers by
value, as those of a user's program do; partitions are generated anew in every look.
"""

import json
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

import evidentia as ev

NUM_PARTITIONS, ROWS = 6, 20_000
MODEL = ev.models.linear_regression(num_features=2)


def made(number, folder=None, event=None):
    """Rows of a partition; in a folder, `event` happens in the readings that it is meant for."""
    generator = np.random.default_rng(number)
    x = generator.standard_normal((ROWS, 2)).astype(np.float32)
    y = x @ np.array([0.5, -1.0]) + 0.25 + generator.standard_normal(ROWS)
    if event is not None and number == 1:
        reading = sum(1 for _ in Path(folder).glob(f"{event}-*"))
        Path(folder, f"{event}-{reading}").touch()
        happen(event, reading)
    return pd.DataFrame({"f0": x[:, 0], "f1": x[:, 1], "y": y.astype(np.float32)})


def happen(event, reading):
    """The first two readings are the facts and the sample; the third is the first look."""
    if (event == "killed once" and reading == 3) or (event == "always killed" and reading >= 2):
        os.kill(os.getpid(), signal.SIGKILL)
    if event == "unreadable" and reading >= 3:
        raise OSError("the disk is gone")
    if event in ("interrupted", "disconnected") and reading >= 3:
        time.sleep(60)


def frame(folder=None, event=None):
    """The rows as a Dask data frame, and as arrays by name."""
    rows = dd.from_map(made, range(NUM_PARTITIONS), folder=folder, event=event, meta=made(0).iloc[:0])
    return {"x": rows[["f0", "f1"]], "y": rows["y"]}


def whole():
    """The rows in memory."""
    rows = pd.concat(made(number) for number in range(NUM_PARTITIONS))
    return {"x": rows[["f0", "f1"]].to_numpy(), "y": rows["y"].to_numpy()}


def estimate(data, model=MODEL, **arguments):
    """What came of an estimate, as JSON."""
    started = time.perf_counter()
    try:
        found, error = ev.estimate(model, data, **arguments), ""
    except ev.EvidentiaError as raised:
        found, error = raised.evidence, f"{type(raised).__name__}: {raised}"
    return {
        "error": error,
        "log_evidence": found and found.log_evidence,
        "standard_error": found and found.standard_error,
        "num_observations": found and found.num_observations,
        "completed": found and found.completed,
        "seconds": time.perf_counter() - started,
    }


def when(path, function, *args):
    """Call a function once a file exists."""

    def watch():
        while not path.exists():
            time.sleep(0.05)
        function(*args)

    threading.Thread(target=watch, daemon=True).start()


def pretend_other_version():
    """At a worker: another JAX."""
    from evidentia.cluster import worker

    worker.version = lambda name: "0.1"


def log_likelihood(x):
    return -0.5 * np.sum(((x - 0.5) / 0.1) ** 2)


def peak(executor=None):
    """A plain function of two parameters in the unit square."""
    return ev.Model.from_callable(log_likelihood, lambda cube: cube, num_parameters=2, executor=executor)


def tried(folder):
    """Yield what was tried and what came of it."""
    yield "no cluster", estimate(frame())
    arrays = whole()
    yield "exact", {"log_evidence": MODEL.exact_log_evidence(arrays)}
    with cluster_of_two() as client:
        yield "generated", estimate(frame())
        yield "laplace", estimate(frame(), method=ev.Laplace())
        persisted = dict(zip("xy", client.persist(list(frame().values())), strict=True))
        yield "persisted", estimate(persisted)
        y = da.from_array(arrays["y"], chunks=ROWS)
        yield "arrays", estimate({"x": da.from_array(arrays["x"], chunks=(ROWS, 1)), "y": y})
        yield "other partitions", estimate({"x": frame()["x"], "y": y.rechunk(ROWS // 2)})
        yield "text", estimate(dd.from_pandas(pd.DataFrame({"y": ["a", "b"]}), npartitions=1))
        yield "killed once", estimate(frame(folder, "killed once"))
        yield "unreadable", estimate(frame(folder, "unreadable"))
        yield "always killed", estimate(frame(folder, "always killed"))
        series = [{name: each[i : i + 200] for name, each in arrays.items()} for i in range(0, 2000, 200)]
        records = ev.estimate_many(MODEL, series, executor=client.get_executor(pure=False))
        yield (
            "fleet",
            list(map(log_evidences, records)) == list(map(log_evidences, ev.estimate_many(MODEL, series))),
        )
        yield (
            "callable",
            ev.estimate(peak(client.get_executor(pure=False))).log_evidence
            == ev.estimate(peak()).log_evidence,
        )
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a shell has jobs in the background ignore it
        when(folder / "interrupted-3", os.kill, os.getpid(), signal.SIGINT)
        yield "interrupted", estimate(frame(folder, "interrupted"))
        time.sleep(1)
        yield "waiting", sum(map(len, client.processing().values()))
    with cluster_of_two() as client:
        client.run(pretend_other_version)
        yield "other version", estimate(frame())
    with cluster_of_two() as client:
        when(folder / "disconnected-3", client.close, 0)
        yield "disconnected", estimate(frame(folder, "disconnected"))


@contextmanager
def cluster_of_two():
    """The client of a cluster with two processes, started again however often they die."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def log_evidences(record):
    return [one.log_evidence for one in record.evidences.values()]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, outcome in tried(Path(sys.argv[1])):
        sys.stdout.write(json.dumps({name: outcome}) + "\n")
