"""The file of dead letters: nothing lost, nothing twice, whatever was half written."""

import base64
import json
import os

import pytest

from evidentia.brokers.dead_letters import DeadLetters
from evidentia.brokers.message import Message
from evidentia.errors import CheckpointError, ConfigurationError

POISON = Message(b"\xff\0", {"0": 3, "1": 5}, "sensor 1")


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_letter_has_everything(tmp_path):
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append("kafka://host/topic", POISON, {"0": 3}, "no JSON")
    (letter,) = lines(letters.path)
    assert base64.b64decode(letter.pop("payload")) == POISON.payload
    assert letter == {
        "source": "kafka://host/topic",
        "reason": "no JSON",
        "position": {"0": 3},
        "key": "sensor 1",
    }


def test_a_message_that_comes_again_stays_once(tmp_path):
    for _ in range(2):
        letters = DeadLetters(tmp_path / "letters.jsonl")
        for place in ({"0": 3}, {"0": 4}, {"0": 3}):
            letters.append("a", POISON, place, "no JSON")
    assert [letter["position"] for letter in lines(letters.path)] == [{"0": 3}, {"0": 4}]
    assert letters.count == 2


def test_memory_is_bounded(tmp_path):
    letters = DeadLetters(tmp_path / "letters.jsonl", most_remembered=10)
    for offset in range(30):
        letters.append("a", POISON, {"0": offset}, "no JSON")
    again = DeadLetters(letters.path, most_remembered=10)
    for known, forgotten in ((letters, 19), (again, 18)):
        for offset in range(20, 30):
            known.append("a", POISON, {"0": offset}, "no JSON")
        assert known.count == 30
        known.append("a", POISON, {"0": forgotten}, "no JSON")
        assert known.count == 31


def test_a_half_line_is_removed_and_other_lines_stay(tmp_path):
    path = tmp_path / "letters.jsonl"
    path.write_bytes(b'{"source": "damaged\n{"a": 3}\n{"source": "a", "po')
    letters = DeadLetters(path)
    assert letters.count == 0
    letters.append("a", POISON, {"0": 3}, "no JSON")
    first, other, second = path.read_bytes().splitlines()
    assert first == b'{"source": "damaged' and other == b'{"a": 3}'
    assert json.loads(second)["position"] == {"0": 3}


@pytest.mark.parametrize("content", [b"x,y\n1,2\n3,4", b'{"a": 3}\n', b"\xff", b"\n"])
def test_a_file_of_somebody_else_is_not_touched(tmp_path, content):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"dead_letters must be a file .*rows\.csv was not written"):
        DeadLetters(path)
    assert path.read_bytes() == content


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path, monkeypatch):
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append("a", POISON, {"0": 1}, "no JSON")
    before = letters.path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="letters.jsonl cannot be written: No space left on device"):
        letters.append("a", POISON, {"0": 2}, "no JSON")
    assert letters.path.read_bytes() == before
    monkeypatch.undo()
    letters.append("a", POISON, {"0": 2}, "no JSON")
    assert len(lines(letters.path)) == 2


def test_a_place_where_no_file_can_be(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written"):
        DeadLetters(tmp_path / "absent" / "letters.jsonl")
    with pytest.raises(ConfigurationError, match="dead_letters must be the path of a file"):
        DeadLetters("s3://bucket/letters.jsonl")
