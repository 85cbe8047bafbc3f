"""Rows per second from real brokers to arrays, and the memory of a reader, on this machine.

    python benchmarks/services.py                          # each broker, 1, 100 and 10,000 keys
    python benchmarks/services.py --brokers redis --rows 10_000_000 --rows-per-message 100 --keys 1

Each row is a JSON object with a key and four numbers, which become a batch of two arrays. Of Kafka
and NATS all messages are there before the reading begins; those of Redis and MQTT are sent by
another process meanwhile. `memory` is the resident size of the reader after a tenth of the rows,
and at the end; rows per CPU second are those of the reader, on a machine that has others to serve.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evidentia.brokers.addresses import subscribe
from evidentia.brokers.place import START
from evidentia.brokers.source import BrokerSource
from evidentia.data.batches import recut
from tests.brokers.servers import ByKafkaOfFour, ByMqtt, ByNats, ByRedis

BROKERS: dict[str, Any] = {"redis": ByRedis, "kafka": ByKafkaOfFour, "nats": ByNats, "mqtt": ByMqtt}
SENT = 2_000  # messages at once
AHEAD = 20_000  # messages that the sender may be ahead of the reader


def payloads(rows: int, each: int, keys: int) -> Iterator[bytes]:
    chance = random.Random(0)
    numbers = [chance.gauss(0, 1) for _ in range(1_000)]
    for start in range(0, rows, each):
        some = [
            {
                "number": row,
                "sensor": f"s{row % keys}",
                "y": numbers[row % 997],
                "a": numbers[row % 991],
                "b": row % 7,
            }
            for row in range(start, min(rows, start + each))
        ]
        yield json.dumps(some if each > 1 else some[0]).encode()


def send(broker: Any, rows: int, each: int, keys: int, read: Any) -> None:
    """Send all messages, at most `AHEAD` before the reader."""
    sent, messages = 0, payloads(rows, each, keys)
    while block := list(itertools.islice(messages, SENT)):
        while sent - read.value > AHEAD:
            time.sleep(0.01)
        broker.send(block)
        sent += len(block)


def measure(name: str, rows: int, each: int, keys: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        broker = BROKERS[name](Path(folder))
        try:
            return measured(name, broker, rows, each, keys)
        finally:
            broker.stop()


def measured(name: str, broker: Any, rows: int, each: int, keys: int) -> dict[str, Any]:
    read = multiprocessing.Value("q", 0)
    subscription: Any = subscribe(broker.url)
    source = BrokerSource(subscription, {"x": ["a", "b"], "y": "y"})
    source.resume(START)
    batches = recut(source.batches(), 1_000)
    sender = multiprocessing.Process(target=send, args=(broker, rows, each, keys, read))
    is_live = name in ("redis", "mqtt")  # a session of MQTT must be there first
    if name == "mqtt":
        next(subscription.messages(None))
        subscription.close()
    if not is_live:
        read.value = rows  # it need not wait
    sender.start()
    if not is_live:
        sender.join()
    done, early, started, used = 0, 0, time.perf_counter(), time.process_time()
    for batch in batches:
        done += batch.num_read
        read.value = max(read.value, done // each)
        source.acknowledge(source.place_at(done))
        if done >= rows // 10 and not early:
            early = resident()
        if done >= rows:
            break
    seconds, used = time.perf_counter() - started, time.process_time() - used
    late = resident()
    sender.join()
    batches.close()
    rates = {"rows/s": f"{rows / seconds:,.0f}", "rows/CPU s": f"{rows / used:,.0f}"}
    return {**rates, "memory (MB)": f"{early / 1e6:.0f}, {late / 1e6:.0f}"}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", nargs="+", default=[*BROKERS], choices=[*BROKERS])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rows-per-message", type=int, default=1)
    parser.add_argument("--keys", type=int, nargs="+", default=[1, 100, 10_000])
    arguments = parser.parse_args()
    for name, keys in itertools.product(arguments.brokers, arguments.keys):
        found = measure(name, arguments.rows, arguments.rows_per_message, keys)
        print(f"{name}, {keys:,} keys: {found}", flush=True)


if __name__ == "__main__":
    main()
