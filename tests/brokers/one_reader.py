"""A reader that keeps a checkpoint, to be killed: `one_reader.py URL FOLDER ROWS [OPTION=VALUE…]`.

It reads batches of 25 rows, and after each some it writes down all it knows in one file. When it
has counted ROWS rows it prints that, with the log evidence of the values under a normal with unit
variance and a standard normal mean, which depends on their order in its last bits.
"""

import hashlib
import json
import math
import os
import random
import sys
import time
from pathlib import Path

from evidentia.brokers.addresses import subscribe
from evidentia.brokers.dead_letters import DeadLetters
from evidentia.brokers.place import START, Place
from evidentia.brokers.source import BrokerSource
from evidentia.data.batches import recut

PACE = 0.003  # seconds for a batch
EMPTY = {"rows": 0, "numbers": 0, "squares": 0, "sum": 0.0, "sum of squares": 0.0, "digest": ""}


def log_evidence(state) -> float:
    rows, total = state["rows"], state["sum"]
    squares = state["sum of squares"] - total**2 / (rows + 1)
    return -0.5 * (rows * math.log(2 * math.pi) + math.log(rows + 1) + squares)


def main(url: str, folder: Path, target: int, options: dict[str, str]) -> None:
    path, chance = folder / "state.json", random.Random()
    state, place = EMPTY, START
    if path.exists():
        found = json.loads(path.read_text())
        state, place = found["state"], Place.from_text(found["state"]["rows"], found["place"])
    letters = DeadLetters(folder / "letters.jsonl")
    subscription = subscribe(url, **options)
    source = BrokerSource(subscription, ["number", "y"], types={"number": int}, dead_letters=letters)
    source.resume(place)
    print("ready", flush=True)  # noqa: T201
    left = target - state["rows"]
    for batch in recut(source.batches(state["rows"]), min(25, left) or 1) if left else ():
        numbers, values = (batch.arrays[name].astype(float) for name in ("number", "y"))
        state = {
            "rows": state["rows"] + batch.num_read,
            "numbers": state["numbers"] + int(numbers.sum()),
            "squares": state["squares"] + int((numbers**2).sum()),
            "sum": state["sum"] + values.sum(),
            "sum of squares": state["sum of squares"] + (values**2).sum(),
            "digest": hashlib.sha256(state["digest"].encode() + values.tobytes()).hexdigest(),
        }
        time.sleep(PACE)
        if state["rows"] >= target or chance.random() < 0.5:
            place = source.place_at(state["rows"])
            new = path.with_suffix(".new")
            new.write_text(json.dumps({"state": state, "place": place.to_text()}))
            os.replace(new, path)
            source.acknowledge(place)
        if state["rows"] >= target:
            break
    subscription.close()
    print(json.dumps(state | {"log evidence": log_evidence(state)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    url, folder, rows, *more = sys.argv[1:]
    main(url, Path(folder), int(rows), dict(one.split("=", 1) for one in more))
