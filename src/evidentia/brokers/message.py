"""The protocol that every broker's reader follows: messages, their positions, acknowledgement."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

# Where reading goes on after a message. It is complete and JSON-able: for Kafka, the next offset
# of every partition read so far, {"0": 1234, "1": 99}; for a Redis stream, {"id": "1692-0"}.
Position = dict[str, Any]


class Message(NamedTuple):
    """A message of a broker.

    Attributes:
        payload: its content, as the producer sent it.
        position: where reading goes on after this message. It includes all messages before it.
        key: the producer's key of the message, if the broker has keys: a partition key, a
            subject, a topic.
    """

    payload: bytes
    position: Position
    key: str | None = None


class Subscription(Protocol):
    """A stream of a broker, opened for reading by `brokers.addresses.subscribe`.

    Attributes:
        name: its address without credentials, for messages, logs and checkpoints.
    """

    name: str

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield the messages after a position, in the broker's order; from the start if None.

        Yields None at least every half second when nothing comes, so that the reader can stop or
        save. Never ends by itself: if the connection is lost, it reconnects with growing pauses
        and goes on after the last message. A bounded number of messages waits to be read.
        """
        ...

    def acknowledge(self, position: Position) -> None:
        """Tell the broker that all messages up to a position are in a checkpoint on disk."""
        ...

    def close(self) -> None:
        """Close the connection. Messages that were not acknowledged will be sent again."""
        ...
