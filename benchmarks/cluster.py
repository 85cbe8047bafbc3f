"""Rows that a Dask cluster generates anew in every look: time, memory of the driver, error.

    python benchmarks/cluster.py                      # 10⁸ rows, some minutes
    python benchmarks/cluster.py --partitions 1000    # 10⁹ rows

A linear regression with three features on two worker processes, partitions of 10⁶ rows. Prints
the rounds, seconds per partition of a round and of generating it alone, the largest memory of
this process, and the difference from the exact log evidence, whose sums the cluster adds up.
Wanted: at most 30 rounds, and less than 1 GiB for any number of rows.
"""

import argparse
import resource
import time
from collections import Counter

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

import evidentia as ev
from evidentia.cluster.over_dask import OverDask

ROWS = 1_000_000
WEIGHTS, INTERCEPT = np.array([0.5, -1.0, 0.25], np.float32), np.float32(0.1)


def made(number: int, rows: int = ROWS) -> pd.DataFrame:
    """The rows of a partition."""
    generator = np.random.default_rng(number)
    x = generator.standard_normal((rows, len(WEIGHTS)), np.float32)
    y = x @ WEIGHTS + INTERCEPT + generator.standard_normal(rows, np.float32)
    return pd.DataFrame({f"f{index}": x[:, index] for index in range(len(WEIGHTS))} | {"y": y})


def gram(number: int) -> np.ndarray:
    """Float64 products of the columns [x, 1, y] of a partition."""
    rows = made(number).to_numpy(np.float64)
    columns = np.insert(rows, len(WEIGHTS), 1.0, axis=1)
    return columns.T @ columns


def exact(sums: np.ndarray, num_rows: int) -> float:
    """Log evidence of standard normal priors and unit noise, from the sums of products."""
    size = len(sums) - 1
    precision, projection = np.eye(size) + sums[:size, :size], sums[:size, size]
    fitted = projection @ np.linalg.solve(precision, projection)
    constant = num_rows * np.log(2 * np.pi) + np.linalg.slogdet(precision)[1]
    return float(-0.5 * (constant + sums[size, size] - fitted))


def counted(rounds: Counter) -> None:
    """Count the rounds of map and reduce by what they compute."""
    submit = OverDask.submit

    def counting(self, function, *args, each=None):
        rounds[args[2].__name__] += 1
        return submit(self, function, *args, each=each)

    OverDask.submit = counting


def measure(num_partitions: int) -> None:
    rounds: Counter[str] = Counter()
    counted(rounds)
    frame = dd.from_map(made, range(num_partitions), meta=made(0, 1).iloc[:0])
    data = {"x": frame[[f"f{index}" for index in range(len(WEIGHTS))]], "y": frame["y"]}
    model = ev.models.linear_regression(num_features=len(WEIGHTS))
    started = time.perf_counter()
    evidence = ev.estimate(model, data)
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    started = time.perf_counter()
    sums = dask.compute(sum(dask.delayed(gram)(number) for number in range(num_partitions)))[0]
    alone = time.perf_counter() - started
    num_rows, num_rounds = num_partitions * ROWS, rounds.total()
    difference = evidence.log_evidence - exact(sums, num_rows)
    print(f"{num_rows:.3g} rows in {num_partitions} partitions: {seconds:.0f} s")
    print(f"{num_rounds} rounds: {dict(rounds)}")
    print(f"{seconds / num_rounds / num_partitions:.3f} s per partition and round")
    print(f"{alone / num_partitions:.3f} s per partition to generate it and add up its products")
    print(f"{memory:.2f} GiB at most in this process")
    print(f"log evidence {evidence.log_evidence:.3f} ± {evidence.standard_error:.3f}")
    print(f"less the exact one: {difference:+.3f} nats")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=100)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        measure(parser.parse_args().partitions)
