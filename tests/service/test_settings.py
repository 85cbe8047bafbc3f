import copy
import re

import pytest

from evidentia.errors import ConfigurationError
from evidentia.service.settings import checked, read_settings, secret

GOOD = {
    "streams": {
        "s": {
            "source": "x.ndjson",
            "monitors": {
                "m": {"kind": "run_lengths", "columns": "y", "model": {"type": "NormalInverseGamma"}}
            },
        }
    }
}
MODELS = {"kind": "models", "columns": {"x": ["a"], "y": "b"}, "models": {"one": "linear"}}


def test_defaults():
    settings = checked(GOOD)
    stream = settings.streams["s"]
    assert (stream.batch_size, stream.payload, stream.key) == (100, "json", None)
    assert stream.monitors["m"].hazard == 1 / 250
    assert (settings.server.host, settings.checkpoint, settings.seed) == ("127.0.0.1", None, 0)


def changed(path, value):
    content = copy.deepcopy(GOOD)
    table = content
    *tables, last = path.split("/")
    for key in tables:
        table = table.setdefault(key, {})
    table[last] = value
    return content


M = "streams/s/monitors/m/"


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("streams", {}, "streams must have at least 1 item; got {}."),
        ("streams", 3, "streams must be a table; got 3."),
        ("chekpoint", "x", "chekpoint is not a key of this table. Did you mean 'checkpoint'"),
        ("seed", -1, "seed must be greater than or equal to 0; got -1."),
        ("server/port", "80", "server.port must be an integer; got '80'."),
        ("server/prt", 80, "server.prt is not a key of this table. Did you mean 'port'?"),
        ("streams/a b", 3, "streams.a b must begin with a letter or digit, and hold only these and _ . -"),
        (
            "streams/s/batchsize",
            3,
            "streams.s.batchsize is not a key of this table. Did you mean 'batch_size'?",
        ),
        ("streams/s/batch_size", "ten", "streams.s.batch_size must be an integer; got 'ten'."),
        ("streams/s/batch_size", 0, "streams.s.batch_size must be greater than or equal to 1; got 0."),
        ("streams/s/payload", "xml", "streams.s.payload must be 'json', 'arrow' or 'avro'; got 'xml'."),
        (M + "kind", "x", f"{M}kind must be one of 'models', 'changes', 'run_lengths'; got 'x'."),
        (M + "thresh", 1, f"{M}thresh is not a key of this table. Did you mean 'threshold'?"),
        (M + "hazard", 2.0, f"{M}hazard must be a number between 0 and 1, or a table with the numbers"),
        (M + "columns", 3, f"{M}columns must be the name of a column, a list of names, or"),
        ("streams/s/monitors/n", 4, "streams.s.monitors.n must be a table; got 4."),
        (
            "streams/s/monitors/n",
            {},
            "streams.s.monitors.n.kind must be one of 'models', 'changes', 'run_lengths'; it is",
        ),
        (
            "streams/s/monitors/n",
            MODELS | {"models": {"one": 3}},
            "streams.s.monitors.n.models.one must be the name of a model, or a table with type and the",
        ),
        (
            "streams/s/monitors/n",
            MODELS | {"models": {}},
            "streams.s.monitors.n.models must have at least 1 item",
        ),
        (
            "streams/s/monitors/n",
            MODELS | {"forgetting": 0},
            "streams.s.monitors.n.forgetting must be greater than 0",
        ),
        ("webhooks/w", {"url": "ftp://x"}, "webhooks.w.url must be an http or https URL without credentials"),
        ("webhooks/w", {}, "webhooks.w needs either url or url_env; got neither."),
    ],
)
def test_errors_name_the_key_what_is_needed_and_what_was_given(path, value, message):
    with pytest.raises(
        ConfigurationError, match=re.escape("service: " + message.replace(M, M.replace("/", ".")))
    ):
        checked(changed(path, value), "service")


def test_missing_keys_and_several_errors():
    with pytest.raises(ConfigurationError, match="streams is missing"):
        checked({})
    content = changed("seed", "a")
    del content["streams"]["s"]["monitors"]["m"]["model"]
    with pytest.raises(ConfigurationError, match=r"seed must be an integer; got 'a'\. .*m\.model is missing"):
        checked(content)


def test_secrets_are_in_no_message(monkeypatch):
    content = changed("webhooks/w", {"url": "https://user:hunter2@example.org"})
    content["streams"]["s"]["options"] = {"password": "hunter2"}
    content["token"] = "hunter2"
    with pytest.raises(ConfigurationError) as caught:
        checked(content)
    assert "hunter2" not in str(caught.value)
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(ConfigurationError, match=r"server\.token_env names the environment variable NOT_SET"):
        secret("NOT_SET", "server.token_env")


def test_files(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_settings(tmp_path / "none.toml")
    path = tmp_path / "service.toml"
    path.write_text("seed = \n")
    with pytest.raises(ConfigurationError, match=r"service\.toml is not TOML: .*line 1"):
        read_settings(path)
