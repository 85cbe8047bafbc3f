"""`evidentia stream` on the stream of a broker, which ends here so that the command does."""

import json

import numpy as np
import pytest

from tests.brokers.fakes import FakeBroker

URL = "redis://me:hunter2@host/readings"
# The same small problem as in test_stream.py, so that few programs are compiled.
OPTIONS = *("-m", "linear", "-t", "y", "--num-particles", "64", "--reservoir-size", "500"), "--quiet"
BATCHES = "--batch-size", "100", "--json"
ROWS = np.random.default_rng(5).standard_normal((400, 3)).round(3)


def messages() -> list[bytes]:
    """The rows in messages of seven, which straddle batches."""
    rows = [dict(zip(("a", "b", "y"), row, strict=True)) for row in ROWS.tolist()]
    return [json.dumps(rows[start : start + 7]).encode() for start in range(0, len(rows), 7)]


@pytest.fixture
def broker(monkeypatch):
    """Return a function that says what the broker has."""

    def has(payloads):
        found = FakeBroker([payloads])
        monkeypatch.setattr("evidentia.brokers.source.subscribe", lambda url, **_: found)
        return found

    return has


@pytest.fixture
def stream(run):
    def stream(*more):
        code, out, err = run("stream", URL, *OPTIONS, *BATCHES, "--features", "a,b", *more)
        return code, json.loads(out) if out else None, err

    return stream


@pytest.mark.slow
def test_the_numbers_are_those_of_a_file(broker, stream, run, tmp_path):
    broker(messages())
    code, found, _ = stream()
    assert code == 0 and found["completed"] and found["num_read"] == 400
    path = tmp_path / "rows.csv"
    np.savetxt(path, ROWS, fmt="%.3f", delimiter=",", header="a,b,y", comments="")
    _, out, _ = run("stream", path, *OPTIONS, *BATCHES)
    of_file = json.loads(out)
    assert found["log_evidence"] == of_file["log_evidence"]
    assert found["data"]["observations"] == of_file["data"]["observations"]


def test_a_resumed_run_is_as_an_uninterrupted_one(broker, stream, tmp_path):
    """It stops inside a message: batches of 100 rows, messages of 7."""
    broker(messages())
    whole = stream()[1]
    first = broker([*messages()[:30], b"?"])  # 210 rows
    kept = "--checkpoint", tmp_path / "kept"
    code, found, _ = stream(*kept)
    assert code == 2 and found["num_observations"] == 200
    assert first.acknowledged[-1] == {"0": 28}  # the message with rows 196 to 202 will come again
    broker(messages())
    _, found, err = stream(*kept)
    assert "Resuming from 200 rows" in err
    assert found["log_evidence"] == whole["log_evidence"]
    assert found["data"]["observations"] == whole["data"]["observations"]


def test_a_full_disk_acknowledges_nothing(broker, stream, tmp_path, monkeypatch):
    from evidentia.checkpoint.folder import CheckpointFolder
    from evidentia.errors import CheckpointError

    def full(*_):
        raise CheckpointError("No space left on device.")

    monkeypatch.setattr(CheckpointFolder, "write", full)
    found = broker(messages())
    code, _, err = stream("--checkpoint", tmp_path / "kept")
    assert code == 2 and "No space left" in err
    assert found.acknowledged == []


def test_without_a_checkpoint_what_is_processed_is_acknowledged(broker, stream):
    found = broker(messages())
    stream()
    assert found.acknowledged[-1] == {"0": 58}


def test_poison_goes_to_a_file_and_is_passed(broker, stream, tmp_path):
    found = broker([b"?", *messages(), b"{}"])
    letters = tmp_path / "letters.jsonl"
    kept = "--checkpoint", tmp_path / "kept"
    code, result, _ = stream("--dead-letters", letters, *kept)
    assert code == 0 and result["num_observations"] == 400
    reasons = [json.loads(line)["reason"] for line in letters.read_text().splitlines()]
    assert len(reasons) == 2 and "not JSON" in reasons[0] and "no column 'a'" in reasons[1]
    assert found.acknowledged[-1] == {"0": 60}


def test_poison_is_an_error_that_names_the_option(broker, stream):
    broker([*messages()[:16], b"?"])
    code, result, err = stream()
    assert code == 2 and result["num_observations"] == 100  # the last 12 rows are no batch
    assert 'the message at {"0": 17} cannot be used' in err and "--dead-letters FILE" in err


def test_credentials_are_nowhere(broker, stream, tmp_path):
    broker([*messages(), b"?"])
    _, result, err = stream("--checkpoint", tmp_path / "kept", "--out", tmp_path / "out")
    assert "hunter2" not in err + json.dumps(result)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if b"hunter2" in path.read_bytes()]


@pytest.mark.parametrize(
    "more, message",
    [
        (["--follow"], "--follow is for files; redis://host/readings is a broker's stream"),
        (["--encoding", "latin-1"], "--encoding is for files"),
        (["--sep", ";"], "--sep, --decimal, --na, --comment or --table is for files"),
        (["--payload", "xml"], "payload must be one of json, arrow, avro; got 'xml'"),
    ],
)
def test_options_that_do_not_fit(broker, stream, more, message):
    broker(messages())
    code, _, err = stream(*more)
    assert code == 2 and message in " ".join(err.split())


def test_columns_must_be_named_and_the_stream_be_alone(run):
    code, _, err = run("stream", URL, *OPTIONS)
    assert code == 2 and "redis://host/readings has no header: name its columns with --features" in err
    code, _, err = run("stream", URL, "rows.csv", *OPTIONS)
    assert code == 2 and "the URL of a broker must be the only source; got 2" in err


def test_a_checkpoint_of_another_stream_is_rejected(broker, stream, tmp_path):
    broker(messages()).name = "redis://host/others"
    kept = "--checkpoint", tmp_path / "kept"
    stream(*kept)
    broker(messages())
    code, _, err = stream(*kept)
    assert code == 2 and "is of a run on redis://host/others; got fake://host/topic" in err
