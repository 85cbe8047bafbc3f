"""Rows of messages, checked, divided by key, and cut into batches of a fixed number of rows.

A batch is cut by the number of rows alone, never by time. So it has the same rows whenever it is
made, and a service that goes on from a checkpoint computes what it would have computed anyway.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

ALL = "all"  # the only key of a stream without a key column
MOST_TEXT = 200  # characters of a key


class Batch(NamedTuple):
    """Rows of one key, in order.

    Attributes:
        columns: an array (rows,) for each column, float64 or int64.
        times: of the rows, in seconds since 1970; NaN if the stream has no time column.
        received: clock of `time.monotonic` at which its first row came.
    """

    columns: dict[str, ndarray]
    times: ndarray
    received: float

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.times)


class Rejected(NamedTuple):
    """A row that cannot be used, and why."""

    row: Any
    reason: str


class _Waiting(NamedTuple):
    """Rows of one key that are no batch yet: the values of each, and its time."""

    rows: list[tuple[list[float | int], float]]
    received: float


class Rows:
    """The rows of a stream that wait for their batch to be complete.

    Args:
        columns: those that monitors use.
        integers: those of them that hold whole numbers.
        key: the column of keys; None for one stream of rows.
        time_column: the column of times, or None.
        batch_size: number of rows of a batch.

    Example:
        >>> rows = Rows(["y"], key="sensor", batch_size=2)
        >>> rows.add([{"y": 1.0, "sensor": "a"}, {"y": "?", "sensor": "b"}])
        [Rejected(row={'y': '?', 'sensor': 'b'}, reason="y must be a finite number; got '?'")]
        >>> rows.add([{"y": 2.0, "sensor": "a"}])
        []
        >>> rows.take()["a"].columns
        {'y': array([1., 2.])}
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        integers: Iterable[str] = (),
        key: str | None = None,
        time_column: str | None = None,
        batch_size: int = 100,
    ):
        self._columns, self._integers = list(columns), frozenset(integers)
        self._key, self._time, self._size = key, time_column, batch_size
        self._waiting: dict[str, _Waiting] = {}
        self._complete: dict[str, None] = {}  # keys with a whole batch, in the order they got it
        self.num_waiting = 0

    def add(self, rows: Iterable[Any]) -> list[Rejected]:
        """Take rows, each a mapping from columns to values; return those that cannot be used."""
        rejected = []
        for row in rows:
            try:
                key, values, when = self._read(row)
            except ValueError as error:
                rejected.append(Rejected(row, str(error)))
                continue
            waiting = self._waiting.setdefault(key, _Waiting([], time.monotonic()))
            waiting.rows.append((values, when))
            self.num_waiting += 1
            if len(waiting.rows) >= self._size:
                self._complete[key] = None
        return rejected

    @property
    def num_complete(self) -> int:
        """Number of keys with at least one whole batch."""
        return len(self._complete)

    @property
    def waiting_since(self) -> float | None:
        """Clock at which the oldest row of a whole batch came; None if there is none."""
        return min((self._waiting[key].received for key in self._complete), default=None)

    def take(self) -> dict[str, Batch]:
        """Remove and return a whole batch of each key that has one, in the order they got it."""
        found = {}
        for key in list(self._complete):
            rows, received = self._waiting.pop(key)
            batch, rest = rows[: self._size], rows[self._size :]
            found[key] = self._batch(batch, received)
            self.num_waiting -= len(batch)
            if rest:
                self._waiting[key] = _Waiting(rest, received)
            if len(rest) < self._size:
                del self._complete[key]
        return found

    def forget(self, key: str) -> None:
        """Remove the rows of a key."""
        if (waiting := self._waiting.pop(key, None)) is not None:
            self.num_waiting -= len(waiting.rows)
            self._complete.pop(key, None)

    def packed(self) -> dict[str, Any]:
        """The rows that wait, for a checkpoint as JSON, in which numbers are exact."""
        return {"columns": self._columns, "rows": {key: one.rows for key, one in self._waiting.items()}}

    def restore(self, content: Mapping[str, Any]) -> None:
        """Take the rows of a checkpoint.

        Columns that these rows lack, as a new monitor needs them, are NaN: its models reject them.
        """
        order = [
            content["columns"].index(name) if name in content["columns"] else None for name in self._columns
        ]
        for key, rows in content["rows"].items():
            values = [
                ([math.nan if at is None else row[at] for at in order], float(when)) for row, when in rows
            ]
            self._waiting[key] = _Waiting(values, time.monotonic())
            self.num_waiting += len(values)
            if len(values) >= self._size:
                self._complete[key] = None

    def _batch(self, rows: list[tuple[list[float | int], float]], received: float) -> Batch:
        columns = {
            name: np.array(
                [values[at] for values, _ in rows], np.int64 if name in self._integers else np.float64
            )
            for at, name in enumerate(self._columns)
        }
        return Batch(columns, np.array([when for _, when in rows], np.float64), received)

    def _read(self, row: Any) -> tuple[str, list[float | int], float]:
        """Key, values and time of a row. Raises ValueError with the reason to reject it."""
        if not isinstance(row, Mapping):
            raise ValueError(f"a row must be an object with the columns by name; got {type(row).__name__}")
        values = [self._number(row, name) for name in self._columns]
        when = math.nan if self._time is None else _seconds(_value(row, self._time), self._time)
        if self._key is None:
            return ALL, values, when
        key = _value(row, self._key)
        if isinstance(key, bool) or not isinstance(key, str | int) or not 0 < len(str(key)) <= MOST_TEXT:
            raise ValueError(
                f"{self._key} must be a text of 1 to {MOST_TEXT} characters, or an integer; got {_short(key)}"
            )
        return str(key), values, when

    def _number(self, row: Mapping[str, Any], name: str) -> float | int:
        value = _value(row, name)
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, np.complexfloating)
        if not is_number or not math.isfinite(value):
            raise ValueError(f"{name} must be a finite number; got {_short(value)}")
        if name not in self._integers:
            return float(value)
        if value != int(value) or abs(value) >= 2**63:
            raise ValueError(f"{name} must be a whole number; got {_short(value)}")
        return int(value)


def _value(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise ValueError(f"{name} is missing")
    return row[name]


def _seconds(value: Any, name: str) -> float:
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).astimezone().timestamp()
        if isinstance(value, datetime):
            return value.astimezone().timestamp()
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{name} must be seconds since 1970 or an ISO 8601 time; got {_short(value)}")
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
