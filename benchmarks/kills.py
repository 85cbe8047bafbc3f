"""Kill `evidentia stream --checkpoint` at random moments, resume it, and compare the results.

    python benchmarks/kills.py --kills 50

Each run is killed and restarted until it finishes. Its result and its update lines must then equal
those of an uninterrupted run, bit for bit.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

import evidentia as ev

NUM_ROWS, NUM_FEATURES = 5_000, 3
SAME = "num_observations", "log_evidence", "standard_error", "num_read", "alarms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["EVIDENTIA_COMPILATION_CACHE"] = str(folder / "cache")
        rows = make_rows(folder / "rows.csv")
        uninterrupted(rows, folder / "first")  # compiles
        whole, first_line, end = uninterrupted(rows, folder / "whole")
        print(f"{NUM_ROWS:,} rows; first batch after {first_line:.1f} s, end after {end:.1f} s")
        print("run  kills  rows at the kills                                     result     updates")
        killed, run, same = 0, 0, 0
        while killed < arguments.kills:
            run += 1
            at, found = until_the_end(rows, folder / f"run{run}", choose, first_line, end)
            agrees = found["result"] == whole["result"], found["updates"] == whole["updates"]
            killed, same = killed + len(at), same + len(at) * all(agrees)
            words = ["identical" if each else "DIFFERENT" for each in agrees]
            print(f"{run:3}  {len(at):5}  {', '.join(map(str, at)):52}  {words[0]}  {words[1]}", flush=True)
        print(f"{same} of {killed} kills left no trace")
        sys.exit(same != killed)


def make_rows(path: Path) -> Path:
    simulate = ev.models.linear_regression(NUM_FEATURES).simulate
    assert simulate is not None
    data, _ = simulate(NUM_ROWS, seed=1)
    columns = {f"f{index}": data["x"][:, index] for index in range(NUM_FEATURES)}
    pa.csv.write_csv(pa.table(columns | {"y": data["y"]}), path)
    return path


def start(rows: Path, folder: Path, every: float) -> subprocess.Popen:
    words = ["stream", rows, "--model", "linear", "--target", "y", "--num-particles", 64]
    words += ["--reservoir-size", 2000, "--batch-size", 100, "--false-alarm-rate", 0.001, "--quiet", "--json"]
    words += ["--checkpoint", folder / "checkpoints", "--checkpoint-every", every, "--out", folder]
    return subprocess.Popen(
        [sys.executable, "-m", "evidentia", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def uninterrupted(rows: Path, folder: Path) -> tuple[dict, float, float]:
    """Result and updates, and the seconds until the first and the last update line."""
    began, first_line = time.monotonic(), 0.0
    process = start(rows, folder, every=1e9)
    while process.poll() is None and not first_line:
        time.sleep(0.01)
        first_line = (time.monotonic() - began) * bool(num_rows(folder))
    while process.poll() is None and num_rows(folder) < NUM_ROWS:
        time.sleep(0.01)
    end = time.monotonic() - began
    return finished(process, folder), first_line, end


def until_the_end(
    rows: Path, folder: Path, choose: random.Random, first_line: float, end: float
) -> tuple[list[int], dict]:
    """Kill and restart a run until it finishes; return the rows at each kill, and the result.

    One kill in five comes during startup, the others after the first batch, so that runs advance.
    """
    at: list[int] = []
    while True:
        before = set(lines(folder))
        process = start(rows, folder, every=choose.choice([0.0, 0.1, 0.5]))
        if is_late := choose.random() < 0.8:
            while process.poll() is None and not set(lines(folder)[-1:]) - before:
                time.sleep(0.02)
        try:
            process.wait(choose.uniform(0, (end - first_line) / 2 if is_late else first_line))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            at.append(num_rows(folder))
        else:
            return at, finished(process, folder)


def lines(folder: Path) -> list[str]:
    """The complete update lines."""
    try:
        return (folder / "updates.jsonl").read_text().rpartition("\n")[0].splitlines()
    except FileNotFoundError:
        return []


def num_rows(folder: Path) -> int:
    """The number of rows at the last complete update line."""
    found = lines(folder)
    return json.loads(found[-1])["num_observations"] if found else 0


def finished(process: subprocess.Popen, folder: Path) -> dict:
    out, _ = process.communicate()
    result = json.loads(out)
    updates = [json.loads(line) for line in lines(folder)]
    for update in updates:
        del update["seconds"]
    return {"result": {key: result[key] for key in SAME}, "updates": updates}


if __name__ == "__main__":
    main()
