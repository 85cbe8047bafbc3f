import errno
import json
from pathlib import Path

import pytest

from evidentia.checkpoint.journal import Journal
from evidentia.errors import CheckpointError


def lines(path):
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_lines_after_the_checkpoint_come_once(tmp_path):
    path = tmp_path / "updates.jsonl"
    journal = Journal(path)
    assert journal.commit() == {}
    journal.append({"n": 1})
    ends = journal.commit()
    journal.append({"n": 2})  # then killed in the middle of a line
    with path.open("a") as file:
        file.write('{"n": ')
    again = Journal(path, ends)
    again.append({"n": 2})
    assert [length for length, _ in again.commit().values()] == [path.stat().st_size]
    assert lines(path) == [1, 2]


def test_each_folder_keeps_its_lines_whatever_was_written_elsewhere(tmp_path):
    ends = {}
    for number, name in enumerate(("a", "b", "a", "b")):
        journal = Journal(tmp_path / name, ends)
        journal.append({"n": number})
        ends = journal.commit()
    assert (lines(tmp_path / "a"), lines(tmp_path / "b")) == ([0, 2], [1, 3])
    (tmp_path / "a").rename(tmp_path / "moved")
    journal = Journal(tmp_path / "moved", ends)
    assert journal.commit() == ends  # even without a new line
    assert lines(journal.path) == [0, 2]


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
    journal = Journal(path)
    for number in (1, 2):
        journal.append({"n": number})
    ends = journal.commit()
    cut = path.read_text()[:-5]
    for content in ('{"n": 3}\n{"n": 4}\n{"n": 5}\n', cut):
        path.write_text(content)
        with pytest.raises(CheckpointError, match="is not the file of the run that wrote the checkpoint"):
            Journal(path, ends)
        assert path.read_text() == content
    journal = Journal(tmp_path / "elsewhere.jsonl", ends)  # another folder gets only new lines
    journal.append({"n": 2})
    assert lines(journal.path) == [2]
    with pytest.raises(CheckpointError, match="cannot be written"):
        Journal(tmp_path)


def test_a_changed_bit_is_noticed(tmp_path):
    path = tmp_path / "updates.jsonl"
    journal = Journal(path)
    for number in (1, 2):
        journal.append({"n": number})
    ends = journal.commit()
    whole = path.read_bytes()
    for place in range(len(whole)):
        content = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="is not the file of the run|was changed or damaged"):
            Journal(path, ends)
        assert path.read_bytes() == content
    path.write_bytes(whole + b"more, without a checkpoint")
    again = Journal(path, ends)
    again.append({"n": 3})
    assert Journal(path, again.commit()).commit() == again.commit()
    assert lines(path) == [1, 2, 3]
