"""The loop of `evidentia stream` without models: its end, its checkpoint and its files."""

import signal
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.cli.stream.files import check_files, file_names, known_files, with_additions
from evidentia.cli.stream.loop import Checkpoints, Stop, consume
from evidentia.cli.stream.view import View
from evidentia.data.arrivals import TICK
from evidentia.data.batches import Batch
from evidentia.data.sources import read_csv, read_parquet
from evidentia.errors import CheckpointError, DataError

ROWS = Batch({"y": np.arange(100.0)}, 100)


class Counted:
    """A session that only counts rows."""

    def __init__(self):
        self.position, self.onlines, self.has_rows = 0, {}, threading.Event()

    @property
    def num_observations(self):
        return self.position

    def update(self, batch):
        self.position += batch.num_read
        self.has_rows.set()

    def packed(self):
        return {"position": self.position}


@pytest.fixture
def session() -> Any:
    return Counted()


@pytest.fixture
def taken_in(tmp_path, session):
    """Return `consume` on the batches of a generator; `saved()` gives the checkpoint's rows."""

    def taken_in(batches, stop=None, write=CheckpointFolder.write):
        source: Any = SimpleNamespace(batches=lambda skip: batches)
        with CheckpointFolder(tmp_path / "kept") as folder:
            folder.write = partial(write, folder)
            checkpoints = Checkpoints(folder, 1000, session, None, {"a": 1}, {}, source, [])
            return consume(session, source, 100, stop or Stop(), checkpoints, View())

    return taken_in


@pytest.fixture
def saved(tmp_path):
    return lambda: read(tmp_path / "kept")[0]["session"]["position"]


def full(*_):
    raise CheckpointError("the checkpoint could not be written: No space left on device.")


# What ends the loop
# ----------------------------------------------------------------------------------------------


def test_the_end_of_the_source(taken_in, saved, tmp_path):
    assert taken_in(iter([ROWS, ROWS])) == (True, None)
    assert saved() == 200
    assert read(tmp_path / "kept")[0]["journals"] == {"a": 1}  # kept although no lines are written


def test_a_signal_in_the_middle_of_a_message_is_no_error(taken_in, saved, session):
    stop = Stop()

    def half_a_message():
        yield ROWS
        session.has_rows.wait()
        stop.handle(signal.SIGTERM, None)
        raise DataError("Expected to read 1000 bytes, got 500")

    assert taken_in(half_a_message(), stop) == (False, None)
    assert saved() == 100


def broken(error):
    yield ROWS
    raise error


def test_an_error_of_the_source(taken_in, saved):
    completed, problem = taken_in(broken(DataError("Expected to read 1000 bytes, got 500")))
    assert not completed and "Expected to read" in str(problem)
    assert saved() == 100


def test_what_nobody_expected_leaves_with_what_was_taken_in(taken_in, saved):
    with pytest.raises(ZeroDivisionError):
        taken_in(broken(ZeroDivisionError()))
    assert saved() == 100


def test_the_first_error_is_told_when_saving_fails_too(taken_in, capsys):
    assert "gone" in str(taken_in(broken(DataError("gone")), write=full)[1])
    with pytest.raises(ZeroDivisionError):
        taken_in(broken(ZeroDivisionError()), write=full)
    assert capsys.readouterr().err.count("No space left on device") == 4  # twice after the first batch
    assert "No space left" in str(taken_in(iter([ROWS]), write=full)[1])


def test_the_first_batch_is_saved_at_once_and_the_others_at_intervals(taken_in):
    """Without that, a journal begun by a killed run is unknown, and no run could continue it."""
    saved = []

    def late():
        time.sleep(2 * TICK)
        yield from [ROWS, ROWS, ROWS]

    taken_in(late(), write=lambda _, content, summary: saved.append(content["session"]["position"]))
    assert saved == [100, 300]


def test_the_row_of_a_line_without_end_is_not_saved(taken_in, saved, session, capsys):
    assert taken_in(iter([ROWS, ROWS._replace(may_grow=True)])) == (True, None)
    assert (session.position, saved()) == (200, 199)
    assert (
        "The last line has no line end. Its row counts in this result, but is not in"
        in capsys.readouterr().err
    )
    session.position = 0
    completed, problem = taken_in(iter([ROWS._replace(may_grow=True)]), write=full)
    assert completed and "No space left" in str(problem)


# The files of a resumed run
# -------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def write(name, values):
        path = tmp_path / name
        if path.suffix == ".csv":
            path.write_text("y\n" + "".join(f"{value}\n" for value in values))
        else:
            pa.parquet.write_table(pa.table({"y": pa.array(values, pa.float64())}), path, row_group_size=7)
        return path

    return write


@pytest.fixture
def kept_and_opened(write, tmp_path):
    """Checkpoint records of two files, and a function that opens the current files."""

    def kept_and_opened(kind):
        for number in range(2):
            write(f"{number}{kind}", range(10 * number, 10 * number + 10))
        open_files = partial(read_csv if kind == ".csv" else read_parquet, f"{tmp_path}/*{kind}")
        return known_files(open_files()), open_files

    return kept_and_opened


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_the_last_file_may_grow_and_others_may_follow(kept_and_opened, write, tmp_path, kind):
    before, open_files = kept_and_opened(kind)
    check_files(before, open_files(), tmp_path)
    write(f"1{kind}", range(10, 40))
    write(f"2{kind}", range(3))
    check_files(before, open_files(), tmp_path)
    assert file_names(open_files()) == [f"{number}{kind}" for number in range(3)]


@pytest.mark.parametrize(
    ("kind", "changed", "values", "message"),
    [
        (
            ".csv",
            0,
            range(12),
            r"0\.csv has 28 bytes but had 22 when .* added to the last file, 1\.csv",
        ),
        (
            ".parquet",
            0,
            range(12),
            r"0\.parquet has 12 rows but had 10 when the checkpoint in .* was written",
        ),
        (".csv", 1, range(10, 19), r"1\.csv has 29 bytes but had 32"),
        (".parquet", 1, range(10, 19), r"1\.parquet has 9 rows but had 10"),
        (
            ".csv",
            0,
            range(9, -1, -1),
            r"0\.csv has changed since .*: its first 22 bytes differ",
        ),
        (".parquet", 0, range(9, -1, -1), r"0\.parquet has changed since .*: its first 10 rows differ"),
        (".csv", 1, range(20, 60), r"1\.csv has changed since .* Was it replaced\?"),
        (".parquet", 1, range(20, 60), r"1\.parquet has changed since the checkpoint"),
    ],
)
def test_files_in_which_rows_would_shift_are_refused(
    kept_and_opened, write, tmp_path, kind, changed, values, message
):
    before, open_files = kept_and_opened(kind)
    write(f"{changed}{kind}", values)
    with pytest.raises(CheckpointError, match=message):
        check_files(before, open_files(), tmp_path)


def test_a_file_rewritten_behind_its_beginning_is_refused(tmp_path, write):
    path = write("rows.csv", range(30_000))
    before = known_files(read_csv(path))
    write("rows.csv", [*range(29_999), 29_998, 7])
    with pytest.raises(CheckpointError, match="rows.csv has changed since .* bytes differ"):
        check_files(before, read_csv(path), tmp_path)
    write("rows.csv", range(30_100))
    check_files(before, read_csv(path), tmp_path)


def test_a_followed_file_is_known_by_the_rows_that_came(write, tmp_path):
    path = write("rows.csv", [])
    source = read_csv(path, follow=True, types={"y": float})
    header = known_files(source)
    write("rows.csv", [1])
    one = with_additions(header, source)
    assert one == known_files(source) != header
    write("rows.csv", [2, 3])  # a different file in its place
    assert with_additions(one, source) == one
    with pytest.raises(CheckpointError, match="its first 4 bytes differ"):
        check_files(one, source, tmp_path)
    path.unlink()
    assert with_additions(one, source) == one
