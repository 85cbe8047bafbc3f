"""Reading ahead: a thread produces the next items of an iterator while one is used."""

from collections.abc import Iterator
from contextlib import closing
from typing import TypeVar

from evidentia.data.arrivals import arriving

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of an iterator in order, produced ahead on the thread of `arriving`.

    A reader that stops early, as after Ctrl-C, does not wait for an iterator that is blocked.
    """
    with closing(arriving(items)) as arrivals:
        yield from (item for item in arrivals if item is not None)
