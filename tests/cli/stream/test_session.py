import numpy as np
import pytest

import evidentia as ev
from evidentia.checkpoint.folder import CheckpointFolder, read
from evidentia.cli.stream.session import RECORDS, Session
from evidentia.data.batches import Batch
from evidentia.errors import CheckpointError, DataError

# The same small problem as in test_stream.py, so that few programs are compiled.
MODELS = {"right": ev.models.linear_regression(2), "noisy": ev.models.linear_regression(2, noise_scale=2.0)}
ALONE = {"right": MODELS["right"]}
METHOD = ev.SGAIS(num_particles=64)
SIZE = 100


@pytest.fixture(scope="module")
def data():
    """Rows of a regression whose coefficients change at row 600."""
    x = np.random.default_rng(0).standard_normal((1000, 2)).astype(np.float32)
    coefficients = np.where(np.arange(1000)[:, None] < 600, [1.0, -0.5], [-1.0, 1.5])
    noise = np.random.default_rng(1).standard_normal(1000)
    return {"x": x, "y": ((x * coefficients).sum(1) + noise).astype(np.float32)}


def batch(data, number):
    rows = slice(number * SIZE, (number + 1) * SIZE)
    return Batch({name: values[rows] for name, values in data.items()}, SIZE)


def new_session(models=MODELS, **options):
    onlines = {name: ev.Online(model, METHOD, seed=3, reservoir_size=500) for name, model in models.items()}
    return Session(onlines, **options)


def fed(session, data, numbers):
    return [session.update(batch(data, number)) for number in numbers]


@pytest.fixture(scope="module")
def watching(data):
    """A session with detectors after all rows, and its updates."""
    session = new_session(ALONE, false_alarm_rate=0.01)
    return session, fed(session, data, range(10))


@pytest.mark.reference
def test_each_model_finds_what_it_finds_alone(data):
    session = new_session()
    fed(session, data, range(4))
    for name, model in MODELS.items():
        alone = ev.Online(model, METHOD, seed=3, reservoir_size=500)
        for number in range(4):
            alone.update(batch(data, number).arrays)
        assert session.onlines[name].log_evidence == alone.log_evidence
    comparison = ev.compare(session.evidences())
    shares = dict(zip(comparison.names, comparison.probability, strict=True))
    assert session.probabilities == pytest.approx(shares)
    assert session.probabilities["right"] > 0.9


@pytest.mark.slow
def test_changes_are_found_and_reported(watching):
    session, updates = watching
    assert [alarm for update in updates[:6] for alarm in update.alarms] == []
    found = {alarm.model: alarm.change for alarm in session.alarms}
    assert found["right"].row == 600
    (line,) = (update.to_dict() for update in updates if update.alarms and update.alarms[0].model == "right")
    assert line["alarms"][0]["row"] == 600 and line["models"]["right"]["log_e_value"] > 4
    assert updates[0].to_dict()["models"]["right"]["log_e_value"] is None  # -inf


@pytest.mark.slow
@pytest.mark.parametrize("stop", [3, 7])
def test_packed_and_unpacked_goes_on_bit_for_bit(data, watching, tmp_path, stop):
    session = new_session(ALONE, false_alarm_rate=0.01)
    fed(session, data, range(stop))
    with CheckpointFolder(tmp_path) as folder:
        folder.write(session.packed(), {})
    again = Session.unpacked(read(tmp_path, RECORDS)[0], ALONE)
    assert again.position == stop * SIZE
    updates = fed(again, data, range(stop, 10))
    for found, expected in zip(updates, watching[1][stop:], strict=True):
        assert {**found.to_dict(), "seconds": 0} == {**expected.to_dict(), "seconds": 0}
    assert again.alarms == watching[0].alarms


@pytest.mark.slow
def test_a_batch_is_taken_in_by_all_models_or_by_none(data):
    """The second model rejects a batch that the first has processed."""
    picky = ev.Model(
        MODELS["right"].prior, MODELS["right"].log_likelihood, name="picky", check_data=_refuse_large
    )
    session = new_session({"right": MODELS["right"], "picky": picky}, false_alarm_rate=0.01)
    twin = new_session({"right": MODELS["right"], "picky": picky}, false_alarm_rate=0.01)
    for each in (session, twin):
        fed(each, data, range(2))
    large = {name: values * 50 for name, values in batch(data, 2).arrays.items()}
    with pytest.raises(DataError, match="too large"):
        session.update(Batch(large, SIZE))
    assert (session.position, session.num_observations) == (200, 200)
    for each in (session, twin):
        fed(each, data, range(2, 4))
    assert session.onlines["right"].log_evidence == twin.onlines["right"].log_evidence
    assert session.detectors["right"].state.num_started == twin.detectors["right"].state.num_started


@pytest.mark.slow
def test_what_fails_behind_the_models_undoes_the_batch_too(data, monkeypatch):
    session = new_session(ALONE)
    fed(session, data, range(1))
    with monkeypatch.context() as patched:
        patched.setattr(Session, "probabilities", property(lambda _: 1 / 0))
        with pytest.raises(ZeroDivisionError):
            fed(session, data, [1])
    assert (session.position, session.num_observations) == (SIZE, SIZE)


def _refuse_large(data):
    if np.abs(data["x"]).max() > 20:
        raise DataError("the values are too large")


def test_rows_that_were_left_out_are_counted(data):
    session = new_session(ALONE)
    kept = {name: values[:SIZE] for name, values in data.items()}
    session.update(Batch(kept, SIZE + 5, np.arange(SIZE)))
    empty = Batch({name: values[:0] for name, values in data.items()}, 7, np.arange(0))
    assert session.update(empty) is None
    assert (session.position, session.num_dropped, session.num_observations) == (112, 12, 100)


@pytest.mark.slow
def test_other_models_are_refused(data):
    session = new_session()
    fed(session, data, [0])
    packed = session.packed()
    with pytest.raises(
        CheckpointError, match="models must be those of the checkpoint, right, noisy; got right"
    ):
        Session.unpacked(packed, ALONE)
    with pytest.raises(CheckpointError, match="log likelihood differs"):
        Session.unpacked(packed, {"right": MODELS["noisy"], "noisy": MODELS["right"]})
    assert new_session().evidences() == {}
