import os
import threading
import time

import pytest

from evidentia.data.arrivals import arriving, stoppable


def test_the_same_items_in_the_same_order():
    assert [item for item in arriving(iter(range(100))) if item is not None] == list(range(100))


def test_none_comes_while_nothing_else_does():
    go_on = threading.Event()

    def slow():
        yield 1
        go_on.wait()
        yield 2

    items = arriving(slow())
    assert next(items) == 1
    assert next(items) is None
    go_on.set()
    assert [item for item in items if item is not None] == [2]


def test_an_error_comes_in_the_place_of_its_item():
    def failing():
        yield 1
        raise OSError("gone")

    items = arriving(failing())
    assert next(items) == 1
    with pytest.raises(OSError, match="gone"):
        list(items)


def test_the_thread_ends_and_closes_the_iterator_when_the_reader_stops():
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    items = arriving(endless())
    next(items)
    items.close()
    assert closed.wait(5)


@pytest.mark.skipif(os.name != "posix", reason="only sockets can be waited for")
def test_a_pipe_gives_whole_reads_and_ends_when_it_is_asked_to():
    read_end, write_end = os.pipe()
    stopped = threading.Event()
    file = stoppable(read_end, stopped.is_set)
    os.write(write_end, b"ab")
    threading.Timer(0.05, os.write, (write_end, b"cd")).start()
    assert file.read(4) == b"abcd"
    began = time.monotonic()
    threading.Timer(0.1, stopped.set).start()
    assert file.read(1) == b""
    assert time.monotonic() - began < 5
    os.close(read_end)
    os.close(write_end)
