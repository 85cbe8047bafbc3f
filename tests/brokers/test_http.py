"""Events, lines and WebSockets of servers in this process: nothing twice, nothing missing that can be had."""

import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import ClassVar

import pytest
from websockets.sync.server import serve

from evidentia.brokers.addresses import subscribe
from evidentia.brokers.message import Message
from evidentia.brokers.websocket import SILENT
from evidentia.errors import ConfigurationError, DataError

LINES = b"".join(json.dumps({"y": number}).encode() + b"\n" for number in range(300))
PART = 1_005  # bytes of an answer, which cuts lines


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[dict[str, str]]] = []
    lines = LINES

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802
        self.seen.append(dict(self.headers))
        getattr(self, self.path.split("?")[0].strip("/"), self.absent)()

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def open_answer(self, kind):
        """An answer without a length, which ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.close_connection = True

    def absent(self):
        self.answer(404)

    def page(self):
        self.answer(200, b"<html>", Content_Type="text/html; charset=utf-8")

    def events(self):
        """Two events for each id, and the connection ends in the middle of one."""
        self.open_answer("text/event-stream; charset=utf-8")
        last = int(self.headers.get("Last-Event-ID", -1))
        first = last + 1
        if last >= 0:  # the second event comes after the id, too
            self.wfile.write(f'data: {{"y": {2 * last + 1}}}\n\n'.encode())
        for number in range(first, first + 10):
            event = f': a comment\r\nid: {number}\nevent: reading\ndata: {{\ndata: "y": {2 * number}}}\n\ndata:{{"y":{2 * number + 1}}}\n\n'
            self.wfile.write(event.encode())
        self.wfile.write(b'data: {"y": ')

    def without_ids(self):
        self.open_answer("text/event-stream")
        self.wfile.write(b'data: {"y": 0}\n\ndata: {"y": 1}\n\n')

    def ranges(self):
        wanted = self.headers.get("Range")
        first = int(wanted[len("bytes=") : -1]) if wanted else 0
        if first >= len(self.lines):
            self.answer(416)
        else:
            self.answer(206 if wanted else 200, self.lines[first : first + PART])

    def whole(self):
        self.answer(200, self.lines)

    def live(self):
        self.open_answer("application/x-ndjson")
        self.wfile.write(b'{"y": 7}\n\n{"y": 8}\n')

    def silent(self):
        self.open_answer("text/event-stream")
        self.wfile.flush()
        time.sleep(3)

    def busy(self):
        if len(self.seen) < 3:
            self.answer(503)
        else:
            self.whole()


@pytest.fixture
def url(monkeypatch):
    """The address of the server, and a clean list of the requests that it has seen."""
    monkeypatch.setattr(Handler, "seen", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def taken(url, count, position=None) -> tuple[list[int], list[Message]]:
    """The values of the next messages, and the messages."""
    subscription = subscribe(url)
    messages = (message for message in subscription.messages(position) if message is not None)
    found = list(islice(messages, count))
    subscription.close()
    return [json.loads(message.payload)["y"] for message in found], found


def test_events_go_on_after_the_last_id(url):
    values, messages = taken(f"http://{url}/events", 45)
    assert values == list(range(45))
    assert messages[-2].position == {"id": "21", "after": 1}  # value 43, the second event after the id 21
    assert messages[-1] == Message(b'{\n"y": 44}', {"id": "22", "after": 0}, "reading")
    assert [seen.get("Last-Event-ID") for seen in Handler.seen] == [None, "9", "19"]


@pytest.mark.parametrize("index", range(8, 13))
def test_events_after_a_position(url, index):
    _, messages = taken(f"http://{url}/events", 20)
    values, _ = taken(f"http://{url}/events", 10, messages[index].position)
    assert values == list(range(index + 1, index + 11))


def test_events_without_ids_have_positions_that_differ(url):
    values, messages = taken(f"http://{url}/without_ids", 4)
    assert values == [0, 1, 0, 1]
    positions = [message.position for message in messages]
    assert [position["after"] for position in positions] == [1, 2, 3, 4]
    assert all(len(position["digest"]) == 32 for position in positions)


@pytest.mark.parametrize("path", ["ranges", "whole"])
@pytest.mark.parametrize("start", [0, 1, 150])
def test_lines_go_on_after_a_byte(url, path, start):
    position = {"bytes": sum(map(len, LINES.splitlines(keepends=True)[:start]))} if start else None
    values, messages = taken(f"http://{url}/{path}", 300 - start, position)
    assert values == list(range(start, 300))
    assert messages[-1].position == {"bytes": len(LINES)}


def test_a_resource_that_became_shorter(url):
    with pytest.raises(DataError, match="has 3,190 bytes, but 10,000 were read: it is not the same"):
        taken(f"http://{url}/whole", 1, {"bytes": 10_000})


def test_a_live_feed_says_what_is_missing(url, caplog):
    values, messages = taken(f"http://{url}/live", 4)
    assert values == [7, 8, 7, 8]
    assert [message.position["bytes"] for message in messages] == [9, 19, 28, 38]
    assert "rows in between are missing" in caplog.text


@pytest.mark.parametrize(
    "path, message",
    [
        ("nowhere", "the server answers 404 Not Found"),
        ("page", "must be events or lines of JSON; got text/html"),
    ],
)
def test_refusals(url, path, message):
    with pytest.raises(ConfigurationError, match=message):
        taken(f"http://{url}/{path}", 1)


def test_a_busy_server_is_asked_again(url):
    assert taken(f"http://{url}/busy", 2)[0] == [0, 1]
    assert len(Handler.seen) == 3


def test_signs_of_life_and_a_quick_end(url):
    subscription = subscribe(f"http://{url}/silent")
    messages = subscription.messages(None)
    started = time.monotonic()
    assert [next(messages) for _ in range(3)] == [None] * 3
    assert time.monotonic() - started < 1.5
    messages.close()
    assert time.monotonic() - started < 2.0


@pytest.mark.parametrize("login, header", [("me:pass", "Basic bWU6cGFzcw=="), (":token", "Bearer token")])
def test_credentials_go_to_the_server_and_not_to_the_log(url, login, header, caplog):
    with caplog.at_level(logging.DEBUG):
        taken(f"http://{login}@{url}/whole?token=hunter2", 2)
    assert Handler.seen[0]["Authorization"] == header
    assert not [secret for secret in ("hunter2", "bWU6", "Bearer") if secret in caplog.text]


# WebSockets
# ----------------------------------------------------------------------------------------------


@pytest.fixture
def socket_url():
    """A server that sends three messages to each client, and ends the connection."""

    def talk(connection):
        for number in range(3):
            connection.send(json.dumps({"y": number}) if number % 2 else json.dumps({"y": number}).encode())

    with serve(talk, "127.0.0.1", 0, logger=SILENT) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


def test_messages_of_a_websocket(socket_url, caplog):
    with caplog.at_level(logging.DEBUG):
        values, messages = taken(f"ws://me:hunter2@{socket_url}/readings", 5, {"received": 10})
    assert values == [0, 1, 2, 0, 1]
    assert [message.position["received"] for message in messages] == [11, 12, 13, 14, 15]
    assert "Authorization" not in caplog.text and "hunter2" not in caplog.text
    assert caplog.text.count("the connection was lost") == 1


def test_a_refused_websocket(url):
    with pytest.raises(ConfigurationError, match="the server answers 404"):
        taken(f"ws://{url}/nowhere", 1)
