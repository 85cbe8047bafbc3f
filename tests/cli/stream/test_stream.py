"""`evidentia stream`: every row counts exactly once, however a run ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import evidentia as ev
from evidentia.checkpoint.folder import CheckpointFolder
from evidentia.cli import main
from evidentia.cli.stream import run as stream_run
from evidentia.cli.stream.loop import Stop
from evidentia.errors import CheckpointError

# The same small problem as in test_session.py, so that few programs are compiled.
NUM_ROWS, SIZE = 650, 100
MODEL = ev.models.linear_regression(2)
SMALL = ("--num-particles", 64, "--reservoir-size", 500, "--batch-size", SIZE)
LINEAR = ("-m", "linear", "-t", "y", *SMALL)


@pytest.fixture(scope="module")
def columns():
    data, _ = MODEL.simulate(NUM_ROWS, seed=1)
    return {"a": data["x"][:, 0].astype(float), "b": data["x"][:, 1].astype(float), "y": data["y"]}


@pytest.fixture
def write(columns, tmp_path):
    """Write the first rows to a file and return its path."""

    def write(name="rows.csv", rows=NUM_ROWS, **others):
        table = pa.table({key: value[:rows] for key, value in {**columns, **others}.items()})
        path = tmp_path / name
        writer = pa.csv.write_csv if path.suffix == ".csv" else pa.parquet.write_table
        writer(table, path)
        return path

    return write


@pytest.fixture
def stream(capsys, monkeypatch):
    """Run the command and return its exit code, its JSON object or None, and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def stream(*words):
        code = main(["stream", *map(str, words), "--json", "--quiet"])
        out, err = capsys.readouterr()
        assert out.count("\n") == bool(out) and "Traceback" not in err
        return code, json.loads(out) if out else None, err

    return stream


def updates(folder):
    """The lines of updates without the seconds, which differ between runs."""
    lines = [json.loads(line) for line in (folder / "updates.jsonl").read_text().splitlines()]
    assert all(line.pop("seconds") >= 0 for line in lines)
    return lines


@pytest.fixture(scope="module")
def by_hand(columns):
    """Updates of `Online` for the same batches."""
    online = ev.Online(MODEL, ev.SGAIS(num_particles=64), seed=5, reservoir_size=500)
    found = []
    for start in range(0, NUM_ROWS, SIZE):
        rows = {name: values[start : start + SIZE] for name, values in columns.items()}
        found.append(online.update({"x": np.stack([rows["a"], rows["b"]], axis=1), "y": rows["y"]}))
    return found


def test_log_evidence_of_a_file(stream, write, columns, by_hand, tmp_path):
    code, found, err = stream(write(), *LINEAR, "--seed", 5, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    x = np.stack([columns["a"], columns["b"]], axis=1).astype(np.float32)
    exact = MODEL.exact_log_evidence({"x": x, "y": columns["y"]})
    assert abs(found["log_evidence"] - exact) < 4 * found["standard_error"]
    assert (found["num_observations"], found["num_dropped"], found["completed"]) == (NUM_ROWS, 0, True)
    assert (found["probabilities"], found["alarms"], found["resumed_from"]) == ({"linear": 1.0}, [], None)
    lines = updates(tmp_path / "out")
    assert [line["num_observations"] for line in lines] == [100, 200, 300, 400, 500, 600, 650]
    for column in ("log_evidence", "standard_error", "log_predictive", "num_annealing_steps"):
        expected = [getattr(update, column) for update in by_hand]
        assert [line["models"]["linear"][column] for line in lines] == expected
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == found
    assert "linear regression" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.slow
def test_several_models_as_a_person_sees_them(capsys, write, tmp_path):
    (tmp_path / "own.py").write_text(
        "import evidentia as ev\nnoisy = ev.models.linear_regression(2, noise_scale=2.0)\n"
    )
    words = ("stream", write("rows.parquet", 300), *LINEAR, "-m", f"{tmp_path}/own.py:noisy")
    assert main([*map(str, words), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert "linear has the highest log evidence" in out and "300 rows in order" in out
    assert err == ""


@pytest.mark.slow
def test_numbers_of_several_models_come_by_name(stream, write, tmp_path):
    (tmp_path / "own.py").write_text(
        "import evidentia as ev\nnoisy = ev.models.linear_regression(2, noise_scale=2.0)\n"
    )
    code, found, _ = stream(
        write(rows=300), *LINEAR, "-m", f"{tmp_path}/own.py:noisy", "--false-alarm-rate", 0.01
    )
    assert code == 0
    assert set(found["log_evidence"]) == set(found["standard_error"]) == {"linear", "noisy"}
    assert found["probabilities"]["linear"] + found["probabilities"]["noisy"] == pytest.approx(1)
    assert found["comparison"]["best"] == "linear"


def test_standard_input(stream, write, columns, monkeypatch, by_hand):
    read_end, write_end = os.pipe()
    table = pa.table(columns)

    def produce():
        with os.fdopen(write_end, "wb") as pipe, pa.ipc.new_stream(pipe, table.schema) as writer:
            writer.write_table(table, max_chunksize=170)

    producer = threading.Thread(target=produce)
    producer.start()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code, found, err = stream("-", *LINEAR, "--seed", 5)
    producer.join()
    assert (code, err) == (0, "")
    assert found["log_evidence"] == by_hand[-1].log_evidence


# Resuming
# -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_that_has_grown_is_read_from_where_it_was_left(stream, write, tmp_path, by_hand):
    words = (*LINEAR, "--seed", 5, "--checkpoint", tmp_path / "kept", "--out", tmp_path / "out")
    assert stream(write(rows=300), *words)[1]["num_observations"] == 300
    code, found, err = stream(write(), *words)
    assert code == 0
    assert f"Note: Resuming from 300 rows in the checkpoint in {tmp_path / 'kept'}.\n" == err
    assert (found["num_observations"], found["resumed_from"]) == (NUM_ROWS, 300)
    assert found["log_evidence"] == by_hand[-1].log_evidence
    again = stream(write(), *words)[1]  # no new rows
    assert (again["resumed_from"], again["log_evidence"]) == (NUM_ROWS, found["log_evidence"])
    assert [line["num_observations"] for line in updates(tmp_path / "out")] == [
        100,
        200,
        300,
        400,
        500,
        600,
        650,
    ]


@pytest.mark.slow
def test_an_error_in_the_data_keeps_what_was_before_it(stream, write, columns, tmp_path):
    broken = columns["a"].copy()
    broken[[437, 439, 649]] = np.nan
    words = (*LINEAR, "--checkpoint", tmp_path / "kept", "--out", tmp_path / "out")
    table = pa.table({**columns, "a": broken})
    for number, part in enumerate((table[:420], table[420:])):
        pa.parquet.write_table(part, tmp_path / f"part-{number}.parquet")
    code, found, err = stream(tmp_path / "part-*.parquet", *words)
    assert code == 2
    assert "part-1.parquet has missing values in 3 of the 230 rows" in err and "data row 18" in err
    assert (found["num_observations"], found["completed"]) == (400, False)
    code, found, _ = stream(tmp_path / "part-*.parquet", *words, "--missing", "drop")
    assert code == 0
    assert (found["resumed_from"], found["num_observations"], found["num_dropped"]) == (400, 647, 3)
    assert [line["num_observations"] for line in updates(tmp_path / "out")] == [
        100,
        200,
        300,
        400,
        500,
        600,
        647,
    ]


def test_half_a_line_is_read_again_once_it_is_whole(stream, write, tmp_path, columns):
    path, out = write(rows=300), tmp_path / "out"
    whole = path.read_bytes()
    words = (*LINEAR, "--seed", 5, "--checkpoint", tmp_path / "kept", "--out", out)
    lines = whole.splitlines(keepends=True)
    half = b"".join(lines[:201]) + lines[201].rsplit(b".", 1)[0]  # the last field without its fraction
    path.write_bytes(half)
    code, found, err = stream(path, *words)
    assert (code, found["num_observations"], found["completed"]) == (0, 201, True)
    assert "The last line has no line end" in err
    again = stream(path, *words)[1]
    assert (again["resumed_from"], again["num_observations"]) == (200, 201)
    assert again["log_evidence"] == found["log_evidence"]
    path.write_bytes(whole)
    code, found, err = stream(path, *words)
    assert (code, found["resumed_from"], found["num_observations"]) == (0, 200, 300)
    assert "no line end" not in err
    fresh = stream(path, *LINEAR, "--seed", 5)[1]
    assert found["log_evidence"] == fresh["log_evidence"]
    assert [line["num_observations"] for line in updates(out)] == [100, 200, 300]


@pytest.mark.parametrize("half", ["0.5", "0.5,", "0.5,1.5,-", "0.5,1.5,1e", '"0', "0.5,1.5,n"])
def test_a_half_line_that_is_no_row_waits_for_the_next_run(stream, write, tmp_path, half):
    path, words = write(rows=300), (*LINEAR, "--seed", 5, "--checkpoint", tmp_path / "kept")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:231]) + half.encode())
    code, found, err = stream(path, *words)
    assert (code, found["num_observations"], found["completed"]) == (0, 230, False)
    assert "The line has no line end: it may be half written." in err
    path.write_bytes(b"".join(lines[:231]) + half.encode() + b"\n")
    assert "has changed since" not in stream(path, *words)[2]


@pytest.fixture
def kept(stream, write, tmp_path):
    """A folder with a checkpoint of a run on rows.csv."""
    assert stream(write(rows=200), *LINEAR, "--checkpoint", tmp_path / "kept")[0] == 0
    return tmp_path / "kept"


def test_what_does_not_belong_together_is_refused(stream, write, kept):
    before = (kept / "checkpoint").read_bytes()
    path = write()
    for words, message in {
        ("--seed", 1): r"is of a run with --seed 0 (now 1). Give the same",
        ("--batch-size", 50, "--features", "a"): "with --features a, b (now a), --batch-size 100 (now 50)",
        ("--false-alarm-rate", 0.1): "--false-alarm-rate not given (now 0.1)",
    }.items():
        code, found, err = stream(path, *LINEAR, "--checkpoint", kept, *words)
        assert (code, found) == (2, None)
        assert message in err
    code, _, err = stream(write("before.csv"), path, *LINEAR, "--checkpoint", kept)
    assert code == 2
    assert "is of a run on rows.csv; got before.csv, rows.csv. New files must come after" in err
    code, found, err = stream(write(rows=150), *LINEAR, "--checkpoint", kept)
    assert (code, found) == (2, None)
    assert re.search(r"rows\.csv has [\d,]+ bytes but had [\d,]+ when the checkpoint in .* was written", err)
    assert (kept / "checkpoint").read_bytes() == before
    assert (
        stream(write(), write("later.csv", 100), *LINEAR, "--checkpoint", kept)[1]["num_observations"] == 750
    )


def test_the_file_of_a_model_may_be_moved(stream, write, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("import evidentia as ev\nnoisy = ev.models.linear_regression(2, noise_scale=2.0)\n")
    words = ("-t", "y", *SMALL, "--checkpoint", tmp_path / "kept")
    assert stream(write(rows=200), "-m", f"{own}:noisy", *words)[0] == 0
    moved = own.rename(tmp_path / "moved.py")
    code, found, _ = stream(write(rows=300), "-m", f"{moved}:noisy", *words)
    assert (code, found["resumed_from"], found["num_observations"]) == (0, 200, 300)


def test_damaged_checkpoints_and_those_of_others_are_refused(stream, write, kept, tmp_path):
    ev.Online(MODEL).save(tmp_path / "online")
    code, _, err = stream(write(), *LINEAR, "--checkpoint", tmp_path / "online")
    assert code == 2
    assert "a checkpoint that evidentia stream did not write" in err
    (kept / "checkpoint").write_bytes((kept / "checkpoint").read_bytes()[:-100])
    code, _, err = stream(write(), *LINEAR, "--checkpoint", kept)
    assert code == 2
    assert "is damaged" in err


def test_one_process_at_a_time(stream, write, kept):
    with CheckpointFolder(kept):
        code, found, err = stream(write(), *LINEAR, "--checkpoint", kept)
    assert (code, found) == (2, None)
    assert f"is in use by process {os.getpid()} on" in err


@pytest.mark.parametrize(("failures", "code"), [(3, 0), (1000, 2)])
def test_a_full_disk_is_a_note_as_long_as_the_run_goes_on(
    stream, write, tmp_path, monkeypatch, failures, code
):
    write_checkpoint, tried = CheckpointFolder.write, []

    def failing(self, content, summary):
        tried.append(content["session"]["position"])
        if len(tried) <= failures:
            raise CheckpointError("the checkpoint could not be written: No space left on device.")
        write_checkpoint(self, content, summary)

    monkeypatch.setattr(CheckpointFolder, "write", failing)
    words = (*LINEAR, "--checkpoint", tmp_path / "kept", "--checkpoint-every", 0)
    exit_code, found, err = stream(write(), *words)
    assert (exit_code, found["num_observations"]) == (code, NUM_ROWS)
    assert err.count("No space left on device. The run continues and will retry.") == 1
    assert err.count("Error: ") == (code == 2)
    assert tried[:4] == [100, 200, 300, 400]
    assert CheckpointFolder(tmp_path / "kept").has_checkpoint == (code == 0)


# Stopping
# -----------------------------------------------------------------------------------------------


def process(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "evidentia", "stream", *map(str, words), "--quiet", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for_rows(folder, rows):
    deadline = time.monotonic() + 60
    while (
        not (folder / "updates.jsonl").exists()
        or f'"num_observations": {rows},' not in (folder / "updates.jsonl").read_text()
    ):
        assert time.monotonic() < deadline, f"{rows} rows have not come within a minute"
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.reference
def test_killed_and_resumed_is_as_never_killed(stream, write, tmp_path):
    """Killed twice, at different times after a checkpoint; benchmarks/kills.py does 50 kills."""
    path = write()
    words = (*LINEAR, "--seed", 5)
    _, whole, _ = stream(path, *words, "--out", tmp_path / "whole")
    out, kept = tmp_path / "out", tmp_path / "kept"
    words = (path, *words, "--out", out, "--checkpoint", kept, "--checkpoint-every")
    for rows, every in ((300, 0), (500, 1000)):
        run = process(*words, every)
        wait_for_rows(out, rows)
        run.kill()
        run.communicate()
    code, found, err = stream(*words, 10)
    assert code == 0 and "Resuming from" in err
    for name in ("num_observations", "log_evidence", "standard_error", "num_read"):
        assert found[name] == whole[name]
    assert updates(out) == updates(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_sigterm_while_waiting_saves_and_leaves_with_0(stream, write, tmp_path, by_hand):
    """In a followed file, the last batch lacks 50 rows when the signal arrives."""
    path, out, kept = write(), tmp_path / "out", tmp_path / "kept"
    words = (path, *LINEAR, "--seed", 5, "--out", out, "--checkpoint", kept)
    run = process(*words, "--follow")
    wait_for_rows(out, 600)
    run.send_signal(signal.SIGTERM)
    shown, err = run.communicate(timeout=60)
    assert run.returncode == 0
    found = json.loads(shown)
    assert (found["num_observations"], found["completed"]) == (600, False)
    assert "Stopped after 600 rows; the same command resumes from there." in err
    assert stream(*words)[1]["log_evidence"] == by_hand[-1].log_evidence


def test_a_producer_that_dies_between_two_batches_is_no_end(stream, columns, monkeypatch, tmp_path):
    read_end, write_end = os.pipe()
    table, message = pa.table(columns)[:300], io.BytesIO()
    with pa.ipc.new_stream(message, table.schema) as writer:
        writer.write_table(table)
    os.write(write_end, message.getvalue()[:-8])
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        code, found, err = stream("-", *LINEAR, "--checkpoint", tmp_path / "kept")
    assert code == 0
    assert (found["num_observations"], found["completed"]) == (300, False)
    assert "standard input ended after row 300 without Arrow's end marker" in err


SLOW_MODEL = """
import jax
import evidentia as ev

linear = ev.models.linear_regression(2)

def log_likelihood(params, batch):
    num_turns = jax.numpy.where((batch["y"] > 5000).any(), 5_000_000, 0)
    _, turned = jax.lax.while_loop(
        lambda carry: carry[0] < num_turns, lambda carry: (carry[0] + 1, carry[1] * 0.5), (0, 1.0)
    )
    return linear.log_likelihood(params, batch) + 0.0 * turned

slow = ev.Model(prior=linear.prior, log_likelihood=log_likelihood)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_sigterm_in_a_long_batch_leaves_within_seconds_as_before_the_batch(write, columns, tmp_path):
    """After 200 rows come 100 at which the likelihood is slow: a path of minutes."""
    (tmp_path / "own.py").write_text(SLOW_MODEL)
    far = np.where(np.arange(NUM_ROWS) < 200, columns["y"], columns["y"] + 10_000)
    out, kept = tmp_path / "out", tmp_path / "kept"
    words = ("-m", f"{tmp_path}/own.py:slow", "-t", "y", *SMALL, "--seed", 5)
    run = process(write(y=far), *words, "--out", out, "--checkpoint", kept)
    wait_for_rows(out, 200)
    time.sleep(1.0)
    started = time.monotonic()
    run.send_signal(signal.SIGTERM)
    shown, err = run.communicate(timeout=60)
    assert time.monotonic() - started < 15  # PATIENCE, a step, results and report, on a busy machine
    assert run.returncode == 0
    found = json.loads(shown)
    assert (found["num_observations"], found["completed"]) == (200, False)
    assert found["log_evidence"] == updates(out)[1]["models"]["slow"]["log_evidence"]
    assert "Stopped after 200 rows; the same command resumes from there." in err


@pytest.fixture
def stopping(monkeypatch):
    """Deliver a signal a number of seconds after the start."""

    def stopping(number, seconds):
        @contextmanager
        def stop_soon():
            stop = Stop()
            timer = threading.Timer(seconds, stop.handle, (number, None))
            timer.start()
            yield stop
            stop.is_over = True
            timer.cancel()

        monkeypatch.setattr(stream_run, "stop_on_signals", stop_soon)

    return stopping


def test_ctrl_c_leaves_with_130(stream, write, stopping):
    stopping(signal.SIGINT, 0.0)
    code, found, err = stream(write(), *LINEAR)
    assert code == 130
    assert found == {"num_observations": 0, "log_evidence": None, "completed": False}
    assert "Stopped" in err
    stop = Stop()
    stop.handle(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):  # the second does not wait for the batch
        stop.handle(signal.SIGTERM, None)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_pipe_into_which_nothing_more_comes_can_be_left(stream, columns, stopping, monkeypatch, is_begun):
    stopping(signal.SIGTERM, 0.3)
    read_end, write_end = os.pipe()
    if is_begun:
        table, message = pa.table(columns), io.BytesIO()
        with pa.ipc.new_stream(message, table.schema) as writer:
            writer.write_table(table)
        os.write(write_end, message.getvalue()[: message.tell() // 2])
    began = time.monotonic()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code, found, err = stream("-", *LINEAR)
    assert time.monotonic() - began < 10
    assert (code, found["num_observations"]) == (0, 0)
    assert ("Stopped after 0 rows" if is_begun else "Stopped before any rows arrived") in err
    os.close(write_end)


# Mistakes
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-m", "linear", "-m", "linear", "-t", "y"), "--model names linear more than once"),
        (("-m", "linear", "-m", "own.py:linear", "-t", "y"), "--model names linear more than once"),
        (("-m", "softmax", "-t", "y"), "--model softmax needs --num-classes when rows are read in sequence"),
        (("-m", "softmax", "-t", "y", "--num-classes", 2), "column 'y' holds integers"),
        (("-m", "linear"), "--model linear needs --target"),
        (("-m", "linear", "-m", "mixture", "-t", "y"), "--model mixture has no target"),
        (
            ("-m", "linear", "-t", "y", "--num-classes", 2),
            "--num-classes belongs to --model softmax, not to --model linear",
        ),
        (("-m", "linear", "-t", "z"), "has no column 'z' for --target"),
        (("-m", "linear", "-t", "y", "--features", "a,c"), "has no column 'c'|'c'"),
        (("-m", "linear", "-t", "y", "--features", "a,y"), "--features must not name the target"),
        (
            ("-m", "linear", "-t", "y", "--batch-size", 0),
            "--batch-size must be an integer of at least 1; got 0",
        ),
        (
            ("-m", "linear", "-t", "y", "--reservoir-size", 10),
            "reservoir_size must be an integer of at least 500",
        ),
        (
            ("-m", "linear", "-t", "y", "--checkpoint-every", -1),
            "--checkpoint-every must be a number of seconds",
        ),
        (
            ("-m", "linear", "-t", "y", "--false-alarm-rate", 2),
            "false_alarm_rate is a number of alarms per batch",
        ),
        (("-m", "linear", "-t", "y", "--missing", "ignore"), "'ignore'"),
        (("-m", "linear", "-t", "y", "--seed", -1), "--seed must be"),
        (("-m", "nothing.py:model", "-t", "y"), "there is no Python file nothing.py"),
        (("other.csv", "-m", "linear", "-t", "y"), "other.csv does not exist"),
        (("-", "-m", "linear", "-t", "y"), "must be the only file"),
    ],
)
def test_mistakes_get_one_message_and_exit_code_2(stream, write, words, message):
    code, found, err = stream(write(rows=200), *words)
    assert (code, found) == (2, None)
    assert any(part in err for part in message.split("|"))


def test_files_without_rows(stream, write, columns):
    code, found, err = stream(write(rows=0), *LINEAR)
    assert (code, found) == (2, None)
    assert "rows.csv has no rows to process" in err
    path = write(rows=3, a=np.full(3, np.nan))
    code, found, err = stream(path, *LINEAR, "--missing", "drop")
    assert code == 2
    assert "has no rows to process; 3 with missing values were dropped" in err


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("s3://bucket/run", "a folder of this machine is needed, not a URL"),
        ("", "the name of a folder is empty"),
    ],
)
def test_a_checkpoint_must_be_a_folder_of_this_machine(stream, write, folder, message):
    code, found, err = stream(write(rows=20), *LINEAR, "--checkpoint", folder)
    assert code == 2 and found is None and message in " ".join(err.replace("│", " ").split())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_followed_file_is_complete_when_no_row_is_left(write, tmp_path):
    out = tmp_path / "out"
    run = process(write(rows=600), *LINEAR, "--seed", 5, "--out", out, "--follow")
    wait_for_rows(out, 600)
    run.send_signal(signal.SIGTERM)
    shown, _ = run.communicate(timeout=60)
    found = json.loads(shown)
    assert (run.returncode, found["num_observations"], found["completed"]) == (0, 600, True)
