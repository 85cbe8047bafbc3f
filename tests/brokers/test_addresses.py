"""URLs of brokers: their parts, and credentials that get nowhere else."""

import sys

import pytest

from evidentia.brokers.addresses import address_of, is_broker, subscribe
from evidentia.errors import ConfigurationError


def test_the_parts_of_an_address():
    address = address_of("kafka://me:s%40cret@one:9092,two:9093/topic?client.id=x", {"group.id": "g"})
    assert (address.scheme, address.hosts, address.path) == ("kafka", "one:9092,two:9093", "topic")
    assert (address.username, address.password) == ("me", "s@cret")
    assert address.options == {"client.id": "x", "group.id": "g"}
    assert address.name == "kafka://one:9092,two:9093/topic?client.id=x"


@pytest.mark.parametrize(
    "url, name",
    [
        ("redis://:secret@host:1/readings", "redis://host:1/readings"),
        ("kafka://h/t?sasl.password=secret&client.id=a", "kafka://h/t?client.id=a"),
        ("https://h/p?x=1&access_token=secret", "https://h/p?x=1"),
        ("wss://me:secret@h", "wss://h"),
        ("nats://secret@h/s?subject=a.%3E", "nats://h/s?subject=a.%3E"),
    ],
)
def test_names_have_no_credentials(url, name):
    address = address_of(url)
    assert address.name == name
    assert "secret" not in repr(subscribe(url).name)


def test_credentials_from_the_environment(monkeypatch):
    monkeypatch.setenv("BROKER_PASSWORD", "s:e@c/r%et")
    assert address_of("redis://me:$BROKER_PASSWORD@host/s").password == "s:e@c/r%et"
    assert address_of("redis://me:${BROKER_PASSWORD}@host/s").name == "redis://host/s"
    assert address_of("redis://me:a%24b@host/s").password == "a$b"


@pytest.mark.parametrize(
    "url, message",
    [
        ("ftp://me:secret@host/x", r"must be one of kafka://.*; got 'host/x'"),
        ("redis://me:secret@host", r"must be one of .*; got redis://host\."),
        ("redis://me:secret@host:port/s", "redis://host:port/s: a port must be a number"),
        ("redis://me:$NOT_SET_HERE@host/s", "the environment variable NOT_SET_HERE, which is not set"),
        ("redis://me:secret$@host/s", "write %24 for the character"),
        (3, "must be one of .*; got 3"),
    ],
)
def test_invalid_addresses(url, message):
    with pytest.raises(ConfigurationError, match=message) as error:
        address_of(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url, message",
    [
        ("redis://host/s?maxlen=3", "maxlen cannot be set for redis://; known: field"),
        ("mqtt://host/t?window=many", "window must be of type int; got 'many'"),
        ("mqtt://host/t?window=0", "window must be from 1 to 65535; got 0"),
        ("kafka://host/t?no.such.option=1", "librdkafka refuses an option: No such configuration"),
        ("kafka://host/t?auto.offset.reset=latest", "auto.offset.reset cannot be set: the checkpoint"),
    ],
)
def test_invalid_options(url, message):
    with pytest.raises(ConfigurationError, match=message):
        subscribe(url)


@pytest.mark.parametrize("scheme", ["kafka", "mqtt", "redis", "nats", "http", "ws"])
def test_a_missing_package_is_said_with_its_extra(scheme, monkeypatch):
    packages = "confluent_kafka", "paho.mqtt.client", "redis", "nats", "httpx", "websockets.sync.client"
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("kafka", "mqtt", "redis", "nats", "http", "websocket"):
        monkeypatch.delitem(sys.modules, f"evidentia.brokers.{name}", raising=False)
    extra = {"http": "events", "ws": "events"}.get(scheme, scheme)
    with pytest.raises(ConfigurationError, match=rf"pip install 'evidentia\[{extra}\]'"):
        subscribe(f"{scheme}://host/topic")


def test_what_is_a_broker():
    yes = "kafka://h/t", "MQTTS://h/t", "http://h/events", "https://h/rows", "ws://h", "tls://h/s"
    no = "rows.csv", "s3://bucket/rows.parquet", "https://h/rows.csv", "http://h/rows.json.gz", "-", None
    assert all(map(is_broker, yes))
    assert not any(map(is_broker, no))
