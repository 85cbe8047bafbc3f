"""NATS JetStream, read by the sequence numbers of the stream, from an ephemeral consumer.

The client's event loop runs only while messages are asked for, in the thread that asks: nothing is
read ahead but one block. Nothing is acknowledged, as the checkpoint knows where to go on. If an
answer is lost, the numbers that the consumer gives to its messages have a gap: another consumer
then begins after the last message.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, TypeVar

import nats
import nats.errors
import nats.js.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from evidentia.brokers.addresses import Address
from evidentia.brokers.message import Message, Position
from evidentia.brokers.reconnecting import TICK, described, reconnecting
from evidentia.errors import ConfigurationError, DataError

T = TypeVar("T")
BLOCK, WAIT = 500, 0.3  # messages in one answer, and seconds that it waits
SECONDS = 5.0  # to connect, and for an answer of the server
LOST = nats.errors.Error, OSError, asyncio.TimeoutError
REFUSED = nats.errors.AuthorizationError, nats.js.errors.BadRequestError


class AbsentError(Exception):
    """The stream does not exist yet."""


class JetStream:
    """Messages of a JetStream stream: `nats://host:port/stream`; of some subjects by `?subject=`.

    Positions are {"seq": …}, the number of the last message in the stream. `credentials` names a
    file of NATS; of a token in place of name and password, give only the name.

    Args:
        address: its address.

    Raises:
        ConfigurationError: an unknown option.
    """

    def __init__(self, address: Address):
        self.name = address.name
        options = address.checked_options(subject="", credentials="")
        self._stream, self._subject = address.path, options["subject"]
        self._login: dict[str, Any] = {}
        if options["credentials"]:
            self._login["user_credentials"] = options["credentials"]
        if address.username and address.password:
            self._login |= {"user": address.username, "password": address.password}
        elif address.username:
            self._login["token"] = address.username
        scheme = "tls" if address.has_tls() else "nats"
        self._servers = [f"{scheme}://{host}" for host in address.hosts.split(",")]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        self._last = 0

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield the messages after a position; see `Subscription`.

        Raises:
            DataError: messages after the position were removed from the stream.
            ConfigurationError: the server refuses the credentials.
        """
        self._last = int((position or {}).get("seq", 0))
        self._loop = asyncio.new_event_loop()
        try:
            yield from reconnecting(self.name, self._connected, (*LOST, AbsentError))
        finally:
            self.close()

    def acknowledge(self, position: Position) -> None:
        """Do nothing: messages stay in the stream as long as its limits say."""

    def close(self) -> None:
        """Close the connection."""
        if self._loop is not None:
            self._disconnect()
            self._loop.close()
            self._loop = None

    def _connected(self) -> Iterator[Message | None]:
        try:
            self._connection = yield from self._patiently(self._connection_made())
            while True:
                yield from self._from_a_consumer()
        except REFUSED as error:
            raise ConfigurationError(f"{self.name}: NATS refuses: {described(error)}.") from None
        finally:
            self._disconnect()

    def _from_a_consumer(self) -> Iterator[Message | None]:
        """The messages after the last one, until an answer is lost."""
        consumer = yield from self._patiently(self._consumer())
        number = 0
        while True:
            for one in self._run(self._block(consumer)):
                numbers = one.metadata.sequence
                if numbers.consumer != number + 1:
                    return
                number = numbers.consumer
                self._last = numbers.stream
                yield Message(one.data, {"seq": self._last}, one.subject)
            yield None

    async def _consumer(self) -> Any:
        stream = self._connection.jetstream(timeout=SECONDS)
        try:
            state = (await stream.stream_info(self._stream)).state
        except nats.js.errors.NotFoundError:
            if self._last:
                raise DataError(f"{self.name}: the stream no longer exists.") from None
            raise AbsentError(f"JetStream has no stream {self._stream!r}") from None
        if 0 < self._last < state.first_seq - 1 and not self._subject:
            raise DataError(
                f"{self.name}: messages {self._last + 1:,} to {state.first_seq - 1:,} were removed from the stream before they "
                "were read. Raise its limits, or begin anew with another folder for --checkpoint."
            )
        if state.last_seq < self._last:
            raise DataError(
                f"{self.name}: the stream ends at message {state.last_seq:,}, but {self._last:,} were read: it was created anew. "
                "Begin anew with another folder for --checkpoint."
            )
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._last + 1,
            ack_policy=AckPolicy.NONE,
            filter_subject=self._subject or None,
            inactive_threshold=60.0,
            mem_storage=True,
        )
        info = await stream.add_consumer(self._stream, config)
        return await stream.pull_subscribe_bind(info.name, self._stream)

    async def _block(self, consumer: Any) -> list[Any]:
        try:
            return await consumer.fetch(BLOCK, timeout=WAIT)
        except nats.errors.TimeoutError:  # nothing came
            if not self._connection.is_connected:
                raise nats.errors.ConnectionClosedError from None
            return []

    async def _connection_made(self) -> Any:
        options: Any = {"allow_reconnect": False, "max_reconnect_attempts": 1, "connect_timeout": SECONDS}
        made = nats.connect(self._servers, error_cb=_said_by_the_reader, **options, **self._login)
        try:
            return await asyncio.wait_for(made, 2 * SECONDS)
        except nats.errors.Error as error:
            if "authorization violation" in str(error).lower():  # while connecting it has no class of its own
                raise nats.errors.AuthorizationError from None
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._run(connection.close())

    def _patiently(self, coroutine: Coroutine[Any, Any, T]) -> Generator[None, None, T]:
        """Run a coroutine, and yield None while it takes its time."""
        assert self._loop is not None
        task = self._loop.create_task(coroutine)
        try:
            while not task.done():
                self._run(asyncio.wait({task}, timeout=TICK))
                if not task.done():
                    yield None
        finally:
            task.cancel()
        return task.result()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return self._loop.run_until_complete(coroutine)


async def _said_by_the_reader(_error: Exception) -> None:
    """Instead of the client's own log: `reconnecting` tells of a lost connection."""
