"""A broker in memory, with partitions whose order of arrival differs at each reading."""

from collections.abc import Iterator
from random import Random
from typing import Any

from evidentia.brokers.message import Message, Position


class FakeBroker:
    """Messages by partition, as Kafka has them. What was acknowledged is kept in a list.

    Args:
        partitions: payloads of each.
        seed: of the order in which partitions are read; None for one after the other.
        ends: whether reading ends after the last message, instead of waiting.
    """

    name = "fake://host/topic"

    def __init__(self, partitions: list[list[bytes]], seed: int | None = None, ends: bool = True):
        self.partitions, self._random, self._ends = partitions, Random(seed), ends
        self._is_random = seed is not None
        self.acknowledged: list[Position] = []
        self.is_closed = False

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        offsets: dict[str, Any] = dict(position or {})
        while left := [
            index for index, part in enumerate(self.partitions) if offsets.get(str(index), 0) < len(part)
        ]:
            index = self._random.choice(left) if self._is_random else left[0]
            offset = offsets.get(str(index), 0)
            offsets[str(index)] = offset + 1
            yield Message(self.partitions[index][offset], dict(offsets), f"key {index}")
            if self._is_random and self._random.random() < 0.3:
                yield None
        yield None
        while not self._ends:
            yield None

    def acknowledge(self, position: Position) -> None:
        self.acknowledged.append(position)

    def close(self) -> None:
        self.is_closed = True
