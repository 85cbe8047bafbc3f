"""Real brokers: readers killed at any moment, brokers killed and back, poison, slow readers."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import nats
import numpy as np
import pytest
import redis

from evidentia.brokers.addresses import subscribe
from evidentia.errors import DataError
from tests.brokers.servers import ByKafka, ByKafkaOfFour, ByMqtt, ByNats, ByRedis

pytestmark = pytest.mark.services

READER = Path(__file__).with_name("one_reader.py")
KILLS = 12  # of each small reader; the command is killed 40 times
ROWS = 12_000


BROKERS = [ByRedis, ByKafka, ByKafkaOfFour, ByMqtt, ByNats]


@pytest.fixture
def broker(request, tmp_path):
    """A broker of the class that the test is given."""
    found = request.param(tmp_path / "broker")
    yield found
    found.stop()


def rows(count: int) -> list[dict]:
    values = np.random.default_rng(3).standard_normal(count).tolist()
    return [{"number": number, "y": value} for number, value in enumerate(values)]


def payloads_of(many: list[dict], poison: float = 0.0) -> list[bytes]:
    """Messages of 0 to 60 rows, some longer than a batch, and poison in between."""
    chance, found, start = random.Random(4), [], 0
    while start < len(many):
        size = chance.choice([0, 1, 1, 2, 3, 5, 8, 60])
        if part := many[start : start + size]:
            found.append(json.dumps(part).encode())
        if chance.random() < poison:
            found.append(b"poison %d" % start)
        start += size
    return found


# Readers that are killed
# ----------------------------------------------------------------------------------------------


def reader(broker, folder: Path) -> subprocess.Popen:
    folder.mkdir(exist_ok=True)
    words = [sys.executable, READER, broker.url, folder, str(ROWS), *broker.options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen) -> dict:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("broker", BROKERS, indirect=True)
def test_a_reader_killed_at_any_moment_counts_each_row_once(broker, tmp_path):
    """To the last bit, where the order of messages is fixed: not between Kafka's partitions."""
    if isinstance(broker, ByMqtt):  # the session begins when a reader has been there
        first = subscribe(broker.url)
        list(islice(first.messages(None), 4))
        first.close()
    payloads = payloads_of(rows(ROWS), poison=0.01)
    half = len(payloads) // 2
    broker.send(payloads[:half])
    later = threading.Timer(10.0, broker.send, [payloads[half:]])
    later.start()
    chance = random.Random(5)
    for _ in range(KILLS):
        process = reader(broker, tmp_path / "killed")
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.25))
        process.kill()
        process.communicate()
    found = result(reader(broker, tmp_path / "killed"))
    later.join()
    numbers = np.arange(ROWS)
    assert found["rows"] == ROWS
    assert (found["numbers"], found["squares"]) == (numbers.sum(), (numbers**2).sum())
    letters = [json.loads(line) for line in (tmp_path / "killed" / "letters.jsonl").read_text().splitlines()]
    if not isinstance(broker, ByMqtt):  # where the poison may come twice, as it has no number
        assert len(letters) == sum(one.startswith(b"poison") for one in payloads)
    if isinstance(broker, ByKafkaOfFour | ByMqtt):
        assert found["log evidence"] == pytest.approx(json_evidence(rows(ROWS)), rel=1e-9)
    else:
        assert found == result(reader(broker, tmp_path / "whole"))


def json_evidence(many: list[dict]) -> float:
    from tests.brokers.one_reader import log_evidence

    values = np.array([row["y"] for row in many], np.float32).astype(float)
    return log_evidence({"rows": len(many), "sum": values.sum(), "sum of squares": (values**2).sum()})


COMMAND_ROWS, COMMAND_KILLS, LAST = 6_000, 40, 100
SMALL = "--num-particles", "64", "--reservoir-size", "500", "--batch-size", "100", "--checkpoint-every", "0"


class Command:
    """`evidentia stream` on Redis, in a folder of its own."""

    def __init__(self, url: str, folder: Path):
        self.folder = folder
        words = "-m", "linear", "-t", "y", "--features", "number", *SMALL, "--json", "--quiet"
        files = "-c", folder / "kept", "--out", folder / "out", "--dead-letters", folder / "letters.jsonl"
        folder.mkdir(exist_ok=True)
        self.words = [sys.executable, "-m", "evidentia", "stream", url, *words, *map(str, files)]
        self.start()

    def start(self) -> None:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(self.words, text=True, **pipes)

    def counted(self) -> int:
        journal = self.folder / "out" / "updates.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        return json.loads(whole[-1])["num_observations"] if whole else 0

    def finished(self) -> dict:
        """The result, once all rows are counted."""
        deadline = time.monotonic() + 200
        while self.counted() < COMMAND_ROWS:
            assert time.monotonic() < deadline and self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return json.loads(out)

    def updates(self) -> list[dict]:
        lines = (self.folder / "out" / "updates.jsonl").read_text().splitlines()
        return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("broker", [ByRedis], indirect=True)
def test_the_command_killed_forty_times_gives_the_same_log_evidence(broker, tmp_path):
    scaled = [{**row, "number": row["number"] / COMMAND_ROWS} for row in rows(COMMAND_ROWS)]
    payloads = payloads_of(scaled, poison=0.02)
    half = len(payloads) // 2
    broker.send(payloads[:half])
    chance = random.Random(6)
    command = Command(broker.url, tmp_path / "killed")
    for kill in range(COMMAND_KILLS):
        if kill == COMMAND_KILLS // 2:
            broker.send(payloads[half:-LAST])
        time.sleep(chance.uniform(0.5, 7.0))
        command.process.kill()
        command.process.communicate()
        command.start()
    broker.send(payloads[-LAST:])  # for the last process, which a signal could end before it listens
    found = command.finished()
    whole = Command(broker.url, tmp_path / "whole")
    expected = whole.finished()
    for name in ("num_observations", "num_read", "log_evidence", "standard_error"):
        assert found[name] == expected[name]
    assert found["data"]["observations"] == expected["data"]["observations"]
    assert command.updates() == whole.updates()
    letters = (tmp_path / "killed" / "letters.jsonl").read_text().splitlines()
    assert len(letters) == sum(one.startswith(b"poison") for one in payloads)


# Brokers that are killed
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", [ByRedis, ByKafka, ByMqtt, ByNats], indirect=True)
def test_a_broker_killed_and_back_loses_and_repeats_nothing(broker):
    """Of Kafka's mock, all connections are lost and refused."""
    payloads = [json.dumps({"number": number}).encode() for number in range(600)]
    subscription = subscribe(broker.url)
    messages = subscription.messages(None)
    for _ in range(5):
        next(messages)
    found = []
    for part in range(3):
        broker.send(payloads[200 * part : 200 * (part + 1)])
        while len(found) < 200 * (part + 1):
            if (message := next(messages)) is not None:
                found.append(message)
        subscription.acknowledge(found[-50].position)
        if part < 2:
            time.sleep(2.5)  # Mosquitto writes to disk each second
            broker.kill()
            started = time.monotonic()
            for _ in range(5):
                assert next(messages) is None
                assert time.monotonic() - started < 0.6
                started = time.monotonic()
            broker.start()
    late = time.monotonic() + 2
    while time.monotonic() < late:
        assert next(messages) is None
    assert [message.payload for message in found] == payloads
    subscription.close()


@pytest.mark.parametrize("broker", [ByRedis], indirect=True)
def test_entries_removed_before_they_were_read_are_an_error(broker):
    broker.send([b"{}"] * 20)
    subscription = subscribe(broker.url)
    first = next(message for message in subscription.messages(None) if message is not None)
    with redis.Redis(port=broker.port) as client:
        client.xtrim("readings", maxlen=15, approximate=False)
    with pytest.raises(DataError, match="4 entries after .* were removed from the stream before they"):
        list(islice(subscription.messages(first.position), 30))
    subscription.close()


@pytest.mark.parametrize("broker", [ByNats], indirect=True)
def test_messages_removed_from_a_stream_are_an_error(broker):
    broker.send([b"{}"] * 20)

    async def purged() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{broker.port}")
        await client.jetstream().purge_stream("readings", seq=11)
        await client.close()

    asyncio.run(purged())
    subscription = subscribe(broker.url)
    with pytest.raises(DataError, match="messages 4 to 10 were removed from the stream"):
        list(islice(subscription.messages({"seq": 3}), 30))
    with pytest.raises(DataError, match="ends at message 20, but 99 were read: it was created anew"):
        list(islice(subscription.messages({"seq": 99}), 30))
    others = subscribe(broker.url.replace("readings", "others"))
    with pytest.raises(DataError, match="the stream no longer exists"):
        list(islice(others.messages({"seq": 3}), 30))


@pytest.mark.parametrize("broker", [ByKafka], indirect=True)
def test_offsets_that_kafka_no_longer_has_are_an_error(broker):
    broker.send([b"{}"] * 20)
    subscription = subscribe(broker.url)
    with pytest.raises(DataError, match="no longer has the messages of partition 0 from offset 1,000 on"):
        list(islice(subscription.messages({"0": 1000}), 100))
    subscription.close()


@pytest.mark.parametrize("broker", [ByRedis, ByNats], indirect=True)
def test_a_slow_reader_holds_few_messages_in_memory(broker):
    """2,000 messages of 50 kB, 100 MB in all. Of Kafka, librdkafka bounds the memory."""
    payload = json.dumps({"number": 0, "more": "x" * 50_000}).encode()
    broker.send([payload] * 20)
    subscription = subscribe(broker.url)
    messages = subscription.messages(None)
    list(islice(messages, 10))
    before = memory()
    broker.send([payload] * 2_000)
    for _ in range(5):
        time.sleep(0.5)
        next(messages)
    assert memory() - before < 60e6
    subscription.close()


@pytest.mark.parametrize("broker", [ByMqtt], indirect=True)
def test_mosquitto_sends_no_more_than_the_window(broker):
    subscription = subscribe(broker.url, window=20)
    messages = subscription.messages(None)
    list(islice(messages, 4))
    payloads = [b'{"number": %d}' % number for number in range(300)]
    broker.send(payloads)
    found = []
    while len(found) < 20:
        found += [message for message in islice(messages, 1) if message is not None]
    assert list(islice(messages, 4)) == [None] * 4  # the rest waits at the broker
    while len(found) < 300:
        subscription.acknowledge(found[-1].position)
        found += [message for message in islice(messages, 1) if message is not None]
    assert [message.payload for message in found] == payloads
    subscription.close()


def memory() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
