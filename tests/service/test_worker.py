import errno
import json
import math
import os
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from evidentia.checkpoint.folder import CheckpointFolder
from evidentia.errors import CheckpointError, DataError
from evidentia.service.sources import FollowedFile, open_source
from evidentia.service.worker import Worker
from tests.service.conftest import Given, engine_of, fed, payloads_of, readings, settings_of


def worker_of(
    given, folder, *, every=0.0, settings=None, deliver=lambda alarm, hooks: None, webhooks=(), **limits
):
    settings = settings or settings_of()
    path = None if folder is None else folder / "state"
    engine = engine_of(settings, webhooks)
    return Worker(engine, settings.streams["s"], given, path, every, folder or Path(), deliver, **limits)


def finished(worker, rows, timeout=20.0):
    """Start a worker, and stop it once so many rows are in batches."""
    worker.start()
    end = time.monotonic() + timeout
    while worker.engine.counts.rows < rows and worker.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    return ended(worker)


def ended(worker):
    worker.stop()
    worker.join(20.0)
    assert not worker.is_alive()
    return worker.engine


def evidences(engine):
    return {key: record.log_evidence for key, record in engine.records["level"].items()}


def test_a_stopped_worker_goes_on_where_it_was(tmp_path):
    rows = readings()
    whole = engine_of()
    fed(whole, rows)
    given = Given(payloads_of(rows[:251]))
    first = worker_of(given, tmp_path)
    finished(first, 240)
    assert first.state == "stopped" and given.is_closed
    assert given.acknowledged[-1] == {"next": 251}  # with the rows of incomplete batches
    second = worker_of(Given(payloads_of(rows)), tmp_path)
    engine = finished(second, 600)
    assert evidences(engine) == evidences(whole)
    assert engine.counts == whole.counts


def test_what_is_not_saved_is_not_acknowledged(tmp_path):
    given = Given(payloads_of(readings(40)))
    worker = worker_of(given, tmp_path, every=1e9)
    worker.start()
    while worker.engine.counts.rows < 120:
        time.sleep(0.01)
    assert given.acknowledged == []
    assert worker.ask(worker.save).result(10) is True
    assert given.acknowledged == [{"next": 120}]
    ended(worker)


def test_messages_without_rows_go_to_the_dead_letters(tmp_path):
    settings = settings_of(dead_letters="letters.jsonl")
    payloads = [
        *payloads_of(readings(10)),
        b"not json",
        b'[{"sensor": "s0"}, {"sensor": "s0", "pressure": 1}]',
    ]
    engine = finished(worker_of(Given(payloads), tmp_path, settings=settings), 30)
    letters = [json.loads(line) for line in (tmp_path / "letters.jsonl").read_text().splitlines()]
    assert [letter["position"] for letter in letters] == [{"next": 31}, {"next": 32}]
    assert "not JSON" in letters[0]["reason"] and letters[1]["reason"] == "pressure is missing"
    assert engine.counts.rejected == 2 and engine.rows.num_waiting == 1


def test_alarms_are_delivered_again_until_they_were(tmp_path):
    rows, sent = readings(), []

    def deliver(alarm, hooks):
        sent.append((alarm.id, hooks))

    finished(worker_of(Given(payloads_of(rows)), tmp_path, deliver=deliver, webhooks=("a", "b")), 600)
    ((alarm, hooks),) = sent
    assert hooks == {"a", "b"}
    second = worker_of(Given(payloads_of(rows)), tmp_path, deliver=deliver, webhooks=("a", "b"))
    finished(second, 600)
    assert sent[1] == (alarm, {"a", "b"})
    second.engine.delivered(alarm, "a")
    assert second.engine.undelivered[alarm][1] == {"b"}
    second.engine.delivered(alarm, "b")
    assert second.engine.undelivered == {}


def test_an_error_ends_the_stream_and_is_told(tmp_path):
    class Broken(Given):
        def messages(self, position):
            raise DataError("the topic is gone")
            yield

    worker = worker_of(Broken([]), tmp_path)
    finished(worker, 1)
    assert (worker.state, worker.problem) == ("failed", "the topic is gone")


def test_a_full_disk_is_no_end(tmp_path, monkeypatch):
    given = Given(payloads_of(readings(40)))
    worker = worker_of(given, tmp_path, every=0.05)
    is_full = [True]

    def write(folder, content, summary, write=CheckpointFolder.write):
        if is_full[0]:
            raise CheckpointError("the disk is full")
        write(folder, content, summary)

    monkeypatch.setattr("evidentia.checkpoint.folder.CheckpointFolder.write", write)
    worker.start()
    while worker.engine.counts.rows < 120 or worker.problem is None:
        time.sleep(0.01)
    assert (worker.state, worker.problem, given.acknowledged) == ("running", "the disk is full", [])
    is_full[0] = False
    ended(worker)
    assert (worker.state, worker.problem) == ("stopped", None)
    assert given.acknowledged[-1] == {"next": 120}


def test_a_dead_letter_waits_for_room_on_the_disk(tmp_path, monkeypatch):
    """No checkpoint comes before it, and nothing is read meanwhile."""
    settings = settings_of(dead_letters="letters.jsonl")
    given = Given([*payloads_of(readings(10)), b"not json", *payloads_of(readings(10))])
    worker = worker_of(given, tmp_path, settings=settings, room_every=0.01)
    is_full = [True]

    def fsync(file, fsync=os.fsync):
        if is_full[0] and os.path.samestat(os.fstat(file), os.stat(tmp_path / "letters.jsonl")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    monkeypatch.setattr("os.fsync", fsync)
    worker.start()
    while worker.problem is None:
        time.sleep(0.01)
    time.sleep(0.1)
    assert worker.state == "running" and worker.engine.counts.messages == 31
    assert worker.problem == f"{tmp_path / 'letters.jsonl'} cannot be written: No space left on device."
    assert all(position["next"] <= 30 for position in given.acknowledged)
    is_full[0] = False
    while worker.engine.counts.rows < 60:
        time.sleep(0.01)
    ended(worker)
    assert (worker.state, worker.problem) == ("stopped", None)
    assert len((tmp_path / "letters.jsonl").read_text().splitlines()) == 1


def test_a_worker_that_ends_on_a_full_disk_reads_the_message_again(tmp_path, monkeypatch):
    settings = settings_of(dead_letters="letters.jsonl")
    payloads = [*payloads_of(readings(10)), b"not json"]

    def append(*_):
        raise CheckpointError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr("evidentia.brokers.dead_letters.DeadLetters.append", append)
        worker = worker_of(Given(payloads), tmp_path, settings=settings)
        worker.start()
        while worker.problem is None:
            time.sleep(0.01)
        ended(worker)
        assert (worker.state, worker.problem) == ("failed", "the disk is full")
    again = worker_of(Given(payloads), tmp_path, settings=settings)
    again.start()
    while again.engine.counts.messages < 31:
        time.sleep(0.01)
    assert ended(again).counts.rejected == 1
    assert len((tmp_path / "letters.jsonl").read_text().splitlines()) == 1


def test_a_slow_monitor_makes_the_broker_wait(tmp_path, monkeypatch):
    """Nothing is read while a batch is processed, so memory does not grow."""
    read, is_slow, may_go = [], threading.Event(), threading.Event()

    class Counted(Given):
        def messages(self, position):
            for message in super().messages(position):
                read.append(message)
                yield message

    worker = worker_of(Counted(payloads_of(readings())), tmp_path, gathered_rows=60)

    def slow(process=worker.engine.process):
        is_slow.set()
        assert may_go.wait(20)
        return process()

    monkeypatch.setattr(worker.engine, "process", slow)
    worker.start()
    assert is_slow.wait(20)
    time.sleep(0.1)
    assert 30 <= len(read) <= 60 and worker.engine.rows.num_waiting == len(read)
    may_go.set()
    while worker.engine.counts.rows < 600:
        time.sleep(0.01)
    ended(worker)


class Clock:
    """The wall clock of this process, to be moved."""

    def __init__(self, monkeypatch):
        self.moved, time_of = 0.0, time.time
        clock = self

        class Moved(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.fromtimestamp(time_of() + clock.moved, tz)

        monkeypatch.setattr("time.time", lambda: time_of() + self.moved)
        monkeypatch.setattr("evidentia.service.engine.datetime", Moved)


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_changes_only_what_tells_of_it(tmp_path, monkeypatch, jump):
    """Results, alarms and checkpoints go on; lag and times of alarms are those that it tells."""
    clock, rows = Clock(monkeypatch), readings()
    settings = settings_of(time="when")
    timed = [{**row, "when": time.time()} for row in rows]
    whole = engine_of()
    fed(whole, rows)

    class Jumping(Given):
        def messages(self, position):
            for at, message in enumerate(super().messages(position)):
                clock.moved = jump if at >= 300 else 0.0
                yield message

    given, saved = Jumping(payloads_of(timed)), []
    worker = worker_of(given, tmp_path, every=0.05, settings=settings)
    assert math.isnan(worker.lag())  # no row yet
    worker.start()
    while worker.engine.counts.rows < 600:
        time.sleep(0.01)
    while len(saved := given.acknowledged) == 0:
        time.sleep(0.01)
    lag = worker.lag()
    assert lag == 0 if jump < 0 else abs(lag - jump) < 60
    assert abs(worker.checkpoint_time - jump - (time.time() - clock.moved)) < 60 and saved
    engine = ended(worker)
    assert evidences(engine) == evidences(whole)
    assert [alarm.id for alarm in engine.alarms] == [alarm.id for alarm in whole.alarms]
    told = datetime.fromisoformat(engine.alarms[-1].time).timestamp()
    assert abs(told - jump - timed[-1]["when"]) < 60
    resumed = worker_of(Given(payloads_of(timed)), tmp_path, settings=settings)
    finished(resumed, 600)
    assert resumed.lag() == pytest.approx(worker.lag(), abs=60)


def lines_of(source, position, count):
    found, messages = [], source.messages(position)
    for message in messages:
        if message is not None:
            found.append(message)
        if len(found) == count:
            break
    messages.close()
    return found


def test_a_followed_file_gives_each_line_once(tmp_path):
    path = tmp_path / "rows.ndjson"
    path.write_bytes(b'{"y": 1}\n\n{"y": 2}\n{"y": ')
    source = FollowedFile(path)
    first = lines_of(source, None, 2)
    assert [json.loads(one.payload)["y"] for one in first] == [1, 2]
    with path.open("ab") as file:
        file.write(b'3}\n{"y": 4}\n')
    after = lines_of(source, first[0].position, 3)
    assert [json.loads(one.payload)["y"] for one in after] == [2, 3, 4]
    with path.open("ab") as file:
        file.write(b'{"y": 5}\n' * 1000)
    (last,) = lines_of(source, after[-1].position, 1)
    assert json.loads(last.payload)["y"] == 5


def test_another_file_of_the_same_name_is_rejected(tmp_path):
    path = tmp_path / "rows.ndjson"
    path.write_bytes(b'{"y": 1}\n{"y": 2}\n')
    source = FollowedFile(path)
    position = lines_of(source, None, 2)[-1].position
    for content in (b'{"y": 1}\n', b'{"y": 7}\n{"y": 2}\n{"y": 3}\n'):
        path.write_bytes(content)
        with pytest.raises(DataError, match="was truncated or replaced since byte 18"):
            lines_of(source, position, 1)


def test_sources(tmp_path):
    assert open_source("a.ndjson", {}, tmp_path).path == tmp_path / "a.ndjson"
    assert open_source("file:///data/a.ndjson", {}, tmp_path).path == Path("/data/a.ndjson")
    assert open_source("redis://localhost/readings", {}, tmp_path).name == "redis://localhost/readings"
