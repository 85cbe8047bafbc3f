"""The section "From a broker to an alarm" of docs/service.md, step by step, in an empty folder."""

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from evidentia.service.webhooks import CONTENT_TYPE
from tests.brokers.servers import ByRedis
from tests.service.test_process import serving, wait_for

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"


@pytest.fixture
def pager():
    """What listens where the page's webhook points to."""
    got, arrived = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Content-Type"], httpx.Response(200, content=body).json()))
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port, got, arrived
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.services
def test_from_a_broker_to_an_alarm(tmp_path, monkeypatch, pager):
    redis = pytest.importorskip("redis")
    monkeypatch.chdir(tmp_path)
    port, got, arrived = pager
    section = PAGE.read_text().partition("## From a broker to an alarm")[2].partition("\n## ")[0]
    configuration, producer = re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    broker = ByRedis(tmp_path / "redis")
    try:
        with redis.Redis(port=broker.port) as client:
            exec(configuration)
            text = (
                Path("service.toml")
                .read_text()
                .replace(":6379/", f":{broker.port}/")
                .replace(":9000/", f":{port}/")
            )
            Path("service.toml").write_text(text + "[server]\nport = 0\n")
            with serving(tmp_path) as (process, web):
                namespace = {}
                exec(producer, namespace)
                namespace["produce"](client)
                client.xadd("pumps", {"payload": "no row"})
                wait_for(web, 1000)
                assert arrived.wait(30)
                kind, event = got[0]
                assert kind == CONTENT_TYPE
                assert event["subject"] == "p2" and abs(event["data"]["row"] - 100) <= 2
                assert event["source"] == "/evidentia/streams/pumps/monitors/level"
                families = text_string_to_metric_families(web.get("/metrics").text)
                alarms = [
                    one
                    for family in families
                    for one in family.samples
                    if one.name == "evidentia_alarms_total"
                ]
                assert alarms[0].value >= 1 and alarms[0].labels == {"stream": "pumps"}
                keys = web.get("/api/streams/pumps/monitors/relation/keys").json()
                assert [(one["key"], one["rows"]) for one in keys["keys"]] == [
                    (f"p{pump}", 200) for pump in range(5)
                ]
                process.terminate()
                assert process.wait(60) == 0
    finally:
        broker.stop()
    assert '"reason": "the payload is not JSON' in Path("rejected.jsonl").read_text()
