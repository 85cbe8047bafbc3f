import errno
import json
from pathlib import Path

import pytest

from evidentia.errors import CheckpointError
from evidentia.stream.journal import Journal


def lines(path):
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_lines_after_the_checkpoint_come_once(tmp_path):
    path = tmp_path / "updates.jsonl"
    journal = Journal(path)
    journal.append({"n": 1})
    length = journal.commit()
    journal.append({"n": 2})  # killed after this, perhaps in the middle of a line
    with path.open("a") as file:
        file.write('{"n": ')
    again = Journal(path, length)
    again.append({"n": 2})
    assert again.commit() == path.stat().st_size
    assert lines(path) == [1, 2]


def test_without_a_checkpoint_the_file_begins_anew(tmp_path):
    path = tmp_path / "updates.jsonl"
    path.write_text("something else\n")
    Journal(path)
    assert path.read_text() == ""


def test_lines_that_find_no_room_are_written_later(tmp_path, monkeypatch):
    path = tmp_path / "updates.jsonl"
    journal = Journal(path)
    journal.append({"n": 1})

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        journal.append({"n": 2})
        with pytest.raises(
            CheckpointError, match=r"updates.jsonl cannot be written: No space left on device\."
        ):
            journal.commit()
    assert lines(path) == [1]
    journal.append({"n": 3})
    journal.commit()
    assert lines(path) == [1, 2, 3]


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "updates.jsonl"
    path.write_text('{"n": 1}\n')
    for length in (5, 100):
        with pytest.raises(CheckpointError, match=f"not the file of the run .* {length} bytes"):
            Journal(path, length)
    assert lines(path) == [1]
    journal = Journal(tmp_path / "elsewhere.jsonl", 100)  # another folder: the lines from here on
    journal.append({"n": 2})
    assert lines(journal.path) == [2]
    with pytest.raises(CheckpointError, match="cannot be written"):
        Journal(tmp_path)
