"""Reconnection with growing pauses, written once for the clients that do not do it themselves."""

import logging
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from evidentia.brokers.message import Message

T = TypeVar("T")
LOGGER = logging.getLogger("evidentia.brokers")
TICK = 0.25  # seconds between signs of life while nothing comes
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # seconds before an attempt; each further one waits twice as long


def reconnecting(
    name: str, connected: Callable[[], Iterator[Message | None]], errors: tuple[type[Exception], ...]
) -> Iterator[Message | None]:
    """Yield what `connected()` yields; after its end or one of `errors`, call it again.

    Between attempts it waits, twice as long after each that brought no message, and yields None
    meanwhile. Each loss of the connection is logged once.

    Args:
        name: the name of the subscription, for the log.
        connected: connects, and yields the messages after the last one that it has yielded.
        errors: those that mean a lost connection; all others are raised.
    """
    pause, is_lost = FIRST_PAUSE, False
    while True:
        try:
            for message in connected():
                if message is not None:
                    if is_lost:
                        LOGGER.warning("%s: connected again.", name)
                    pause, is_lost = FIRST_PAUSE, False
                yield message
        except errors as error:
            if not is_lost:
                LOGGER.warning("%s: the connection was lost (%s); trying again.", name, described(error))
            is_lost = True
        yield from pausing(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def pausing(seconds: float) -> Iterator[None]:
    """Wait, and yield None at least every half second."""
    until = time.monotonic() + seconds
    yield None
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(TICK, left))
        yield None


def patiently(work: Callable[[], T]) -> Generator[None, None, T]:
    """Return what a function returns, and yield None while it takes its time on a thread."""
    with ThreadPoolExecutor(1, "evidentia-connecting") as pool:
        done = pool.submit(work)
        while not wait([done], TICK).done:
            yield None
        return done.result()


def described(error: BaseException | None) -> str:
    """The first line of an error, or its type."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
