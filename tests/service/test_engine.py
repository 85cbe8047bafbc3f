import doctest
import json

import numpy as np
import pytest

from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.errors import CheckpointError, ConfigurationError, ModelError
from evidentia.monitor import NormalInverseGamma, RunLengths
from evidentia.service import batches, bundle, records, webhooks
from evidentia.service.batches import Rows
from evidentia.service.bundle import unbundled
from evidentia.service.engine import Engine
from evidentia.service.settings import checked
from tests.service.conftest import CHANGED, LEVEL, engine_of, fed, no_models, readings, settings_of


def test_each_key_has_the_log_evidence_it_would_have_alone(engine):
    rows = readings()
    alarms = fed(engine, rows)
    for key in ("s0", "s1", "s2"):
        alone = RunLengths(NormalInverseGamma(scale=1.0), 0.01, max_runs=100)
        own = np.array([row["pressure"] for row in rows if row["sensor"] == key])
        for batch in np.split(own, 20):
            alone.update(batch)
        record = engine.records["level"][key]
        assert record.num_observations == 200
        assert record.log_evidence == (alone.log_evidence,)
    (alarm,) = alarms
    assert (alarm.key, alarm.monitor) == ("s1", "level")
    assert abs(alarm.change["row"] - CHANGED) <= 2
    assert engine.counts.rows == 600 and engine.counts.alarms == 1
    assert engine.rows.num_waiting == 0


def saved(engine, folder):
    with CheckpointFolder(folder) as checkpoints:
        checkpoints.write(engine.packed(), {})
    content, _ = read(folder)
    return content


def test_a_resumed_engine_is_the_same_to_the_bit(tmp_path):
    """Wherever it is cut, also in the middle of batches."""
    rows = readings()
    whole = engine_of(webhooks=("hook",))
    fed(whole, rows)
    for cut in (1, 29, 371, 599):
        first = engine_of(webhooks=("hook",))
        fed(first, rows[:cut])
        second = engine_of(webhooks=("hook",))
        assert second.restore(saved(first, tmp_path / str(cut)), tmp_path) == []
        assert second.position == {"next": cut}
        fed(second, rows[cut:])
        for (key, record), (other, expected) in zip(
            second.records["level"].items(), whole.records["level"].items(), strict=True
        ):
            assert key == other
            assert record.log_evidence == expected.log_evidence
            assert record.recent == expected.recent
            assert np.array_equal(record.points, expected.points, equal_nan=True)
        assert second.counts == whole.counts
        assert [alarm.id for alarm in second.alarms] == [alarm.id for alarm in whole.alarms]
        assert list(second.undelivered) == list(whole.undelivered)


def test_a_new_monitor_begins_with_the_rows_that_follow(tmp_path):
    rows = readings()
    first = engine_of()
    fed(first, rows[:300])
    settings = settings_of({"level": LEVEL, "quick": {**LEVEL, "hazard": 0.1}})
    second = engine_of(settings)
    assert second.restore(saved(first, tmp_path), tmp_path) == ["quick"]
    fed(second, rows[300:])
    assert second.records["level"]["s0"].num_observations == 200
    assert second.records["quick"]["s0"].num_observations == 100


def test_a_checkpoint_of_other_settings_is_rejected(tmp_path):
    first = engine_of()
    fed(first, readings(20))
    content = saved(first, tmp_path)
    other = engine_of(settings_of({"level": {**LEVEL, "hazard": 0.1}}))
    with pytest.raises(
        CheckpointError, match=r"streams\.s\.monitors\.level has other settings .*0\.1.*0\.01"
    ):
        other.restore(content, tmp_path)
    with pytest.raises(CheckpointError, match=r"streams\.s\.key is None; .* it was 'sensor'"):
        engine_of(settings_of(key=None)).restore(content, tmp_path)
    with pytest.raises(CheckpointError, match="is damaged"):
        engine_of().restore(content | {"shapes": content["shapes"][:-1]}, tmp_path)


def test_rows_that_cannot_be_used_are_returned_with_the_reason():
    rows = Rows(["y", "label"], integers=["label"], key="key", time_column="at", batch_size=1)
    good = {"y": 1.5, "label": 2.0, "key": 7, "at": "2026-01-01T00:00:00Z"}
    bad = {
        "y must be a finite number; got nan": {"y": float("nan")},
        "y must be a finite number; got None": {"y": None},
        "y must be a finite number; got '1'": {"y": "1"},
        "label must be a whole number; got 1.5": {"label": 1.5},
        "key must be a text of 1 to 200 characters, or an integer; got ''": {"key": ""},
        "at must be seconds since 1970 or an ISO 8601 time; got 'noon'": {"at": "noon"},
    }
    assert [one.reason for one in rows.add([good | change for change in bad.values()])] == list(bad)
    assert rows.add([3])[0].reason == "a row must be an object with the columns by name; got int"
    assert rows.add([{"y": 1.0}])[0].reason == "label is missing"
    assert rows.num_waiting == 0
    assert rows.add([good]) == []
    (key, batch), *_ = rows.take().items()
    assert key == "7" and batch.columns["label"].dtype == np.int64
    assert batch.times.tolist() == [1767225600.0]


def test_batches_have_the_same_rows_however_messages_are_cut():
    one_by_one, together = (Rows(["y"], batch_size=3) for _ in range(2))
    given = [{"y": float(value)} for value in range(8)]
    for row in given:
        one_by_one.add([row])
    together.add(given)
    for rows in (one_by_one, together):
        assert rows.take()["all"].columns["y"].tolist() == [0, 1, 2]
        assert rows.take()["all"].columns["y"].tolist() == [3, 4, 5]
        assert rows.take() == {} and rows.num_waiting == 2 and rows.num_complete == 0


def test_a_refused_batch_is_counted_and_changes_nothing():
    counts = {"kind": "run_lengths", "columns": "pressure", "model": {"type": "GammaPoisson"}}
    engine = engine_of(settings_of({"level": LEVEL, "counts": counts}, batch_size=2))
    engine.take([{"sensor": "a", "pressure": value} for value in (1.0, 2.0)], {"next": 1})
    assert engine.process()[1] == []
    engine.take([{"sensor": "a", "pressure": value} for value in (1.5, 2.0)], {"next": 2})
    _, (refused,) = engine.process()
    assert (refused.monitor, refused.key, refused.num_rows) == ("counts", "a", 2)
    assert "1.5" in refused.reason
    assert engine.refused == {"level": 0, "counts": 2}
    assert engine.records["counts"]["a"].num_observations == 2
    assert engine.records["level"]["a"].num_observations == 4


def test_a_forgotten_key_begins_anew(engine):
    fed(engine, readings(15))
    assert engine.rows.num_waiting == 15
    assert engine.forget("s0") and not engine.forget("nobody")
    assert engine.rows.num_waiting == 10 and "s0" not in engine.records["level"]
    fed(engine, readings(10))
    assert engine.records["level"]["s0"].num_observations == 10
    assert engine.records["level"]["s2"].num_observations == 20


def test_models_that_cannot_be_made_name_their_key():
    def made(monitor):
        return Engine("s", settings_of({"m": monitor}).streams["s"], no_models, source="given")

    key = r"^streams\.s\.monitors\.m\.model"
    with pytest.raises(ConfigurationError, match=key + r"\.type must be one of .*Did you mean 'NormalMean'"):
        made(LEVEL | {"model": {"type": "NormalMeen"}})
    with pytest.raises(ConfigurationError, match=key + ": .*unexpected keyword argument 'men'"):
        made(LEVEL | {"model": {"type": "NormalMean", "men": 3}})
    with pytest.raises(ConfigurationError, match=key + ": scale must be positive"):
        made(LEVEL | {"model": {"type": "NormalInverseGamma", "scale": -1.0}})
    changes = {"kind": "changes", "columns": "pressure", "model": "linear"}
    with pytest.raises(ConfigurationError, match=key + ": linear needs columns as a table of x"):
        made(changes)
    with pytest.raises(ConfigurationError, match=key + " must be one of linear, softmax, mixture, or"):
        made(changes | {"model": "quadratic"})
    with pytest.raises(ConfigurationError, match=r"hazard: .*alpha must be positive"):
        made(LEVEL | {"hazard": {"alpha": -1, "beta": 2}})


def test_models_of_files_come_from_the_loader():
    def load(name, key):
        raise ModelError(f"{key}: {name} has no such model")

    settings = checked({"streams": {"s": {"source": "x", "monitors": {"m": MODELS}}}})
    with pytest.raises(ModelError, match=r"^streams\.s\.monitors\.m\.models\.own: my\.py:f has no"):
        Engine("s", settings.streams["s"], load, source="x")


MODELS = {"kind": "models", "columns": {"x": ["flow"], "y": "pressure"}, "models": {"own": "my.py:f"}}


def test_the_state_is_text_and_arrays():
    """Nothing in a checkpoint is code, and positions may be of any shape."""
    engine = engine_of()
    engine.take([{"sensor": "a", "pressure": 0.1}], {"0": 2**60, "of": {"deep": [1, None]}})
    texts = json.loads(unbundled(engine.packed(), {})["texts"])
    assert texts["position"] == {"0": 2**60, "of": {"deep": [1, None]}}
    assert texts["rows"]["rows"]["a"] == [[[0.1], pytest.approx(np.nan, nan_ok=True)]]


@pytest.mark.parametrize("module", [batches, bundle, records, webhooks], ids=lambda module: module.__name__)
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
