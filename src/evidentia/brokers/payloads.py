"""Rows from the payload of a message: JSON, an Arrow stream, or an Avro container."""

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from evidentia.brokers.reconnecting import described
from evidentia.errors import ConfigurationError, DataError

Row = dict[str, Any]


class PayloadError(DataError):
    """A payload that holds no rows in the form that was expected; the message says why."""


def rows_of(payload: bytes, form: str) -> list[Row]:
    """The rows in a payload.

    Args:
        payload: the content of a message.
        form: "json", an object or a list of objects; "arrow", an IPC stream with its schema;
            "avro", an object container file with its schema.

    Raises:
        PayloadError: the payload is not in this form.
        ConfigurationError: an unknown form, or its package is not installed.

    Example:
        >>> rows_of(b'[{"flow": 0.5}, {"flow": 0.25}]', "json")
        [{'flow': 0.5}, {'flow': 0.25}]
    """
    check_form(form)
    if not payload:
        raise PayloadError("the payload is empty")
    return READERS[form](payload)


def check_form(form: Any) -> None:
    """Raise ConfigurationError unless a form is known and its package installed."""
    if form not in READERS:
        raise ConfigurationError(f"payload must be one of {', '.join(READERS)}; got {form!r}.")
    if form == "avro":
        try:
            import fastavro  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                "payloads in Avro need a package that is not installed: pip install 'evidentia[avro]'."
            ) from error


def _json(payload: bytes) -> list[Row]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8
        raise PayloadError(f"the payload is not JSON: {described(error)}") from None
    rows = found if isinstance(found, list) else [found]
    for row in rows:
        if not isinstance(row, dict):
            raise PayloadError(
                f"the payload must be a JSON object or a list of objects; it has {type(row).__name__}"
            )
    return rows


def _arrow(payload: bytes) -> list[Row]:
    try:
        with pa.ipc.open_stream(payload) as reader:
            return reader.read_all().to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PayloadError(f"the payload is not an Arrow IPC stream: {described(error)}") from None


def _avro(payload: bytes) -> list[Row]:
    import fastavro

    try:
        rows: list[Any] = list(fastavro.reader(io.BytesIO(payload)))
    except Exception as error:  # of many kinds, from bytes that anyone can have sent
        raise PayloadError(f"the payload is not an Avro container: {described(error)}") from None
    if not all(isinstance(row, dict) for row in rows):
        raise PayloadError("the Avro container must hold records")
    return rows


READERS: dict[str, Callable[[bytes], list[Row]]] = {"json": _json, "arrow": _arrow, "avro": _avro}
