"""One stream: its rows, monitors and results, without input and output.

Its whole state, with the position in the source, is one object that a checkpoint holds. So a
message counts exactly once: after a crash, reading goes on after the last message whose rows are
in the state.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from evidentia.brokers.message import Position
from evidentia.checkpoint.packing import as_damaged
from evidentia.errors import CheckpointError
from evidentia.service import settings as schema
from evidentia.service.batches import Batch, Rejected, Rows
from evidentia.service.bundle import bundled, unbundled
from evidentia.service.models import Loader, columns_of, integers_of, monitor_of
from evidentia.service.monitors import RECORDS, Outcome
from evidentia.service.records import Records

MOST_ALARMS = 1_000  # that a stream remembers


class Alarm(NamedTuple):
    """A change that a monitor found.

    Attributes:
        id: the same if the alarm is found again after a crash.
        stream, monitor, key: where.
        time: when it was found, in ISO 8601.
        change: the numbers of the detector: row, interval, and so on.
    """

    id: str
    stream: str
    monitor: str
    key: str
    time: str
    change: dict[str, Any]


class Refused(NamedTuple):
    """A batch that a monitor could not process, and why. The other monitors did."""

    monitor: str
    key: str
    num_rows: int
    reason: str


@dataclass
class Counts:
    """What a stream has done since its beginning, over all runs."""

    messages: int = 0
    rows: int = 0  # in batches that monitors were given
    rejected: int = 0
    batches: int = 0
    alarms: int = 0


class Engine:
    """The monitors of one stream.

    Other threads may read `records`, `alarms` and `counts` while they hold `lock`.

    Attributes:
        name, source: as given.
        position: where reading goes on; None at the start.
        rows: those that wait for their batch.
        records: of each monitor by name.
        alarms: the last ones, oldest first.
        undelivered: alarms that webhooks have not got yet, with the names of these, by id.
        counts: totals.
        refused: rows that each monitor refused.
        seconds: time of each monitor.
        last_time: time of the last row processed, in seconds since 1970; NaN if unknown.

    Args:
        name: of the stream.
        settings: of the stream.
        load: loads models of the user's.
        source: name of the source, without credentials.
        webhooks: names of the webhooks that get its alarms.
        seed: of all models.

    Raises:
        ConfigurationError, ModelError: of a model.
    """

    def __init__(
        self,
        name: str,
        settings: schema.Stream,
        load: Loader,
        *,
        source: str,
        webhooks: tuple[str, ...] = (),
        seed: int = 0,
    ):
        self.name, self.source = name, source
        self._settings, self._webhooks, self._seed = settings, webhooks, seed
        self.monitors = {
            one: monitor_of(given, seed, f"streams.{name}.monitors.{one}", load)
            for one, given in settings.monitors.items()
        }
        used = [column for given in settings.monitors.values() for column in columns_of(given)]
        whole = [column for given in settings.monitors.values() for column in integers_of(given)]
        self.rows = Rows(
            list(dict.fromkeys(used)),
            integers=whole,
            key=settings.key,
            time_column=settings.time,
            batch_size=settings.batch_size,
        )
        self.lock = threading.Lock()
        self.position: Position | None = None
        self.records = {one: Records(monitor.models) for one, monitor in self.monitors.items()}
        self.alarms: deque[Alarm] = deque(maxlen=MOST_ALARMS)
        self.undelivered: dict[str, tuple[Alarm, set[str]]] = {}
        self.counts = Counts()
        self.refused = dict.fromkeys(self.monitors, 0)
        self.seconds = dict.fromkeys(self.monitors, 0.0)
        self.last_time = float("nan")

    def take(self, rows: list[dict[str, Any]], position: Position) -> list[Rejected]:
        """Take the rows of a message; return those that cannot be used."""
        rejected = self.rows.add(rows)
        self.skip(len(rejected), position)
        return rejected

    def skip(self, num_rejected: int, position: Position) -> None:
        """Count a message, and its rows that cannot be used."""
        self.position = position
        with self.lock:
            self.counts.messages += 1
            self.counts.rejected += num_rejected

    def process(self) -> tuple[list[Alarm], list[Refused]]:
        """Update the monitors with one whole batch of each key that has one."""
        batches = self.rows.take()
        alarms: list[Alarm] = []
        refused: list[Refused] = []
        for name, monitor in self.monitors.items():
            started = time.perf_counter()
            found = monitor.update(batches)
            spent = time.perf_counter() - started
            with self.lock:
                self.seconds[name] += spent
                for key in batches:
                    outcome = found[key]
                    if isinstance(outcome, Outcome):
                        self.records[name].add(key, outcome)
                        alarms += [self._alarm(name, key, change) for change in outcome.alarms]
                    else:
                        refused.append(Refused(name, key, batches[key].num_rows, str(outcome)))
                        self.refused[name] += batches[key].num_rows
        with self.lock:
            self._count(batches, alarms)
        return alarms, refused

    def monitor_kind(self, monitor: str) -> str:
        """The kind of a monitor in the settings."""
        return self._settings.monitors[monitor].kind

    def delivered(self, alarm: str, webhook: str) -> None:
        """Note that a webhook has got an alarm."""
        with self.lock:
            if alarm in self.undelivered:
                self.undelivered[alarm][1].discard(webhook)
                if not self.undelivered[alarm][1]:
                    del self.undelivered[alarm]

    def forget(self, key: str) -> bool:
        """Remove a key and its rows; return whether it was there."""
        was_there = any(key in records for records in self.records.values())
        self.rows.forget(key)
        for monitor in self.monitors.values():
            monitor.forget(key)
        with self.lock:
            for records in self.records.values():
                records.forget(key)
        return was_there

    def packed(self) -> dict[str, Any]:
        """The whole state, for a checkpoint."""
        with self.lock:
            undelivered = [[alarm._asdict(), sorted(hooks)] for alarm, hooks in self.undelivered.values()]
            texts = {
                "identity": self._identity(),
                "position": self.position,
                "rows": self.rows.packed(),
                "counts": asdict(self.counts),
                "refused": self.refused,
                "seconds": self.seconds,
                "last_time": self.last_time,
                "alarms": [alarm._asdict() for alarm in self.alarms],
                "undelivered": undelivered,
            }
            state = {
                "texts": json.dumps(texts),
                "settings": {name: self._settings_of(name) for name in self.monitors},
                "monitors": {name: monitor.packed() for name, monitor in self.monitors.items()},
                "records": {name: records.packed() for name, records in self.records.items()},
            }
        return bundled(state)

    def restore(self, bundle: Any, folder: Any) -> list[str]:
        """Take the state of a checkpoint; return the names of monitors that begin anew.

        A monitor that the checkpoint lacks begins with the rows that follow.

        Raises CheckpointError if it is of another stream, damaged, or a monitor's settings differ.
        """
        content = unbundled(bundle, RECORDS)
        with as_damaged(f"the checkpoint in {folder}"):
            texts = json.loads(content["texts"])
            identity, before = self._identity(), texts["identity"]
        for key, value in identity.items():
            if before.get(key) != value:
                raise CheckpointError(
                    f"streams.{self.name}.{key} is {value!r}; in the checkpoint in {folder} it was {before.get(key)!r}. Restore it, "
                    "rename the stream, or give another folder for checkpoint."
                )
        kept = [name for name in self.monitors if name in content["monitors"]]
        for name in kept:
            if self._settings_of(name) != content["settings"][name]:
                raise CheckpointError(
                    f"streams.{self.name}.monitors.{name} has other settings than in the checkpoint in {folder}: "
                    f"{self._settings_of(name)} instead of {content['settings'][name]}. Restore them, or rename the monitor: it "
                    "then begins anew, with the rows that follow."
                )
        for name in kept:
            self.monitors[name].restore(content["monitors"][name])
        with as_damaged(f"the checkpoint in {folder}"):
            for name in kept:
                self.records[name].restore(content["records"][name])
                self.refused[name] = texts["refused"][name]
                self.seconds[name] = texts["seconds"][name]
            self.position = texts["position"]
            self.rows.restore(texts["rows"])
            self.counts = Counts(**texts["counts"])
            self.last_time = float(texts.get("last_time", "nan"))  # older checkpoints lack it
            self.alarms.extend(Alarm(**alarm) for alarm in texts["alarms"])
            for alarm, hooks in texts["undelivered"]:
                if left := set(hooks) & set(self._webhooks):
                    self.undelivered[alarm["id"]] = (Alarm(**alarm), left)
        return [name for name in self.monitors if name not in kept]

    def _identity(self) -> dict[str, Any]:
        """What must not change while a checkpoint is used."""
        return {"source": self.source, "key": self._settings.key, "seed": self._seed}

    def _settings_of(self, monitor: str) -> str:
        return self._settings.monitors[monitor].model_dump_json()

    def _alarm(self, monitor: str, key: str, change: Mapping[str, Any]) -> Alarm:
        place = f"{self.name}/{monitor}/{key}/{change['num_observations']}"
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Alarm(place, self.name, monitor, key, now, dict(change))

    def _count(self, batches: Mapping[str, Batch], alarms: list[Alarm]) -> None:
        self.counts.batches += len(batches)
        self.counts.rows += sum(batch.num_rows for batch in batches.values())
        self.counts.alarms += len(alarms)
        self.alarms.extend(alarms)
        if self._webhooks:
            self.undelivered |= {alarm.id: (alarm, set(self._webhooks)) for alarm in alarms}
        times = [batch.times[-1] for batch in batches.values()]
        known = [one for one in times if np.isfinite(one)]
        if known:
            self.last_time = float(max(known))
