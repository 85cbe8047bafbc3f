"""MQTT topics, received with quality of service 1 in a session that the broker keeps.

MQTT has no offsets: the broker sends a message again until it is acknowledged, which happens when
it is in a checkpoint. So each message counts at least once. After a lost connection a message that
waits for its acknowledgement comes again with its packet identifier, and is recognised by it (MQTT
5.0, section 4.4). So are those whose acknowledgement the broker lost when it was killed. After a
crash of the reader none can be recognised, unless it carries a number: with `sequence=NAME`, a
message whose number is not above the last one counted is left out, and each counts exactly once.
"""

import hashlib
import json
import queue
import ssl
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from evidentia.brokers.addresses import Address
from evidentia.brokers.message import Message, Position
from evidentia.brokers.reconnecting import LOGGER, TICK, described
from evidentia.errors import ConfigurationError, DataError

SESSION = 7 * 24 * 3600  # seconds that the broker keeps what was not delivered
KEEPALIVE = 30
REFUSED = {  # reason codes of MQTT 5.0, section 2.4, after which another attempt is in vain
    0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8F, 0x90, 0x95, 0x9B, 0x9C,
}  # fmt: skip
TAKEN_OVER = 0x8E


class MqttTopics:
    """The messages of a topic filter: `mqtt://host:port/sensors/+/readings`.

    Positions are {"received": …, "digest": …}, a count and the digest of the last one, and with
    `sequence` the last number. `client_id` names the session: two runs with the same would take it
    from each other. At most `window` messages wait for their acknowledgement; then the broker
    waits.

    Args:
        address: its address.

    Raises:
        ConfigurationError: an unknown option, or a window out of range.
    """

    def __init__(self, address: Address):
        self.name = address.name
        self._address = address
        default = "evidentia-" + hashlib.sha256(address.name.encode()).hexdigest()[:12]
        options = address.checked_options(client_id=default, sequence="", window=20_000)
        self._client_id, self._sequence, self._window = options.values()
        if not 0 < self._window < 65_536:
            raise ConfigurationError(f"{self.name}: window must be from 1 to 65535; got {self._window}.")
        self._client: Client | None = None
        self._arrived: queue.Queue[MQTTMessage | Exception] = queue.Queue(self._window)
        self._unacknowledged: deque[tuple[int, int]] = deque()  # counts and packet identifiers
        self._last: dict[
            int, tuple[int, bytes]
        ] = {}  # count and digest of the last one, by packet identifier
        self._acknowledged = 0
        self._is_lost = False

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield the messages that the broker has not seen acknowledged; see `Subscription`.

        Raises:
            ConfigurationError: the broker refuses the credentials or the topic filter.
            DataError: another program uses the session, or a message has no sequence number.
        """
        received = int((position or {}).get("received", 0))
        last = (position or {}).get("sequence")
        self._connect()
        self._acknowledged = received
        while True:
            try:
                one = self._arrived.get(timeout=TICK)
            except queue.Empty:
                yield None
                continue
            if isinstance(one, Exception):
                raise one
            payload = bytes(one.payload)
            digest = hashlib.sha256(payload).digest()[:16]
            if self._is_repeated(one, digest):
                continue
            if self._sequence and (number := _number(payload, self._sequence)) is not None:
                if last is not None and number <= last:
                    self._acknowledge_one(one.mid)
                    continue
                last = number
            received += 1
            if one.qos:
                self._last[one.mid] = received, digest
                self._unacknowledged.append((received, one.mid))
            after = {"received": received, "digest": digest.hex()}
            after |= {"sequence": last} if self._sequence else {}
            yield Message(payload, after, one.topic)

    def acknowledge(self, position: Position) -> None:
        """Acknowledge the messages up to a position, so that the broker forgets them."""
        self._acknowledged = position["received"]
        while self._unacknowledged and self._unacknowledged[0][0] <= self._acknowledged:
            self._acknowledge_one(self._unacknowledged.popleft()[1])

    def close(self) -> None:
        """Disconnect; the broker keeps the session and what was not acknowledged."""
        if self._client is not None:
            self._client.on_disconnect = None
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None

    def _connect(self) -> None:
        self.close()
        client = Client(
            CallbackAPIVersion.VERSION2, self._client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True
        )
        if self._address.username:
            client.username_pw_set(self._address.username, self._address.password or None)
        if self._address.has_tls():
            client.tls_set_context(ssl.create_default_context())
        client.reconnect_delay_set(1, 30)
        client.on_connect, client.on_disconnect = self._connected, self._disconnected
        client.on_connect_fail = lambda *_: self._lose(described(sys.exc_info()[1]))  # paho handles it then
        client.on_subscribe = self._subscribed
        client.on_message = lambda _client, _userdata, one: self._arrived.put(one)
        session = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = SESSION
        session.ReceiveMaximum = self._window
        port = self._address.port(8883 if self._address.has_tls() else 1883)
        client.connect_async(self._address.host(), port, KEEPALIVE, clean_start=False, properties=session)
        self._client = client
        client.loop_start()

    def _connected(self, client: Client, _userdata: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.value in REFUSED:
            self._arrived.put(ConfigurationError(f"{self.name}: the broker refuses: {reason}."))
        elif not reason.is_failure:
            if self._is_lost:
                LOGGER.warning("%s: connected again.", self.name)
            self._is_lost = False
            client.subscribe(self._address.path, qos=1)

    def _disconnected(
        self, _client: Client, _userdata: Any, _flags: Any, reason: Any, _properties: Any
    ) -> None:
        if reason.value == TAKEN_OVER:
            error = f"{self.name}: another program has taken the session {self._client_id!r} over; give it another client_id."
            self._arrived.put(DataError(error))
        else:
            self._lose(str(reason))

    def _lose(self, reason: str) -> None:
        if not self._is_lost:
            LOGGER.warning("%s: the connection was lost (%s); trying again.", self.name, reason)
        self._is_lost = True

    def _subscribed(self, _client: Client, _userdata: Any, _mid: int, reasons: Any, _properties: Any) -> None:
        if refused := [str(reason) for reason in reasons if reason.is_failure]:
            self._arrived.put(ConfigurationError(f"{self.name}: the broker refuses: {refused[0]}."))

    def _is_repeated(self, one: MQTTMessage, digest: bytes) -> bool:
        """Whether the last message with this packet identifier comes again."""
        count, known = self._last.get(one.mid, (0, b""))
        if not (one.qos and one.dup and digest == known):
            return False
        if count <= self._acknowledged:  # the broker lost the acknowledgement
            self._acknowledge_one(one.mid)
        return True

    def _acknowledge_one(self, mid: int) -> None:
        if self._client is not None and mid:
            self._client.ack(mid, 1)


def _number(payload: bytes, name: str) -> int | None:
    """The sequence number of a message; None if it has none, which is left to the reader of rows.

    Of a list of rows, it is that of the last one.
    """
    try:
        found = json.loads(payload)
        row = found[-1] if isinstance(found, list) else found
        number = row[name]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return number if isinstance(number, int) else None
