"""Where a run stands in a broker's stream, between two messages or inside one of many rows.

A checkpoint may be due when only some rows of a message are counted. The broker can only go on
after whole messages, so a place is the position after the last message that is counted whole, and
the number of rows counted of the messages after it. These are identified by what is new in their
positions (`place_of`): after a restart, partitions may be read in another order.
"""

import json
from collections import deque
from typing import NamedTuple

from evidentia.brokers.message import Message, Position
from evidentia.errors import CheckpointError


class Place(NamedTuple):
    """A place in a broker's stream.

    Attributes:
        rows: the number of rows counted so far.
        position: of the broker, after the last message that is counted whole; None at the start.
        counted: rows counted of later messages, by `key_of` the message.
    """

    rows: int = 0
    position: Position | None = None
    counted: dict[str, int] = {}  # noqa: RUF012 (a NamedTuple's default, never changed)

    def to_text(self) -> str:
        """Position and rows counted as JSON, for a checkpoint."""
        return json.dumps({"position": self.position, "counted": self.counted})

    @classmethod
    def from_text(cls, rows: int, text: str) -> "Place":
        """Restore a place. Raises CheckpointError if the text is damaged."""
        try:
            found = json.loads(text)
            return cls(rows, found["position"], dict(found["counted"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"the place in a broker's stream is damaged: {error}.") from None


START = Place()


class Mark(NamedTuple):
    """The end of a message: rows up to it, the position after it, and its key."""

    rows: int
    position: Position
    key: str


class Marks:
    """The ends of the messages that are read but not yet known to be counted.

    One thread adds marks as it reads, another asks for places. Memory grows with the messages read
    ahead only: marks before a place that was asked for are forgotten.

    Example:
        >>> marks = Marks(START)
        >>> marks.add(Mark(3, {"0": 1}, '{"0": 1}'))
        >>> marks.add(Mark(5, {"0": 2}, '{"0": 2}'))
        >>> marks.place_at(4)
        Place(rows=4, position={'0': 1}, counted={'{"0": 2}': 1})
    """

    def __init__(self, start: Place):
        self._rows, self._position = start.rows, start.position
        self._counted = dict(start.counted)
        self._ahead: deque[Mark] = deque()

    def add(self, mark: Mark) -> None:
        """Add the mark of the next message, before its rows are given away."""
        self._ahead.append(mark)

    def place_at(self, rows: int) -> Place:
        """The place after a number of rows, not before that of an earlier call."""
        while self._ahead and self._ahead[0].rows <= rows:
            mark = self._ahead.popleft()
            self._rows, self._position = mark.rows, mark.position
            self._counted.pop(mark.key, None)
        counted = dict(self._counted)
        if rows > self._rows:
            key = self._ahead[0].key
            counted[key] = counted.get(key, 0) + rows - self._rows
        return Place(rows, self._position, counted)


def place_of(message: Message, before: Position | None) -> Position:
    """The entries of a message's position that are new since the message before.

    They identify the message, also where partitions are read in another order.

    Example:
        >>> place_of(Message(b"", {"0": 8, "1": 5}), {"0": 7, "1": 5})
        {'0': 8}
    """
    before = before or {}
    return {name: value for name, value in message.position.items() if before.get(name) != value}


def key_of(place: Position) -> str:
    """The text of what is new in a message's position."""
    return json.dumps(place, sort_keys=True)
