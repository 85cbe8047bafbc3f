"""The HTTP interface, without a socket; `serving` is tested as a process."""

import asyncio
import json
import threading
from contextlib import contextmanager
from functools import partialmethod

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from evidentia.service.running import Service
from evidentia.service.settings import checked
from evidentia.service.web import HEADERS, make_app
from tests.service.conftest import LEVEL, Given, no_models, payloads_of, readings

TOKEN = "a token of the tests"
KEYS = "/api/streams/s/monitors/level/keys"
RESULT = "/api/streams/s/monitors/level/result"


@contextmanager
def running(folder):
    """A service that has read 600 rows of three keys."""
    given = Given([*payloads_of(readings()), b"not json"], "redis://example.org/readings")
    stream = {"source": "redis://u:hunter2@example.org/readings", "key": "sensor", "batch_size": 10}
    settings = checked(
        {
            "checkpoint": "state",
            "server": {"token_env": "TOKEN"},
            "streams": {"s": {**stream, "monitors": {"level": LEVEL}}},
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", TOKEN)
        patch.setattr("evidentia.service.running.open_source", lambda *_: given)
        service = Service(settings, folder, no_models)
    service.start()
    worker = service.workers["s"]
    while worker.engine.counts.rows < 600 or not worker.engine.counts.rejected:
        worker.ask(lambda: None).result(20)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that no test changes."""
    with running(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def own_service(tmp_path):
    with running(tmp_path) as service:
        yield service


class Client:
    """Requests to an application, one after another."""

    def __init__(self, app):
        self._transport = httpx.ASGITransport(app)

    def request(self, method, path, **options):
        async def answer():
            base = "http://127.0.0.1:8377"
            async with httpx.AsyncClient(transport=self._transport, base_url=base) as client:
                return await client.request(method, path, **options)

        return asyncio.run(answer())

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    delete = partialmethod(request, "DELETE")


@pytest.fixture
def client(service):
    return Client(make_app(service, threading.Event()))


def test_the_overview_has_the_sums_over_keys(client, service):
    stream = client.get("/api").json()["streams"]["s"]
    assert (stream["rows"], stream["rejected"], stream["alarms"], stream["state"]) == (600, 1, 1, "running")
    monitor = stream["monitors"]["level"]
    assert (monitor["kind"], monitor["keys"], monitor["rows"]) == ("run_lengths", 3, 600)
    records = service.workers["s"].engine.records["level"]
    total = sum(record.log_evidence[0] for _, record in records.items())
    assert monitor["models"]["NormalInverseGamma"]["log_evidence"] == pytest.approx(total, rel=1e-12)


def test_keys_are_paged_ordered_and_searched(client):
    found = client.get(KEYS, params={"limit": 2, "order": "alarms"}).json()
    assert found["total"] == 3 and [one["key"] for one in found["keys"]] == ["s1", "s0"]
    found = client.get(KEYS, params={"offset": 2, "order": "key"}).json()
    assert [one["key"] for one in found["keys"]] == ["s2"]
    found = client.get(KEYS, params={"search": "S1"}).json()
    assert [one["key"] for one in found["keys"]] == ["s1"]
    assert len(found["keys"][0]["recent"]) == 20


def test_the_result_of_a_key(client, service):
    found = client.get(RESULT, params={"key": "s1"}).json()
    record = service.workers["s"].engine.records["level"]["s1"]
    assert found["log_evidence"] == list(record.log_evidence)
    assert found["trajectory"]["num_observations"] == list(range(10, 201, 10))
    assert found["trajectory"]["log_evidence"]["NormalInverseGamma"][-1] == record.log_evidence[0]
    (alarm,) = found["alarms"]
    assert alarm == client.get("/api/alarms").json()["alarms"][0]


@pytest.mark.parametrize(
    "path, status, message",
    [
        (
            KEYS + "?order=size",
            400,
            "order must be one of key, rows, evidence, surprise, alarms; got 'size'.",
        ),
        (KEYS + "?limit=-1", 400, "limit must be a whole number up to 500; got '-1'."),
        (KEYS + "?limit=501", 400, "limit must be a whole number up to 500; got '501'."),
        (RESULT + "?key=s9", 404, "there are no results of the key 's9'."),
        ("/api/streams/t/monitors/level/keys", 404, "there is no stream 't'."),
        ("/api/streams/s/monitors/x/keys", 404, "the stream has no monitor 'x'."),
        ("/nothing", 404, "Not Found"),
    ],
)
def test_wrong_requests(client, path, status, message):
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (status, {"error": message})


def test_metrics_are_read_by_their_own_client(client, service):
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    values = {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["evidentia_rows_total s"] == 600
    assert values["evidentia_rejected_total s"] == 1
    assert values["evidentia_up s"] == 1
    assert values["evidentia_keys s"] == 3
    assert values["evidentia_monitor_alarms_total level s"] == 1
    records = service.workers["s"].engine.records["level"]
    total = sum(record.log_evidence[0] for _, record in records.items())
    name = "NormalInverseGamma level s"
    assert values[f"evidentia_log_evidence_per_row {name}"] == pytest.approx(total / 600, rel=1e-12)
    assert values[f"evidentia_model_weight {name}"] == 1
    assert families["evidentia_update_seconds"].type == "counter"


def test_health(own_service):
    service, client = own_service, Client(make_app(own_service, threading.Event()))
    assert client.get("/healthz").json() == {
        "status": "ok",
        "streams": {"s": {"state": "running", "problem": None}},
    }
    service.workers["s"].stop()
    service.workers["s"].join(20)
    assert client.get("/healthz").status_code == 503


def test_changes_need_the_token(own_service):
    service, client = own_service, Client(make_app(own_service, threading.Event()))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        answer = client.post("/api/checkpoint", headers=headers)
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        assert client.delete("/api/streams/s/keys?key=s0", headers=headers).status_code == 401
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/api/checkpoint", headers=right).json() == {"saved": {"s": True}}
    assert client.delete("/api/streams/s/keys?key=s0", headers=right).json() == {"forgotten": "s0"}
    assert client.get(KEYS).json()["total"] == 2
    assert client.delete("/api/streams/s/keys?key=s0", headers=right).status_code == 404
    service.token = None
    assert client.post("/api/checkpoint", headers=right).status_code == 403


def test_all_answers_have_a_strict_policy_and_no_secrets(client):
    for path in ("/", "/page.js", "/page.css", "/charts.js", "/api", "/metrics", "/nothing", KEYS):
        answer = client.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, path
        assert "hunter2" not in answer.text and TOKEN not in answer.text
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    page = client.get("/").text
    assert "<style" not in page and "style=" not in page and "onclick" not in page
    assert "http://" not in page and "https://" not in page


def test_requests_for_other_hosts_are_rejected(client):
    """A page of another site could give its name our address."""
    for host in ("evil.example", "127.0.0.1.evil.example", ""):
        assert client.get("/api", headers={"Host": host}).status_code == 400
    for host in ("localhost:80", "127.0.0.1", "[::1]:8377"):
        assert client.get("/api", headers={"Host": host}).status_code == 200


def test_events_are_overviews(service):
    is_over = threading.Event()
    timer = threading.Timer(0.3, is_over.set)
    timer.start()
    answer = Client(make_app(service, is_over)).get("/api/events")
    timer.join()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    event, data, *_ = answer.text.splitlines()
    assert event == "event: overview"
    assert json.loads(data.removeprefix("data: "))["streams"]["s"]["rows"] == 600
