"""Redis streams, read by entry ids without a consumer group: the checkpoint knows where to go on.

An entry that was removed before it was read, by XTRIM or MAXLEN, would be lost unnoticed. The
server counts the entries ever added, so the number removed is that count less the length. A
transaction reads both counts together with the next entries: if more were removed than had been
read, some are lost, and reading ends with an error.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from evidentia.brokers.addresses import Address
from evidentia.brokers.message import Message, Position
from evidentia.brokers.reconnecting import LOGGER, described, patiently, reconnecting
from evidentia.errors import ConfigurationError, DataError

LOST = ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OSError
BLOCK = 500  # entries in one answer
WAIT = 300  # milliseconds that the server waits for an entry
SECONDS = 10.0  # to connect, and for an answer
START = "0-0"


class Counts(NamedTuple):
    """Of a stream, at one moment.

    Attributes:
        added: entries ever added; None before Redis 7.
        length: entries in the stream now.
        last: the id of the last entry ever added.
    """

    added: int | None
    length: int
    last: str


class RedisStream:
    """The entries of a Redis stream: `redis://host:port/stream`, or `…/2/stream` in database 2.

    The payload is the field `payload`, if the entries have it (`field` names another). Without it,
    the fields are a row: a JSON object of numbers and text. Positions are {"id": …, "read": …},
    the last id and the number of entries added up to it, if known.

    Args:
        address: its address.

    Raises:
        ConfigurationError: an unknown option.
    """

    def __init__(self, address: Address):
        self.name = address.name
        self._field: bytes = address.checked_options(field="payload")["field"].encode()
        database, _, stream = address.path.rpartition("/")
        if database and not database.isdigit():
            database, stream = "", address.path
        self._stream = stream
        self._client: Redis = Redis(
            host=address.host(),
            port=address.port(6379),
            db=int(database or 0),
            username=address.username or None,
            password=address.password or None,
            protocol=2,
            ssl=address.has_tls(),
            socket_timeout=SECONDS,
            socket_connect_timeout=SECONDS,
            retry=Retry(NoBackoff(), 0),  # `reconnecting` does it
        )
        self._last, self._read = START, None

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield the entries after a position; see `Subscription`.

        Raises:
            DataError: entries were removed before they were read, or the stream is another one.
            ConfigurationError: the server refuses: wrong credentials, or no stream.
        """
        self._last, self._read = _position(position, self.name)
        yield from reconnecting(self.name, self._connected, LOST)

    def acknowledge(self, position: Position) -> None:
        """Do nothing: entries stay in the stream until its owner trims it."""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _connected(self) -> Iterator[Message | None]:
        yield from patiently(self._greeted)
        while True:
            try:
                counts, entries = self._next_entries()
            except ResponseError as error:
                raise ConfigurationError(f"{self.name}: Redis refuses: {described(error)}.") from None
            if counts is not None:
                self._check(counts, len(entries))
            for identity, fields in entries:
                self._last = identity.decode()
                self._read = None if self._read is None else self._read + 1
                yield Message(self._payload(fields), {"id": self._last, "read": self._read})
            if len(entries) < BLOCK:
                yield None
                self._client.xread({self._stream: self._last}, count=1, block=WAIT)  # only to wait

    def _greeted(self) -> None:
        try:
            self._client.ping()
        except (AuthenticationError, ResponseError) as error:
            raise ConfigurationError(f"{self.name}: Redis refuses: {described(error)}.") from None

    def _next_entries(self) -> tuple[Counts | None, list[tuple[bytes, Mapping[bytes, bytes]]]]:
        """The counts and the next entries, of one moment."""
        with self._client.pipeline(transaction=True) as both:
            both.xinfo_stream(self._stream)
            both.xread({self._stream: self._last}, count=BLOCK)
            answers: list[Any] = both.execute(raise_on_error=False)
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        if errors and "no such key" in str(errors[0]):
            return None, []
        if errors:
            raise errors[0]
        info, read = answers
        last = info["last-generated-id"]
        counts = Counts(info.get("entries-added"), info["length"], last.decode())
        return counts, read[0][1] if read else []

    def _check(self, counts: Counts, num_new: int) -> None:
        """Count the entries up to the last one read; raise DataError if others were removed."""
        if counts.added is None:
            return
        removed = counts.added - counts.length
        if self._last == START:
            self._read = removed  # what was there before this run is not awaited
        if self._read is not None and removed > self._read:
            raise DataError(
                f"{self.name}: {removed - self._read:,} entries after {self._last} were removed from the stream before they "
                "were read. Let the stream be longer (MAXLEN), or begin anew with another folder for --checkpoint."
            )
        if self._read is not None and counts.added < self._read + num_new:
            LOGGER.warning(
                "%s: the server has fewer entries than were read: it lost its newest ones, or the stream was created "
                "anew. Reading goes on after %s.",
                self.name,
                self._last,
            )
            self._read = None
        if self._read is None and num_new < BLOCK:
            self._read = counts.added - num_new

    def _payload(self, fields: Mapping[bytes, bytes]) -> bytes:
        if self._field in fields:
            return fields[self._field]
        row = {name.decode(errors="replace"): _value(value) for name, value in fields.items()}
        return json.dumps(row).encode()


def _value(text: bytes) -> float | int | str:
    """A number, if a field holds one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.decode(errors="replace")


def _position(position: Position | None, name: str) -> tuple[str, int | None]:
    if position is None:
        return START, None
    if not isinstance(position.get("id"), str):
        raise DataError(f"{name}: the position of a Redis stream must have an id; got {position!r}.")
    return position["id"], position.get("read")
