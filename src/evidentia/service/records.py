"""What a service shows of each key: the last numbers, and a trajectory in constant memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.service.monitors import Outcome

CAPACITY = 128  # points of a trajectory; then every second one is left out
RECENT = 32  # batches of a sparkline
LEADING = ("num_observations", "log_predictive_per_row", "residual")  # columns of a trajectory


class Record:
    """The results of one key under one monitor.

    Attributes:
        num_observations: rows so far.
        log_evidence, standard_error, probabilities: by model, in the order of the monitor's.
        num_alarms: changes found so far.
        last_alarm: the last of them, or None.
        num_batches: batches so far.
        ring: log predictive per row of the last batches, each in the place of the one that it
            replaces.
        table, count, stride, last: the points kept, their number, every how many batches one is
            kept, and the last one.

    Args:
        num_models: number of models of the monitor.
    """

    def __init__(self, num_models: int):
        self.num_observations = self.num_alarms = self.num_batches = 0
        self.log_evidence = self.standard_error = self.probabilities = (math.nan,) * num_models
        self.last_alarm: dict[str, Any] | None = None
        self.ring = np.full(RECENT, np.nan, np.float32)
        self.table = np.empty((8, len(LEADING) + 2 * num_models))
        self.count, self.stride = 0, 1
        self.last = self.table[:0]

    def add(self, outcome: Outcome) -> None:
        """Take the result of a batch."""
        self.num_observations = outcome.num_observations
        self.log_evidence = tuple(outcome.log_evidence.values())
        self.standard_error = tuple(outcome.standard_error.values())
        self.probabilities = tuple(outcome.probabilities.values())
        self.num_alarms += len(outcome.alarms)
        if outcome.alarms:
            self.last_alarm = outcome.alarms[-1]
        per_row = outcome.log_predictive / outcome.batch_size
        self.ring[self.num_batches % RECENT] = per_row
        self._add_point(
            (
                outcome.num_observations,
                per_row,
                outcome.residual,
                *self.log_evidence,
                *self.probabilities,
            )
        )

    @property
    def recent(self) -> list[float]:
        """Log predictive per row of the last batches, oldest first, in nats."""
        first = self.num_batches % RECENT
        return np.roll(self.ring, -first)[-min(self.num_batches, RECENT) :].tolist()

    @property
    def latest(self) -> float:
        """The last of `recent`; NaN before the first batch."""
        return float(self.ring[(self.num_batches - 1) % RECENT])

    @property
    def points(self) -> Float[ndarray, "points columns"]:
        """The trajectory: `LEADING`, then log evidences and probabilities by model."""
        kept = self.table[: self.count]
        if not len(self.last) or (self.count and self.last[0, 0] == kept[-1, 0]):
            return kept
        return np.concatenate([kept, self.last])

    def _add_point(self, point: tuple[float, ...]) -> None:
        """Keep every `stride`-th batch; the stride doubles whenever the table is full."""
        if self.count == CAPACITY:
            self.table[: CAPACITY // 2] = self.table[::2]
            self.count, self.stride = CAPACITY // 2, 2 * self.stride
        if self.num_batches % self.stride == 0:
            if self.count == len(self.table):
                self.table = np.concatenate([self.table, np.empty_like(self.table)])
            self.table[self.count] = point
            self.count += 1
        self.last = np.array([point])
        self.num_batches += 1


class Records:
    """The records of a monitor by key.

    Args:
        models: names of the monitor's models.

    Example:
        >>> records = Records(("a",))
        >>> records.add("sensor 7", Outcome(10, 10, -14.0, {"a": -14.0}, {"a": 0.1}, {"a": 1.0}))
        >>> records["sensor 7"].recent
        [-1.399999976158142]
    """

    def __init__(self, models: tuple[str, ...]):
        self.models = models
        self._by_key: dict[str, Record] = {}

    def add(self, key: str, outcome: Outcome) -> None:
        """Take the result of a batch."""
        self._by_key.setdefault(key, Record(len(self.models))).add(outcome)

    def __getitem__(self, key: str) -> Record:
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self._by_key)

    def items(self) -> list[tuple[str, Record]]:
        """Keys and records, in the order in which keys came."""
        return list(self._by_key.items())

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._by_key.pop(key, None)

    def packed(self) -> dict[str, Any]:
        """For a checkpoint: few large arrays instead of some for each key."""
        records = list(self._by_key.values())
        tables = [record.table[: record.count] for record in records]
        width = len(LEADING) + 2 * len(self.models)
        counts = [
            (record.num_observations, record.num_alarms, record.num_batches, record.stride, len(table))
            for record, table in zip(records, tables, strict=True)
        ]
        return {
            "models": self.models,
            "keys": list(self._by_key),
            "counts": np.array(counts, np.int64).reshape(-1, 5),
            "tables": np.concatenate([np.empty((0, width)), *tables]),
            "last": np.concatenate([np.empty((0, width)), *(one.last for one in records)]),
            "errors": np.array([one.standard_error for one in records]).reshape(-1, len(self.models)),
            "recent": np.array([one.ring for one in records], np.float32).reshape(-1, RECENT),
            "alarms": [one.last_alarm for one in records],
        }

    def restore(self, content: Mapping[str, Any]) -> None:
        """Take the records of a checkpoint; none if its models have other names."""
        if tuple(content["models"]) != self.models:
            return
        first = 0
        for at, key in enumerate(content["keys"]):
            record = Record(len(self.models))
            rows, alarms, batches, stride, length = (int(one) for one in content["counts"][at])
            record.num_observations, record.num_alarms, record.num_batches = rows, alarms, batches
            record.stride, record.count = stride, length
            room = max(8, 1 << (length - 1).bit_length())
            record.table = np.empty((room, content["tables"].shape[1]))
            record.table[:length] = content["tables"][first : first + length]
            first += length
            record.last = content["last"][at : at + 1].copy()
            count = len(self.models)
            numbers = record.last[0, len(LEADING) :].tolist()
            record.log_evidence, record.probabilities = tuple(numbers[:count]), tuple(numbers[count:])
            record.standard_error = tuple(content["errors"][at].tolist())
            record.ring = content["recent"][at].copy()
            record.last_alarm = content["alarms"][at]
            self._by_key[key] = record
