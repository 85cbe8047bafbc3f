"""Reconnection: nothing ends it but an error of another kind; the pauses grow."""

import logging
import time

import pytest

import evidentia.brokers.reconnecting as module
from evidentia.brokers.message import Message
from evidentia.brokers.reconnecting import patiently, pausing, reconnecting

ONE, TWO = Message(b"1", {"0": 1}), Message(b"2", {"0": 2})


@pytest.fixture
def pauses(monkeypatch):
    """The pauses, which take no time."""
    found = []
    monkeypatch.setattr(module, "pausing", lambda seconds: found.append(seconds) or iter([None]))
    return found


def connections(*each):
    """A function that gives the items of each connection, and then raises a last error."""
    left = iter(each)

    def connected():
        for item in next(left):
            if isinstance(item, Exception):
                raise item
            yield item

    return connected


def test_it_goes_on_after_each_loss(pauses, caplog):
    lost = OSError("no route")
    connected = connections([ONE, lost], [lost], [lost], [TWO, lost], [ValueError("end")])
    found = []
    with caplog.at_level(logging.WARNING), pytest.raises(ValueError, match="end"):
        for message in reconnecting("fake://host", connected, (OSError,)):
            found.append(message)
    assert [message for message in found if message] == [ONE, TWO]
    assert pauses == [0.25, 0.5, 1.0, 0.25]  # the first pause again after a message
    assert caplog.messages == [
        "fake://host: the connection was lost (no route); trying again.",
        "fake://host: connected again.",
        "fake://host: the connection was lost (no route); trying again.",
    ]


def test_pauses_are_bounded(pauses):
    with pytest.raises(ValueError):
        list(reconnecting("fake://host", connections(*[[]] * 12, [ValueError()]), (OSError,)))
    assert max(pauses) == module.LONGEST_PAUSE


def test_signs_of_life_during_a_pause_and_a_slow_call():
    started = time.monotonic()
    assert len(list(pausing(0.6))) >= 3
    assert time.monotonic() - started >= 0.6
    calls = patiently(lambda: time.sleep(0.6) or 5)
    signs = 0
    try:
        while True:
            assert next(calls) is None
            signs += 1
    except StopIteration as end:
        assert end.value == 5
    assert signs >= 2
