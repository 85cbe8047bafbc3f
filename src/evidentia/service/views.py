"""What the JSON API tells: a service, the keys of a monitor, one key, alarms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from evidentia.results.configurations import jsonable
from evidentia.service.records import LEADING, Record, Records
from evidentia.service.running import Service
from evidentia.service.worker import Worker

MOST_KEYS = 500  # in one answer
ORDERS: dict[str, Callable[[str, Record], Any]] = {  # of keys; numbers from the largest
    "key": lambda key, record: key,
    "rows": lambda key, record: -record.num_observations,
    "evidence": lambda key, record: _last(-per_row(record)),
    "surprise": lambda key, record: _last(record.latest),
    "alarms": lambda key, record: -record.num_alarms,
}


def overview(service: Service) -> dict[str, Any]:
    """The streams with their monitors, and numbers over all keys."""
    return jsonable(
        {
            "version": version("evidentia"),
            "started": service.started,
            "now": time.time(),
            "writable": service.token is not None,
            "streams": {name: _stream(worker) for name, worker in service.workers.items()},
        }
    )


def health(service: Service) -> tuple[bool, dict[str, Any]]:
    """Whether every stream is well, and the state and problem of each."""
    states = {
        name: {"state": worker.state, "problem": worker.problem} for name, worker in service.workers.items()
    }
    return all(one["state"] in ("starting", "running") for one in states.values()), {"streams": states}


def keys(worker: Worker, monitor: str, *, offset: int, limit: int, order: str, search: str) -> dict[str, Any]:
    """Some keys of a monitor, in an order, with the numbers of each."""
    engine = worker.engine
    with engine.lock:
        records = engine.records[monitor]
        found = [(key, record) for key, record in records.items() if search.lower() in key.lower()]
        sort = ORDERS[order]
        found.sort(key=lambda one: sort(*one))
        shown = [_row(key, record) for key, record in found[offset : offset + min(limit, MOST_KEYS)]]
        return jsonable({"total": len(found), "offset": offset, "models": records.models, "keys": shown})


def result(worker: Worker, monitor: str, key: str) -> dict[str, Any] | None:
    """The results of one key with its trajectory, or None if there is no such key."""
    engine = worker.engine
    with engine.lock:
        records = engine.records[monitor]
        if key not in records:
            return None
        record, models = records[key], records.models
        points = record.points.T.tolist()
        count = len(models)
        evidences, shares = points[len(LEADING) : len(LEADING) + count], points[len(LEADING) + count :]
        alarms = [alarm._asdict() for alarm in engine.alarms if alarm.monitor == monitor and alarm.key == key]
        trajectory = {
            **dict(zip(LEADING, points, strict=False)),
            "log_evidence": dict(zip(models, evidences, strict=True)),
            "probabilities": dict(zip(models, shares, strict=True)),
        }
        return jsonable({**_row(key, record), "models": models, "trajectory": trajectory, "alarms": alarms})


def alarms(service: Service, limit: int) -> list[dict[str, Any]]:
    """The last alarms of all streams, the newest first."""
    found = []
    for worker in service.workers.values():
        with worker.engine.lock:
            found += [alarm._asdict() for alarm in worker.engine.alarms]
    return jsonable(sorted(found, key=lambda one: one["time"], reverse=True)[:limit])


def per_row(record: Record) -> float:
    """Log evidence per row of the best model, in nats."""
    return max(record.log_evidence) / record.num_observations if record.num_observations else math.nan


def _stream(worker: Worker) -> dict[str, Any]:
    engine = worker.engine
    with engine.lock:
        return {
            "source": engine.source,
            "state": worker.state,
            "problem": worker.problem,
            "messages": engine.counts.messages,
            "rows": engine.counts.rows,
            "rejected": engine.counts.rejected,
            "waiting": engine.rows.num_waiting,
            "alarms": engine.counts.alarms,
            "lag_seconds": worker.lag(),
            "checkpoint_time": worker.checkpoint_time,
            "monitors": {
                name: _monitor(records, engine.monitor_kind(name), engine.refused[name])
                for name, records in engine.records.items()
            },
        }


def _monitor(records: Records, kind: str, refused: int) -> dict[str, Any]:
    every = [record for _, record in records.items()]
    rows = sum(record.num_observations for record in every)
    count = max(1, len(every))
    return {
        "kind": kind,
        "keys": len(every),
        "rows": rows,
        "refused": refused,
        "alarms": sum(record.num_alarms for record in every),
        "models": {
            name: {
                "log_evidence": math.fsum(record.log_evidence[at] for record in every),
                "log_evidence_per_row": math.fsum(record.log_evidence[at] for record in every) / max(1, rows),
                "weight": math.fsum(record.probabilities[at] for record in every) / count,
            }
            for at, name in enumerate(records.models)
        },
    }


def _row(key: str, record: Record) -> dict[str, Any]:
    return {
        "key": key,
        "rows": record.num_observations,
        "log_evidence": record.log_evidence,
        "standard_error": record.standard_error,
        "log_evidence_per_row": per_row(record),
        "probabilities": record.probabilities,
        "alarms": record.num_alarms,
        "last_alarm": record.last_alarm,
        "recent": record.recent,
    }


def _last(value: float) -> float:
    """A number by which unknown ones come last."""
    return math.inf if math.isnan(value) else value
