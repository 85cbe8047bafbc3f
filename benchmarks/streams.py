"""A fleet of streams against a loop: 1,000 series, batch by batch, in one process.

    python benchmarks/streams.py                 # some minutes
    python benchmarks/streams.py --streams 200   # fewer

Prints milliseconds per stream and batch of `OnlineFleet` and of a loop over `Online` (for some of
the streams), and the same with change detectors, after a warm-up whose seconds come first; then
how many streams went on alone, and the differences of the log evidences in joint standard errors.
Wanted: a ratio of at least 20, and differences of about one.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable

import numpy as np

import evidentia as ev
from fleet import NUM_ROWS, make_models, series

BATCH, NUM_SAMPLED = 10, 10


def batches(data: dict[str, dict[str, np.ndarray]]):
    """The next rows of every stream, batch by batch."""
    for first in range(0, NUM_ROWS, BATCH):
        rows = slice(first, first + BATCH)
        yield {name: {key: values[rows] for key, values in one.items()} for name, one in data.items()}


def together(make: Callable, data) -> tuple[float, dict]:
    """Milliseconds per stream and batch of a fleet, and its streams."""
    fleet, started = make(), time.perf_counter()
    for each in batches(data):
        step = fleet.update(each)
        assert not step.errors, step.errors
    count = len(data) * NUM_ROWS / BATCH
    return 1e3 * (time.perf_counter() - started) / count, fleet


def one_by_one(make: Callable, data) -> tuple[float, dict]:
    """The same of a loop."""
    streams, started = {name: make() for name in data}, time.perf_counter()
    for each in batches(data):
        for name, stream in streams.items():
            stream.update(each[name])
    count = len(data) * NUM_ROWS / BATCH
    return 1e3 * (time.perf_counter() - started) / count, streams


def measured(name: str, make_fleet: Callable, make_one: Callable, data: dict) -> tuple[dict, dict]:
    """Print a line; return the streams of the fleet and of the loop."""
    sampled = dict(list(data.items())[:NUM_SAMPLED])
    started = time.perf_counter()
    together(make_fleet, data if len(data) < 100 else dict(list(data.items())[-100:]))
    warm_up = time.perf_counter() - started
    one_by_one(make_one, dict(list(data.items())[-1:]))
    fast, fleet = together(make_fleet, data)
    slow, alone = one_by_one(make_one, sampled)
    print(
        f"{name:<28} {warm_up:>10.1f} s {fast:>10.2f} ms {slow:>10.2f} ms {slow / fast:>9.1f} times",
        flush=True,
    )
    return fleet, alone


def main() -> None:
    """Parse arguments and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--changes", action="store_true", help="also the change detectors")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = {f"stream {index}": one for index, one in enumerate(series(arguments.streams))}
    print(f"{arguments.streams:,} streams of {NUM_ROWS} rows in batches of {BATCH}")
    print(f"{'model':<28} {'warm-up':>12} {'fleet':>13} {'loop':>13} {'ratio':>15}")
    models = make_models()
    for name, model in models.items():
        fleet, alone = measured(name, lambda: ev.OnlineFleet(model), lambda: ev.Online(model), data)  # noqa: B023
        apart = [
            (fleet[key].log_evidence - one.log_evidence) / math.hypot(fleet[key].standard_error, one.standard_error)
            for key, one in alone.items()
        ]  # fmt: skip
        ways = [stream.evidence().diagnostics["way"] for stream in fleet.values()]
        print(
            f"  on their own: {ways.count('online')}; differences: {np.sqrt(np.mean(np.square(apart))):.2f}"
        )
    if arguments.changes:
        model = models["student-t"]
        measured(
            "changes, student-t",
            lambda: ev.ChangeDetectorFleet(model),
            lambda: ev.ChangeDetector(ev.Online(model)),
            data,
        )


if __name__ == "__main__":
    main()
