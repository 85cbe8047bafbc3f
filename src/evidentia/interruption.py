"""Requests to stop that are heard between two steps of an estimator.

Python raises KeyboardInterrupt wherever the program is. Inside a callback, as of the garbage
collector, it is printed and lost; and a handler of one's own may only take a note. So estimators
call `check` before each step, which raises what was asked for.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Interrupted(KeyboardInterrupt):
    """Raised by `check` between two steps; nothing is half done."""


def _never() -> bool:
    return False


_is_requested: ContextVar[Callable[[], bool]] = ContextVar("is_requested", default=_never)


def check() -> None:
    """Raise Interrupted if a stop was requested in this thread's `listening`."""
    if _is_requested.get()():
        raise Interrupted


@contextmanager
def listening(is_requested: Callable[[], bool]) -> Iterator[None]:
    """Within it, `check` asks this function."""
    token = _is_requested.set(is_requested)
    try:
        yield
    finally:
        _is_requested.reset(token)


@contextmanager
def hearing_ctrl_c() -> Iterator[None]:
    """Within it, `check` repeats a KeyboardInterrupt that a callback has swallowed.

    Only where Python's own handler is in place; in other threads there is nothing to hear.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard: list[int] = []

    def handle(number, frame):
        heard.append(number)
        signal.default_int_handler(number, frame)

    try:
        signal.signal(signal.SIGINT, handle)
    except ValueError:  # not the main thread
        yield
        return
    try:
        with listening(lambda: bool(heard)):
            yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
