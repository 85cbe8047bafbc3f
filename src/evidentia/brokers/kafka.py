"""Kafka topics, read by offsets: partitions are assigned, no consumer group divides them.

librdkafka fetches ahead in its own threads, bounded, and connects again by itself with growing
pauses. Offsets in the checkpoint decide where reading goes on, not those that Kafka may hold for a
group; they are committed to it only if `group.id` is given, so that other tools can show the lag.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from evidentia.brokers.addresses import Address
from evidentia.brokers.message import Message, Position
from evidentia.brokers.reconnecting import LOGGER, described, pausing
from evidentia.errors import ConfigurationError, DataError

BLOCK, WAIT = 500, 0.3  # messages in one call, and seconds that it waits
LOOK_EVERY = 30.0  # seconds between looks for new partitions
OURS = "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "bootstrap.servers"
DEFAULTS: Mapping[str, Any] = {
    "queued.max.messages.kbytes": 16_384,  # read ahead, of all partitions
    "queued.min.messages": 10_000,
    "fetch.queue.backoff.ms": 10,  # else it waits a second after each time that the queue was full
    "reconnect.backoff.max.ms": 30_000,
    "topic.metadata.refresh.interval.ms": 30_000,
    "allow.auto.create.topics": False,
    "log_level": 2,  # critical only: lost connections are said by this module
}
REFUSED = (
    KafkaError._AUTHENTICATION,  # pyright: ignore[reportPrivateUsage]
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
GONE = KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE  # pyright: ignore[reportPrivateUsage]


class KafkaTopic:
    """The messages of all partitions of a topic: `kafka://host:port,host:port/topic`.

    Positions are the next offsets by partition, {"0": 1234, "1": 99}. The order within a partition
    is that of Kafka; the order between partitions is that of arrival, which may differ if they are
    read again.

    Args:
        address: its address. Options are properties of librdkafka, such as
            `security.protocol=SASL_SSL`; with credentials in the URL that is the default.

    Raises:
        ConfigurationError: a property that librdkafka does not know, or one that is set here.
    """

    def __init__(self, address: Address):
        self.name = address.name
        self._topic = address.path
        if fixed := [name for name in address.options if name in OURS]:
            raise ConfigurationError(
                f"{self.name}: {', '.join(fixed)} cannot be set: the checkpoint decides."
            )
        self._commits = "group.id" in address.options
        login: dict[str, Any] = {}
        if address.username:
            login = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": address.username,
                "sasl.password": address.password,
            }
        settings = {**DEFAULTS, "group.id": "evidentia", **login, **address.options}
        fixed_here = {
            "bootstrap.servers": address.hosts,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # never skips messages that retention removed
            "error_cb": self._failed,
        }
        try:
            self._consumer = Consumer({**settings, **fixed_here})
        except (KafkaException, ValueError, TypeError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else described(error)
            raise ConfigurationError(f"{self.name}: librdkafka refuses an option: {reason}.") from None
        self._refused: KafkaError | None = None
        self._is_lost = self._is_closed = False

    def messages(self, position: Position | None) -> Iterator[Message | None]:
        """Yield the messages after a position; see `Subscription`.

        Raises:
            DataError: messages after the position were removed by Kafka's retention.
            ConfigurationError: Kafka refuses the credentials or the topic.
        """
        offsets = dict(position or {})
        self._consumer.unassign()
        known, looked = set[int](), float("-inf")
        while True:
            if not known or time.monotonic() - looked > LOOK_EVERY:
                known |= self._assign_new(known, offsets)
                looked = time.monotonic()
            if not known:
                yield from pausing(1.0)
                continue
            found = self._consumer.consume(BLOCK, WAIT)
            for one in found:
                if self._is_message(one, offsets):
                    offsets[str(one.partition())] = int(one.offset() or 0) + 1
                    yield Message(_bytes(one.value()), dict(offsets), _text(one.key()))
            self._check_refused()
            if len(found) < BLOCK:
                yield None

    def acknowledge(self, position: Position) -> None:
        """Commit the offsets to the group, if one was given; failures are only logged."""
        if self._commits and not self._is_closed:
            offsets = [TopicPartition(self._topic, int(part), offset) for part, offset in position.items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                LOGGER.warning("%s: offsets were not committed (%s).", self.name, error.args[0].str())

    def close(self) -> None:
        """Leave the cluster."""
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close()

    def _assign_new(self, known: set[int], offsets: Position) -> set[int]:
        """Assign the partitions that are not known; return them, none if Kafka does not answer."""
        try:
            topic = self._consumer.list_topics(self._topic, timeout=WAIT if known else 2 * WAIT / 3).topics
        except KafkaException:
            self._check_refused()
            return set()
        found = topic[self._topic]
        if found.error is not None:
            if found.error.code() in REFUSED:
                self._refused = found.error
            self._check_refused()
            if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and not known and offsets:
                raise DataError(f"{self.name}: the topic no longer exists.")
            return set()
        new = set(found.partitions) - known
        parts = [
            TopicPartition(self._topic, part, offsets.get(str(part), OFFSET_BEGINNING))
            for part in sorted(new)
        ]
        if parts:
            self._consumer.incremental_assign(parts)
        return new

    def _is_message(self, one: KafkaMessage, offsets: Position) -> bool:
        error = one.error()
        if error is None:
            if self._is_lost:
                self._is_lost = False
                LOGGER.warning("%s: connected again.", self.name)
            return True
        if error.code() in GONE:
            part = one.partition()
            raise DataError(
                f"{self.name}: Kafka no longer has the messages of partition {part} from offset {offsets.get(str(part), 0):,} on: "
                "they were removed before they were read. Keep them longer (retention.ms), or begin anew with another folder "
                "for --checkpoint."
            )
        if error.code() in REFUSED:
            self._refused = error
        return False

    def _check_refused(self) -> None:
        if self._refused is not None:
            raise ConfigurationError(f"{self.name}: Kafka refuses: {self._refused.str()}.")

    def _failed(self, error: KafkaError) -> None:
        """Take note of an error of the connection, which librdkafka tells of in `consume`."""
        if error.code() in REFUSED:
            self._refused = error
        elif not self._is_lost:
            self._is_lost = True
            LOGGER.warning("%s: the connection was lost (%s); trying again.", self.name, error.str())


def _bytes(value: Any) -> bytes:
    return b"" if value is None else value if isinstance(value, bytes) else str(value).encode()


def _text(key: Any) -> str | None:
    return key.decode(errors="replace") if isinstance(key, bytes) else key
