"""Non-blocking, cancellable waiting for input, such as a followed file or a pipe."""

import os
import queue
import select
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from io import BufferedReader, RawIOBase
from typing import TypeVar

Item = TypeVar("Item")
TICK = 0.2  # seconds between polls
MOST_WAITING = 2  # items made ahead, besides the one in the making


def arriving(items: Iterator[Item]) -> Generator[Item | None, None, None]:
    """Yield items from an iterator run on a thread, and None when none has arrived for a while.

    The order is kept, and an exception of `items` is raised in its place. At most `MOST_WAITING`
    items wait to be read. If the reader stops early, the thread ends after its current item and
    closes `items`; it never prevents the process from exiting.

    Example:
        >>> list(item for item in arriving(iter([1, 2, 3])) if item is not None)
        [1, 2, 3]
    """
    made: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(MOST_WAITING)
    abandoned = threading.Event()
    args = items, made, abandoned
    thread = threading.Thread(target=_make, args=args, name="evidentia-arrivals", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item, end = made.get(timeout=TICK)
            except queue.Empty:
                yield None
                continue
            if isinstance(end, StopIteration):
                return
            if end is not None:
                raise end
            yield item
    finally:
        abandoned.set()
        thread.join(10 * TICK)  # let the thread finish its item before the process exits


def _make(items: Iterator[Item], made: queue.Queue, abandoned: threading.Event) -> None:
    while not abandoned.is_set():
        try:
            entry = next(items), None
        except BaseException as error:  # the reader gets KeyboardInterrupt and SystemExit too
            entry = None, error
        while not abandoned.is_set():
            try:
                made.put(entry, timeout=TICK)
                break
            except queue.Full:
                continue
        if entry[1] is not None:
            return
    if close := getattr(items, "close", None):
        close()


def stoppable(descriptor: int, stop: Callable[[], bool]) -> BufferedReader:
    """Open a descriptor for reading; reads end once `stop` returns True, even without input."""
    return BufferedReader(_Stoppable(descriptor, stop))


class _Stoppable(RawIOBase):
    def __init__(self, descriptor: int, stop: Callable[[], bool]):
        self._descriptor, self._stop = descriptor, stop

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def readinto(self, buffer) -> int:
        while not self._stop():
            # Elsewhere `select` works only on sockets, so the read blocks its thread.
            if os.name == "posix" and not select.select([self._descriptor], [], [], TICK)[0]:
                continue
            read = os.read(self._descriptor, len(buffer))
            buffer[: len(read)] = read
            return len(read)
        return 0


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of an iterator in order, produced ahead on the thread of `arriving`.

    A reader that stops early, as after Ctrl-C, does not wait for an iterator that is blocked.
    """
    with closing(arriving(items)) as arrivals:
        yield from (item for item in arrivals if item is not None)
