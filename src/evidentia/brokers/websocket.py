"""WebSockets: each message is a payload; what is sent while the connection is lost is missing."""

import hashlib
import logging
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from evidentia.brokers.addresses import Address
from evidentia.brokers.http import SECONDS, UnavailableError, authorization, failure
from evidentia.brokers.message import Message, Position
from evidentia.brokers.reconnecting import TICK, patiently, reconnecting

SILENT = logging.Logger("evidentia.brokers.websocket", logging.CRITICAL)  # the client logs headers
WAITING = 64  # messages read ahead
LARGEST = 1 << 26  # bytes of a message


class WebSocket:
    """The messages of `ws(s)://host:port/path`; positions are a count and a digest.

    Name and password before an @ are sent as basic authentication, `:token@` as a bearer token.

    Args:
        address: its address.

    Raises:
        ConfigurationError: an option; there are none.
    """

    def __init__(self, address: Address):
        address.checked_options()
        self.name = address.name
        self._url = f"{address.scheme}://{address.hosts}/{address.path}"
        self._headers = authorization(address)
        self._tls = ssl.create_default_context() if address.has_tls() else None
        self._received = 0
        self._socket: ClientConnection | None = None

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield messages as they come; see `Subscription`. A WebSocket cannot go back.

        Raises:
            ConfigurationError: the server refuses.
        """
        self._received = int((position or {}).get("received", 0))
        lost = ConnectionClosed, InvalidHandshake, UnavailableError, OSError, TimeoutError
        yield from reconnecting(self.name, self._connected, lost)

    def acknowledge(self, position: Position) -> None:
        """Do nothing: a WebSocket has no acknowledgement."""

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> Iterator[Message | None]:
        with ExitStack() as stack:
            connection = self._socket = yield from patiently(lambda: self._entered(stack))
            while True:
                try:
                    found = connection.recv(timeout=TICK)
                except TimeoutError:
                    yield None
                    continue
                payload = found.encode() if isinstance(found, str) else found
                self._received += 1
                digest = hashlib.sha256(payload).hexdigest()[:32]
                yield Message(payload, {"received": self._received, "digest": digest})

    def _entered(self, stack: ExitStack) -> ClientConnection:
        try:
            connection = connect(
                self._url,
                ssl=self._tls,
                additional_headers=self._headers,
                open_timeout=SECONDS,
                max_size=LARGEST,
                max_queue=WAITING,
                logger=SILENT,
            )
            return stack.enter_context(connection)
        except InvalidStatus as error:
            raise failure(self.name, error.response.status_code) from None
