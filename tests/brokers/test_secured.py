"""Logins and encrypted connections, on real brokers."""

import json
import time
from itertools import islice

import pytest

from evidentia.brokers.addresses import subscribe
from evidentia.errors import ConfigurationError
from tests.brokers.secured import PASSWORD, SecuredMqtt, SecuredNats, SecuredRedis

pytestmark = pytest.mark.services
PAYLOADS = [json.dumps({"number": number}).encode() for number in range(100)]


@pytest.fixture(params=[SecuredRedis, SecuredMqtt, SecuredNats])
def broker(request, tmp_path, monkeypatch):
    """A broker whose certificate is trusted."""
    found = request.param(tmp_path / "broker")
    monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate))
    yield found
    found.stop()


def test_a_login_over_tls_also_after_the_broker_was_killed(broker, monkeypatch):
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)
    subscription = subscribe(broker.url_of("$BROKER_PASSWORD"))
    assert "@" not in subscription.name
    messages, found = subscription.messages(None), []
    list(islice(messages, 5))
    for part in (PAYLOADS[:50], PAYLOADS[50:]):
        broker.send(part)
        end, expected = time.monotonic() + 60, len(found) + 50
        while len(found) < expected:
            assert time.monotonic() < end
            if (message := next(messages)) is not None:
                found.append(message)
        subscription.acknowledge(found[-1].position)
        if part[0] == PAYLOADS[0]:
            time.sleep(2.5)  # Mosquitto writes to disk each second
            broker.kill()
            assert list(islice(messages, 3)) == [None] * 3
            broker.start()
    assert [message.payload for message in found] == PAYLOADS
    subscription.close()


def test_a_wrong_password_is_an_error_that_does_not_tell_it(broker):
    broker.send(PAYLOADS[:1])
    subscription = subscribe(broker.url_of("wrong-secret"))
    with pytest.raises(ConfigurationError, match="refuses") as caught:
        list(islice(subscription.messages(None), 40))
    assert "wrong-secret" not in str(caught.value)
    subscription.close()


# paho leaves the socket of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_certificate_that_is_not_trusted_is_told_and_nothing_is_read(broker, monkeypatch, caplog):
    broker.send(PAYLOADS[:1])
    monkeypatch.delenv("SSL_CERT_FILE")
    subscription = subscribe(broker.url_of("wrong-secret"))
    messages, end = subscription.messages(None), time.monotonic() + 20
    while "certificate verify failed" not in caplog.text:
        assert next(messages) is None and time.monotonic() < end
    assert "wrong-secret" not in caplog.text
    subscription.close()
