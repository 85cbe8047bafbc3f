"""Requests to stop, and the end of a run's time, heard between two steps of an estimator.

Python raises KeyboardInterrupt wherever the program is. Inside a callback, as of the garbage
collector, it is printed and lost; and a handler of one's own may only take a note. So estimators
call `check` before each step, which raises what was asked for.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Interrupted(KeyboardInterrupt):
    """Raised by `check` between two steps; nothing is half done."""


class TimeOver(Interrupted):
    """Raised by `check` once, after the time of `limited_to`; the text says what was allowed."""


class _Clock:
    """When the time is over, and whether that was said: what follows a stop takes time, too."""

    def __init__(self, seconds: float):
        self.seconds, self._end = seconds, time.monotonic() + seconds
        self._is_said = False

    def check(self) -> None:
        if not self._is_said and time.monotonic() > self._end:
            self._is_said = True
            raise TimeOver(f"time was over (max_seconds={self.seconds:g})")


def _never() -> bool:
    return False


_is_requested: ContextVar[Callable[[], bool]] = ContextVar("is_requested", default=_never)
_clock: ContextVar[_Clock | None] = ContextVar("clock", default=None)


def check() -> None:
    """Raise Interrupted if a stop was requested in this thread's `listening`, or TimeOver."""
    if _is_requested.get()():
        raise Interrupted
    clock = _clock.get()
    if clock is not None:
        clock.check()


@contextmanager
def limited_to(seconds: float | None) -> Iterator[None]:
    """Within it, `check` raises TimeOver once these seconds are over; None is no limit."""
    token = _clock.set(_clock.get() if seconds is None else _Clock(seconds))
    try:
        yield
    finally:
        _clock.reset(token)


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
