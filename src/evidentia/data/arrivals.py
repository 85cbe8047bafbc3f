"""Waiting for what comes when it comes: a followed file, a pipe. The wait can be given up, and
does not block other work.
"""

import os
import queue
import select
import threading
from collections.abc import Callable, Generator, Iterator
from io import BufferedReader, RawIOBase
from typing import TypeVar

Item = TypeVar("Item")
TICK = 0.2  # seconds between two looks


def arriving(items: Iterator[Item], depth: int = 2) -> Generator[Item | None, None, None]:
    """The same items in the same order, made on a thread, and None whenever none came for a while.

    What `items` raises is raised where its item would have come. At most `depth` are made before
    they are asked for. When the reader stops early, the thread ends with the item on which it is
    working; it never keeps a process from ending.

    Example:
        >>> list(item for item in arriving(iter([1, 2, 3])) if item is not None)
        [1, 2, 3]
    """
    made: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(depth)
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
        thread.join(10 * TICK)  # it is better not to be in the middle of something when a process ends


def _make(items: Iterator[Item], made: queue.Queue, abandoned: threading.Event) -> None:
    while not abandoned.is_set():
        try:
            entry = next(items), None
        except BaseException as error:  # also what is no Exception belongs to the reader
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
    """The file, pipe or socket of a descriptor for reading, which ends once `stop` says so, even
    where nothing comes.
    """
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
            # Elsewhere only sockets can be waited for; there a read that blocks is left to its
            # thread.
            if os.name == "posix" and not select.select([self._descriptor], [], [], TICK)[0]:
                continue
            read = os.read(self._descriptor, len(buffer))
            buffer[: len(read)] = read
            return len(read)
        return 0
