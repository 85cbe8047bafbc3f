"""Reading ahead: the next items of an iterator are made on a thread while the present one is used."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


def read_ahead(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """The same items in the same order, at most `depth` of them made before they are asked for.

    What `items` raises is raised where its item would have come. When the reader stops early,
    `items` is closed after the item on which the thread is working.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="evidentia-read-ahead")
    try:
        pending: deque[Future] = deque(thread.submit(next, items, _END) for _ in range(depth))
        while (item := pending.popleft().result()) is not _END:
            pending.append(thread.submit(next, items, _END))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
        if close := getattr(items, "close", None):
            close()
