"""Live messages from brokers: Kafka, MQTT, Redis streams, NATS JetStream and HTTP."""

from evidentia.brokers.addresses import subscribe
from evidentia.brokers.dead_letters import DeadLetters
from evidentia.brokers.message import Message, Position, Subscription
from evidentia.brokers.payloads import PayloadError, rows_of
from evidentia.brokers.place import START, Place
from evidentia.brokers.source import BrokerSource, read

__all__ = [
    "START",
    "BrokerSource",
    "DeadLetters",
    "Message",
    "PayloadError",
    "Place",
    "Position",
    "Subscription",
    "read",
    "rows_of",
    "subscribe",
]
