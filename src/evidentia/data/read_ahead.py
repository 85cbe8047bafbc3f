"""Reading ahead: a thread produces the next items of an iterator while one is used."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


def read_ahead(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """Yield the items of an iterator in order, with at most `depth` produced ahead on a thread.

    An exception of `items` is raised in its place. If the reader stops early, `items` is closed
    after its current item.
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
