"""A stream of the service without a broker: rows per CPU second, checkpoints, and its memory.

    python benchmarks/service.py --monitor models --keys 10_000 --rows 800_000
    python benchmarks/service.py --monitor run_lengths --keys 100 --rows 2_000_000

Messages of a hundred rows of JSON go through the worker of a stream, which processes them and
writes checkpoints as in `evidentia serve`; the page and the metrics are left out. The level of
each key changes every thousand rows. `memory` is the resident size after each tenth of the rows.
"""

import argparse
import json
import logging
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from evidentia.brokers.message import Message
from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.service.engine import Engine
from evidentia.service.settings import checked
from evidentia.service.worker import Worker

PER_MESSAGE, SEGMENT = 100, 1_000
MODELS = {"steady": "linear", "rough": {"type": "linear", "noise_scale": 2.5}}
MONITORS = {
    "run_lengths": {
        "kind": "run_lengths",
        "columns": "pressure",
        "model": {"type": "NormalInverseGamma"},
        "hazard": 1e-3,
        "max_runs": 50,
    },
    "models": {"kind": "models", "columns": {"x": ["flow"], "y": "pressure"}, "models": MODELS},
}


class Simulated:
    """A subscription to readings of many sensors in turn, which notes the memory."""

    name = "simulated"

    def __init__(self, keys: int, rows: int):
        self._keys, self._rows = keys, rows
        self.memory: list[float] = []

    def messages(self, position):
        """Yield all messages, then None."""
        first = 0 if position is None else position["next"]
        for start in range(first, self._rows, PER_MESSAGE):
            generator = np.random.default_rng((0, start))
            rows = np.arange(start, start + PER_MESSAGE)
            levels = 3.0 * (rows // self._keys // SEGMENT % 2)
            flow, noise = generator.normal(size=(2, PER_MESSAGE))
            pressure = 0.5 * flow + levels + noise
            parts = zip(rows.tolist(), flow.tolist(), pressure.tolist(), strict=True)
            payload = [{"key": f"s{row % self._keys}", "flow": x, "pressure": y} for row, x, y in parts]
            yield Message(json.dumps(payload).encode(), {"next": start + PER_MESSAGE})
            if (start + PER_MESSAGE) * 10 // self._rows > len(self.memory):
                self.memory.append(resident())
        while True:
            yield None

    def acknowledge(self, position):
        """Nothing is kept."""

    def close(self):
        """Nothing is open."""


def resident() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(monitor: str, keys: int, rows: int, batch_size: int) -> dict:
    """Figures of one stream, of whole batches."""
    settings = checked(
        {
            "streams": {
                "s": {
                    "source": "x",
                    "key": "key",
                    "batch_size": batch_size,
                    "monitors": {"m": MONITORS[monitor]},
                }
            }
        }
    ).streams["s"]
    subscription = Simulated(keys, rows)
    with tempfile.TemporaryDirectory() as folder:
        engine = new_engine(settings)
        worker = Worker(engine, settings, subscription, Path(folder), 10.0, Path(folder), lambda *_: None)
        whole = rows // (keys * batch_size) * keys * batch_size
        started, used = time.perf_counter(), time.process_time()
        worker.start()
        while engine.counts.rows < whole and worker.is_alive():
            time.sleep(0.1)
        used, seconds = time.process_time() - used, time.perf_counter() - started
        worker.stop()
        worker.join()
        begun = time.process_time()
        with CheckpointFolder(folder) as checkpoints:
            checkpoints.write(engine.packed(), {})
        saved = time.process_time()
        new_engine(settings).restore(read(folder)[0], folder)
        return {
            "state": worker.state,
            "rows": engine.counts.rows,
            "alarms": engine.counts.alarms,
            "rows/CPU s": round(engine.counts.rows / used),
            "rows/s": round(engine.counts.rows / seconds),
            "checkpoint (MB)": round((Path(folder) / "checkpoint").stat().st_size / 1e6, 2),
            "its CPU s": round(saved - begun, 2),
            "resuming (CPU s)": round(time.process_time() - saved, 2),
            "memory (MB)": [round(one) for one in subscription.memory],
        }


def new_engine(settings) -> Engine:
    """The engine of the stream, without rows."""
    return Engine("s", settings, lambda name, key: None, source="x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--monitor", choices=MONITORS, default="run_lengths")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=10)
    arguments = parser.parse_args()
    logging.getLogger("evidentia.service").setLevel(logging.ERROR)  # an alarm is a line
    before = resident()
    found = measured(arguments.monitor, arguments.keys, arguments.rows, arguments.batch_size)
    print(f"{arguments.monitor}, {arguments.keys:,} keys, {before:.0f} MB before: {json.dumps(found)}")


if __name__ == "__main__":
    main()
