"""Rows from payloads in the three forms, and what is said of others."""

import io
import sys

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.brokers.payloads import PayloadError, rows_of
from evidentia.errors import ConfigurationError

ROWS = [{"a": 1, "y": 0.5}, {"a": 2, "y": -1.0}]


def in_arrow() -> bytes:
    table, sink = pa.Table.from_pylist(ROWS), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def in_avro(schema=None) -> bytes:
    fields = [{"name": "a", "type": "long"}, {"name": "y", "type": "double"}]
    file = io.BytesIO()
    fastavro.writer(
        file, schema or {"type": "record", "name": "row", "fields": fields}, ROWS if not schema else [3]
    )
    return file.getvalue()


def test_the_same_rows_in_each_form():
    assert rows_of(b'[{"a": 1, "y": 0.5}, {"a": 2, "y": -1.0}]', "json") == ROWS
    assert rows_of(in_arrow(), "arrow") == rows_of(in_avro(), "avro") == ROWS
    assert rows_of(b'{"a": 1}', "json") == [{"a": 1}]
    assert rows_of(b"[]", "json") == []


@pytest.mark.parametrize("form", ["json", "arrow", "avro"])
@given(payload=st.binary())
def test_any_bytes_give_rows_or_an_error(form, payload):
    try:
        rows = rows_of(payload, form)
    except PayloadError as error:
        assert str(error)
    else:
        assert all(isinstance(row, dict) for row in rows)


@pytest.mark.parametrize("form", ["arrow", "avro"])
def test_half_a_payload_is_an_error(form):
    payload = {"arrow": in_arrow, "avro": in_avro}[form]()
    with pytest.raises(PayloadError, match="the payload is not an A"):
        rows_of(payload[: len(payload) - 9], form)


def test_avro_must_hold_records():
    with pytest.raises(PayloadError, match="the Avro container must hold records"):
        rows_of(in_avro("long"), "avro")


def test_a_form_that_is_unknown_or_not_installed(monkeypatch):
    with pytest.raises(ConfigurationError, match="payload must be one of json, arrow, avro; got 'csv'"):
        rows_of(b"", "csv")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'evidentia\[avro\]'"):
        rows_of(b"", "avro")
