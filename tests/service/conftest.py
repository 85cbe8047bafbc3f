"""A stream of simulated sensors, and a subscription that gives its messages."""

import json

import numpy as np
import pytest

from evidentia.brokers.message import Message
from evidentia.service.engine import Engine
from evidentia.service.settings import checked

LEVEL = {
    "kind": "run_lengths",
    "columns": "pressure",
    "model": {"type": "NormalInverseGamma", "scale": 1.0},
    "hazard": 0.01,
}
CHANGED = 120  # row of each key from which the pressure of key s1 is higher


class Given:
    """A subscription that yields some messages, and then None for ever."""

    def __init__(self, payloads, name="given"):
        self.name, self.payloads = name, list(payloads)
        self.acknowledged, self.is_closed = [], False

    def messages(self, position):
        first = 0 if position is None else position["next"]
        for index in range(first, len(self.payloads)):
            yield Message(self.payloads[index], {"next": index + 1})
        while True:
            yield None

    def acknowledge(self, position):
        self.acknowledged.append(position)

    def close(self):
        self.is_closed = True


def readings(num_rows=200, num_keys=3, seed=0):
    """Rows of sensors in turn; the mean of s1 changes by five."""
    generator = np.random.default_rng(seed)
    return [
        {"sensor": f"s{key}", "pressure": float(generator.normal(5.0 * (key == 1 and row >= CHANGED)))}
        for row in range(num_rows)
        for key in range(num_keys)
    ]


def payloads_of(rows):
    return [json.dumps(row).encode() + b"\n" for row in rows]


def settings_of(monitors=None, **stream):
    """The settings of one stream, s."""
    given = {"source": "given", "key": "sensor", "batch_size": 10, "monitors": monitors or {"level": LEVEL}}
    return checked({"streams": {"s": given | stream}})


def engine_of(settings=None, webhooks=()):
    settings = settings or settings_of()
    return Engine("s", settings.streams["s"], no_models, source="given", webhooks=webhooks)


def no_models(name, key):
    raise AssertionError("no model of the user's is needed")


def fed(engine, rows):
    """Give rows to an engine, one in a message, and process whole batches as they come."""
    alarms = []
    for row in rows:
        done = 0 if engine.position is None else engine.position["next"]
        assert not engine.take([row], {"next": done + 1})
        while engine.rows.num_complete:
            found, refused = engine.process()
            assert not refused
            alarms += found
    return alarms


@pytest.fixture
def engine():
    return engine_of()
