"""`evidentia serve` as a process: kills, a graceful stop, logs."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx
import numpy as np
import pytest

from evidentia.__main__ import main
from tests.service.conftest import engine_of, fed, payloads_of, readings

CONFIG = """
checkpoint = "state"
checkpoint_every = 0.05

[server]
port = 0

[streams.s]
source = "readings.ndjson"
key = "sensor"
batch_size = 10

[streams.s.monitors.level]
kind = "run_lengths"
columns = "pressure"
model = { type = "NormalInverseGamma", scale = 1.0 }
hazard = 0.01
"""
COMMAND = [sys.executable, "-m", "evidentia", "serve", "service.toml"]


@contextmanager
def serving(folder):
    """A process in a folder, killed at the end if it still runs, and a client of its API."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = process.stdout.readline().removeprefix("Listening on ").strip()
            assert url, (folder / "log").read_text()
            with httpx.Client(base_url=url, timeout=10) as client:
                yield process, client
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def rows_of(client):
    return sum(one["rows"] for one in client.get("/api").json()["streams"].values())


def wait_for(client, rows):
    end = time.monotonic() + 60
    while rows_of(client) < rows:
        assert time.monotonic() < end
        time.sleep(0.02)


def evidences(client):
    found = client.get("/api/streams/s/monitors/level/keys").json()["keys"]
    return {one["key"]: (one["rows"], one["log_evidence"]) for one in found}


def expected_of(rows):
    """The same of an engine that nothing interrupts."""
    engine = engine_of()
    fed(engine, rows)
    records = engine.records["level"].items()
    return {key: (record.num_observations, list(record.log_evidence)) for key, record in records}


@pytest.mark.services
def test_rows_count_once_however_often_the_process_is_killed(tmp_path):
    """Lines are appended in random parts, and kill -9 comes at random moments."""
    (tmp_path / "service.toml").write_text(CONFIG)
    rows = readings(1000)
    data, generator = b"".join(payloads_of(rows)), np.random.default_rng(0)
    cuts = [0, *sorted(generator.choice(len(data), 40, replace=False).tolist()), len(data)]
    parts = [data[first:last] for first, last in itertools.pairwise(cuts)]
    for kill in range(5):
        with serving(tmp_path) as (process, client), (tmp_path / "readings.ndjson").open("ab") as file:
            for part in parts[8 * kill : 8 * (kill + 1)]:
                file.write(part)
                file.flush()
                time.sleep(float(generator.uniform(0, 0.1)))
            process.send_signal(signal.SIGKILL)
            process.wait()
    with serving(tmp_path) as (process, client):
        with (tmp_path / "readings.ndjson").open("ab") as file:
            file.write(b"".join(parts[40:]))
        wait_for(client, len(rows))
        found = evidences(client)
        process.terminate()
        assert process.wait(30) == 0
    assert found == expected_of(rows)
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sum(line["event"] == "listening" for line in log) == 6
    resumed = [line["rows"] for line in log if line["event"] == "resumed"]
    assert resumed == sorted(resumed) and 0 < resumed[-1] <= len(rows)


@pytest.fixture
def small_disk(tmp_path):
    """A folder with a disk of its own, of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.services
def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path, small_disk):
    """Also if the process is killed meanwhile; a dead letter is written once."""
    config = CONFIG.replace('"state"', '"disk/state"')
    config = config.replace('key = "sensor"', 'key = "sensor"\ndead_letters = "disk/letters.jsonl"')
    (tmp_path / "service.toml").write_text(config)
    rows = readings(200)
    lines = payloads_of(rows)
    with (tmp_path / "readings.ndjson").open("ab") as file, serving(tmp_path) as (process, client):
        file.write(b"".join(lines[:180]))
        file.flush()
        wait_for(client, 180)
        with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)) == 4096:
                pass
        file.write(b"".join([*lines[180:300], b"not json\n", *lines[300:]]))
        file.flush()
        end = time.monotonic() + 30
        while "letters.jsonl cannot be written: No space left" not in client.get("/healthz").text:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert client.get("/healthz").status_code == 200 and rows_of(client) <= 300
        process.kill()
        process.wait()
    (small_disk / "filler").unlink()
    with serving(tmp_path) as (process, client):
        wait_for(client, len(rows))
        found = evidences(client)
        process.terminate()
        assert process.wait(30) == 0
    assert found == expected_of(rows)
    assert len((small_disk / "letters.jsonl").read_text().splitlines()) == 1
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["event"] for line in log} >= {"dead letter failed", "resumed"}


@pytest.mark.services
def test_sigterm_ends_it_with_a_checkpoint_also_while_a_page_listens(tmp_path):
    (tmp_path / "service.toml").write_text(CONFIG.replace("0.05", "1e9"))
    (tmp_path / "readings.ndjson").write_bytes(b"".join(payloads_of(readings(50))))
    with serving(tmp_path) as (process, client):
        wait_for(client, 150)
        with client.stream("GET", "/api/events") as events:
            next(events.iter_lines())
            started = time.monotonic()
            process.terminate()
            assert process.wait(30) == 0
            assert time.monotonic() - started < 5
    assert (tmp_path / "state" / "s" / "checkpoint").exists()
    with serving(tmp_path) as (_, client):
        wait_for(client, 150)
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["rows"] for line in log if line["event"] == "resumed"] == [150]
    for line in log:
        assert {"time", "level", "event"} <= line.keys()


@pytest.mark.services
def test_a_service_without_streams_left_ends(tmp_path):
    (tmp_path / "service.toml").write_text(CONFIG)
    (tmp_path / "readings.ndjson").mkdir()
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    failed = [json.loads(line) for line in done.stderr.splitlines() if '"failed"' in line]
    assert failed[0]["reason"].endswith("readings.ndjson cannot be read: Is a directory.")


def test_mistakes_end_with_one_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "service.toml"
    for wrong, message in {
        CONFIG.replace("batch_size", "batchsize"): "streams.s.batchsize is not a key of this table.",
        CONFIG.replace(
            "readings.ndjson", "ftp://x/y"
        ): "streams.s.source: the URL of a broker must be one of",
        CONFIG.replace('kind = "run_lengths"', 'kind = "changes"').replace(
            "hazard = 0.01", ""
        ): "model must be one of",
        CONFIG.replace("port = 0", 'host = "192.0.2.1"'): "cannot listen on 192.0.2.1",
    }.items():
        config.write_text(wrong)
        assert main(["serve", "service.toml"]) == 2
        assert message in capsys.readouterr().err
    assert main(["serve", "none.toml"]) == 2
    assert "none.toml cannot be read" in capsys.readouterr().err


def test_check(tmp_path, monkeypatch, capsys):
    (tmp_path / "service.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "service.toml", "--check"]) == 0
    assert "service.toml is valid: s." in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["service.toml"]
