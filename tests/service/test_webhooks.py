import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from evidentia.errors import ConfigurationError
from evidentia.service.engine import Alarm
from evidentia.service.settings import Webhook
from evidentia.service.webhooks import CONTENT_TYPE, Deliverer, cloud_event

ALARM = Alarm("s/m/k/120", "s", "m", "k", "2026-01-01T00:00:00.000+00:00", {"row": 100, "probability": 0.97})


@pytest.fixture
def receiver():
    """A server that answers with the given statuses, then with 204, and keeps the requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.got.append((dict(self.headers), body))
            status, headers = server.answers.pop(0) if server.answers else (204, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def delivered(settings, *alarms):
    """Send alarms, wait until all are delivered or given up, and return the deliverer."""
    done, count = threading.Event(), []

    def one_done(alarm):
        count.append(alarm)
        if len(count) == len(alarms):
            done.set()

    deliverer = Deliverer("pager", settings, one_done, first_pause=0.02)
    deliverer.start()
    for alarm in alarms:
        deliverer.send(alarm)
    assert done.wait(20)
    deliverer.stop()
    deliverer.join(20)
    assert not deliverer.is_alive()
    return deliverer


def test_an_alarm_is_a_cloud_event(receiver, monkeypatch):
    monkeypatch.setenv("PAGER", " secret\n")
    deliverer = delivered(Webhook(url=receiver.url, token_env="PAGER"), ALARM)
    ((headers, body),) = receiver.got
    assert headers["Content-Type"] == CONTENT_TYPE == "application/cloudevents+json; charset=utf-8"
    assert headers["Authorization"] == "Bearer secret"
    assert body == cloud_event(ALARM)
    required = {"specversion": "1.0", "id": ALARM.id, "type": "evidentia.change"}
    assert required.items() <= body.items() and body["source"] and body["subject"] == "k"
    assert body["data"]["probability"] == 0.97
    assert deliverer.counts == {"delivered": 1}


def test_failures_are_tried_again_in_order(receiver, caplog):
    receiver.answers = [(500, {}), (429, {"Retry-After": "0"}), (503, {})]
    other = ALARM._replace(id="s/m/k/140")
    deliverer = delivered(Webhook(url=receiver.url), ALARM, other)
    assert [body["id"] for _, body in receiver.got] == [ALARM.id] * 4 + [other.id]
    assert deliverer.counts == {"delivered": 2, "retried": 3}
    assert receiver.url not in caplog.text


def test_pauses_double_and_honour_retry_after(receiver, monkeypatch):
    waits = []
    receiver.answers = [(500, {})] * 3 + [(429, {"Retry-After": "7"})]
    deliverer = Deliverer("pager", Webhook(url=receiver.url), lambda alarm: deliverer.stop(), first_pause=1.0)
    monkeypatch.setattr(deliverer._is_ending, "wait", waits.append)
    deliverer.send(ALARM)
    deliverer.run()
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2 <= waits[2] <= 4 and 7 <= waits[3] <= 8


def test_a_wrong_request_is_given_up(receiver):
    receiver.answers = [(400, {}), (302, {"Location": "http://127.0.0.1:1/"})]
    deliverer = delivered(Webhook(url=receiver.url), ALARM, ALARM, ALARM)
    assert deliverer.counts == {"given up": 2, "delivered": 1} and len(receiver.got) == 3


def test_a_stop_does_not_wait_for_the_next_attempt():
    deliverer = Deliverer("pager", Webhook(url="http://127.0.0.1:1/"), lambda alarm: None, first_pause=1e6)
    deliverer.start()
    deliverer.send(ALARM)
    while not deliverer.counts["retried"]:
        pass
    deliverer.stop()
    deliverer.join(10)
    assert not deliverer.is_alive()


def test_secrets_must_be_set(monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(
        ConfigurationError, match=r"webhooks\.pager\.url_env names the environment variable NOT_SET"
    ):
        Deliverer("pager", Webhook(url_env="NOT_SET"), lambda alarm: None)
    with pytest.raises(ConfigurationError, match=r"webhooks\.pager\.token_env names .* NOT_SET"):
        Deliverer("pager", Webhook(url="http://x/", token_env="NOT_SET"), lambda alarm: None)


def test_the_oldest_of_too_many_alarms_is_given_up():
    """Memory is bounded while a receiver is away."""
    given_up, receiver = [], Webhook(url="http://127.0.0.1:9/hook")
    deliverer = Deliverer("pager", receiver, given_up.append, most_waiting=3)
    for number in range(5):  # it was not started: nothing is sent
        deliverer.send(ALARM._replace(id=str(number)))
    assert [alarm.id for alarm in given_up] == ["0", "1"]
    assert deliverer.counts == {"given up": 2}
