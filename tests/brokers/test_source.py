"""Rows of a broker's stream: each counts once, whenever a run is killed; poison is kept apart."""

import json
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.brokers.dead_letters import DeadLetters
from evidentia.brokers.place import START, Place
from evidentia.brokers.source import BLOCK, BrokerSource, read
from evidentia.data.batches import all_rows, recut
from evidentia.errors import ConfigurationError, DataError
from tests.brokers.fakes import FakeBroker


def payload(*values: Any) -> bytes:
    return json.dumps([{"y": value} for value in values]).encode()


def rows_of(source: BrokerSource) -> list[float]:
    return all_rows(source.batches())["y"].tolist()


def test_rows_in_order():
    broker = FakeBroker([[payload(1, 2), payload(), payload(3)]])
    assert rows_of(BrokerSource(broker, ["y"])) == [1, 2, 3]
    assert broker.is_closed


def test_columns_and_types():
    rows = [{"a": 1, "b": 2.5, "label": True, "more": "text"}, {"a": 3, "b": -1, "label": 0}]
    broker = FakeBroker([[json.dumps(row).encode() for row in rows]])
    source = BrokerSource(broker, {"x": ["a", "b"], "y": "label"}, types={"label": int})
    (batch,) = source.batches()
    np.testing.assert_array_equal(batch.arrays["x"], np.array([[1, 2.5], [3, -1]], np.float32))
    assert batch.arrays["y"].dtype == np.int32 and batch.arrays["y"].tolist() == [1, 0]


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=3),
    st.integers(1, 5),
    st.lists(st.integers(0, 4), max_size=6),
    st.integers(0, 2**16),
)
def test_each_row_counts_once_across_kills(sizes, batch_size, lives, seed):
    """Runs that are killed after some batches; messages of many rows straddle batches.

    After each restart the partitions are read in another order.
    """
    numbers = count()
    partitions = [[payload(*(next(numbers) for _ in range(size))) for size in part] for part in sizes]
    place, counted = START, []
    for life, num_batches in enumerate([*lives, 10**6]):
        source = BrokerSource(FakeBroker(partitions, seed + life), ["y"])
        source.resume(Place.from_text(place.rows, place.to_text()))
        position = place.rows
        for index, batch in enumerate(recut(source.batches(place.rows), batch_size)):
            if index == num_batches:
                break
            counted += batch.arrays["y"].tolist()
            position += batch.num_read
            place = source.place_at(position)
    assert sorted(counted) == list(range(next(numbers)))


def test_a_place_inside_a_message():
    broker = FakeBroker([[payload(1), payload(2, 3, 4), payload(5)]])
    source = BrokerSource(broker, ["y"])
    source.resume(START)
    list(source.batches())
    assert source.place_at(3) == Place(3, {"0": 1}, {'{"0": 2}': 2})
    source.acknowledge(source.place_at(3))
    assert broker.acknowledged == [{"0": 1}]  # the message with rows to come is sent again
    assert source.place_at(5) == Place(5, {"0": 3}, {})


def test_without_places_a_batch_is_processed_when_the_next_is_asked_for():
    broker = FakeBroker([[payload(*range(BLOCK)), payload(2)]])
    batches = BrokerSource(broker, ["y"]).batches()
    next(batches)
    assert broker.acknowledged == []
    next(batches)
    assert broker.acknowledged == [{"0": 1}]


def test_dropped_rows_count_in_places():
    source = BrokerSource(FakeBroker([[payload(1, None, 3)]]), ["y"], missing="drop")
    source.resume(START)
    (batch,) = source.batches()
    assert (batch.num_rows, batch.num_dropped) == (2, 1)
    assert source.place_at(3).position == {"0": 1}


def test_it_stops_while_nothing_comes():
    calls = iter([False, False, True])
    source = BrokerSource(FakeBroker([[payload(1)]], ends=False), ["y"], stop=lambda: next(calls))
    assert rows_of(source) == [1]


# Messages without valid rows
# ----------------------------------------------------------------------------------------------

POISON = {
    b"": "the payload is empty",
    b"{": "the payload is not JSON: Expecting property name",
    b"\xff{}": "the payload is not JSON: 'utf-8' codec can't decode",
    b"[" * 100_000: "the payload is not JSON",
    b"3": "the payload must be a JSON object or a list of objects; it has int",
    b'{"x": 1}': "a row has no column 'y'; it has x",
    b'{"y": "one"}': "column 'y' must have numbers; it holds 'one'",
    b'{"y": [1]}': "column 'y' must have numbers; it holds [1]",
    b'{"y": null}': "missing values in 1 of the 1 rows",
    b'{"y": Infinity}': "infinite values",
    b'{"y": 1e39}': "outside the range of float32",
    b'{"y": 1' + b"0" * 400 + b"}": "column 'y' must have numbers",
    payload(1, "two"): "column 'y' must have numbers; it holds 'two'",
}


@pytest.mark.parametrize("poison", POISON, ids=[str(index) for index in range(len(POISON))])
def test_poison_goes_to_the_dead_letters_with_the_reason(poison, tmp_path):
    letters = DeadLetters(tmp_path / "letters.jsonl")
    broker = FakeBroker([[payload(1), poison, payload(2)]])
    source = BrokerSource(broker, ["y"], dead_letters=letters)
    source.resume(START)
    assert rows_of(source) == [1, 2]
    (letter,) = map(json.loads, letters.path.read_text().splitlines())
    assert POISON[poison] in letter["reason"]
    assert (letter["source"], letter["position"], letter["key"]) == (broker.name, {"0": 2}, "key 0")
    assert source.place_at(2) == Place(2, {"0": 3}, {})


def test_poison_without_a_file_ends_the_reading_after_the_rows_before():
    source = BrokerSource(FakeBroker([[payload(1), b"?", payload(2)]]), ["y"])
    batches = source.batches()
    assert next(batches).arrays["y"].tolist() == [1]
    with pytest.raises(
        DataError, match=r'the message at \{"0": 2\} cannot be used: .* not JSON.*--dead-letters FILE'
    ):
        next(batches)


def test_poison_alone_moves_the_place(tmp_path):
    letters = DeadLetters(tmp_path / "letters.jsonl")
    source = BrokerSource(FakeBroker([[b"?"] * 3]), ["y"], dead_letters=letters)
    source.resume(START)
    assert list(source.batches()) == []
    assert source.place_at(0) == Place(0, {"0": 3}, {})


def test_lost_digits_are_an_error_of_the_stream_not_of_a_message(tmp_path):
    letters = DeadLetters(tmp_path / "letters.jsonl")
    source = BrokerSource(FakeBroker([[payload(1e9), payload(1e9 + 3)]]), ["y"], dead_letters=letters)
    with pytest.raises(DataError, match="Subtract a constant"):
        rows_of(source)
    assert letters.count == 0


# Arguments
# ----------------------------------------------------------------------------------------------


def test_payloads_in_arrow():
    sink = pa.BufferOutputStream()
    table = pa.table({"y": [1.5, 2.5]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    broker = FakeBroker([[sink.getvalue().to_pybytes()]])
    assert rows_of(BrokerSource(broker, ["y"], form="arrow")) == [1.5, 2.5]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"columns": None}, "columns must name the columns of a broker's stream"),
        ({"columns": ["y"], "form": "xml"}, "payload must be one of json, arrow, avro; got 'xml'"),
        ({"columns": ["y"], "missing": "keep"}, "missing must be 'error' or 'drop'"),
        ({"columns": ["y"], "types": {"x": int}}, "types names a column 'x'"),
    ],
)
def test_invalid_arguments(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        BrokerSource(FakeBroker([]), **settings)


def test_places_need_resume():
    source = BrokerSource(FakeBroker([]), ["y"])
    with pytest.raises(ConfigurationError, match="places are only known after resume"):
        source.place_at(0)


def test_it_cannot_skip():
    with pytest.raises(DataError, match="goes on after 0 rows.* cannot skip 5"):
        BrokerSource(FakeBroker([]), ["y"]).batches(5)


def test_it_is_read_once():
    source = BrokerSource(FakeBroker([[payload(1)]]), ["y"])
    list(source.batches())
    with pytest.raises(DataError, match="has been read before"):
        source.batches()


def test_read_refuses_what_is_no_broker():
    with pytest.raises(ConfigurationError, match="must be one of kafka://"):
        read("ftp://host/rows", ["y"])
