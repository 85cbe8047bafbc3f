"""Reading ahead changes only when items are produced."""

import itertools
import threading
import time

import pytest

from evidentia.data.arrivals import MOST_WAITING, read_ahead


def test_the_same_items_in_the_same_order():
    assert list(read_ahead(iter(range(100)))) == list(range(100))
    assert list(read_ahead(iter([]))) == []


def test_few_items_are_made_before_they_are_asked_for():
    made = []
    items = read_ahead(made.append(i) or i for i in itertools.count())
    for asked in range(1, 6):
        next(items)
        assert len(made) <= asked + MOST_WAITING + 1  # the thread holds one more
    items.close()


def test_items_are_made_on_a_thread_which_ends_with_the_reader():
    threads, closed = [], []

    def items():
        try:
            while True:
                threads.append(threading.current_thread())
                yield 1
        finally:
            closed.append(True)

    reader = read_ahead(items())
    next(reader)
    reader.close()
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive() and closed


def test_a_reader_can_leave_while_the_source_waits():
    """Ctrl-C closes the reader; a pipe may stay silent for ever, here for 20 seconds."""
    waits, enough = threading.Event(), threading.Event()

    def items():
        yield 1
        waits.set()
        enough.wait(20)

    reader = read_ahead(items())
    next(reader)
    waits.wait()
    began = time.monotonic()
    reader.close()
    assert time.monotonic() - began < 10
    enough.set()


def test_an_error_comes_where_its_item_would_have_come():
    def items():
        yield 1
        yield 2
        raise OSError("disk")

    reader = read_ahead(items())
    assert [next(reader), next(reader)] == [1, 2]
    with pytest.raises(OSError, match="disk"):
        next(reader)
