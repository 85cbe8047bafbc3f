"""The folder of a fleet: what is there is skipped, other models are refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evidentia as ev
from evidentia.fleet import FleetRecord, FleetUpdate
from evidentia.fleet import folder as folders

LINEAR = ev.models.linear_regression(num_features=2)
DATA = {f"series {seed}": LINEAR.simulate(50, seed)[0] for seed in range(70)}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    path = tmp_path_factory.mktemp("fleet")
    return path, list(ev.estimate_many(LINEAR, DATA, folder=path))


def test_a_resumed_record_is_the_same(full):
    path, records = full
    updates: list[FleetUpdate] = []
    again = list(ev.estimate_many(LINEAR, DATA, folder=path, progress=updates.append))
    assert updates[-1].num_resumed == 70
    for one, other in zip(records, again, strict=True):
        assert one.name == other.name
        first, second = one.evidences["linear regression"], other.evidences["linear regression"]
        assert first.to_dict() == second.to_dict()
        for name in first.posterior:
            np.testing.assert_array_equal(first.posterior[name], second.posterior[name])


def test_a_fleet_that_was_stopped_goes_on(tmp_path, full):
    started = ev.estimate_many(LINEAR, DATA, folder=tmp_path)
    for _ in range(10):
        next(started)
    started.close()
    (tmp_path / "part-000007.new").write_bytes(b"half a part of a killed process")
    updates: list[FleetUpdate] = []
    found = list(ev.estimate_many(LINEAR, DATA, folder=tmp_path, progress=updates.append))
    assert updates[-1].num_resumed == 10
    assert [repr(one) for one in found] == [repr(one) for one in full[1]]


def test_changed_data_are_estimated_anew(full):
    path, records = full
    changed = {"series 0": DATA["series 1"], "series 1": DATA["series 1"]}
    first, second = ev.estimate_many(LINEAR, changed, folder=path)
    old = [record.evidences["linear regression"].log_evidence for record in records[:2]]
    assert first.evidences["linear regression"].log_evidence != old[0]
    assert second.evidences["linear regression"].log_evidence == old[1]


def test_the_parts_are_tables_that_others_can_read(full):
    path, records = full
    parts = map(pq.read_table, sorted(path.glob("part-*.parquet")))  # one, if it took less than five seconds
    table = pa.concat_tables(parts)[:70]  # another test has added some
    assert table["name"].to_pylist() == list(DATA)
    assert table["log_evidence"][3].as_py() == records[3].evidences["linear regression"].log_evidence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed is 1, and was 0, in the fleet of folder"),
        ({"method": ev.Laplace()}, "method is Laplace.*, and was None, in the fleet"),
        ({"models": {"other": LINEAR}}, "models is other, and was linear regression, in the fleet"),
        (
            {"models": ev.models.linear_regression(num_features=2, noise_scale=2.0)},
            r"models\['linear regression'\] on .* in the fleet",
        ),
    ],
)
def test_other_settings_are_refused(full, changes, message):
    with pytest.raises(ev.CheckpointError, match=message):
        list(ev.estimate_many(**{"models": LINEAR, "datasets": DATA, "folder": full[0], **changes}))


def test_damaged_and_used_folders_are_named(tmp_path, full):
    (tmp_path / "part-000000.parquet").write_bytes(b"not a table")
    with pytest.raises(ev.CheckpointError, match="part-000000.parquet is damaged"):
        list(ev.estimate_many(LINEAR, DATA, folder=tmp_path))
    (tmp_path / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(ev.CheckpointError, match="manifest.json is damaged"):
        list(ev.estimate_many(LINEAR, DATA, folder=tmp_path))
    (tmp_path / "manifest.json").write_text('{"format": 9, "settings": {}}', encoding="utf-8")
    with pytest.raises(ev.CheckpointError, match="has format 9, and this version reads format 1"):
        list(ev.estimate_many(LINEAR, DATA, folder=tmp_path))
    with folders.FleetFolder(full[0], {}), pytest.raises(ev.CheckpointError, match="in use"):
        list(ev.estimate_many(LINEAR, DATA, folder=full[0]))


def test_errors_about_data_are_kept_and_others_are_tried_again(tmp_path):
    record = FleetRecord("a", {}, {"known": ev.DataError("too few rows"), "lost": RuntimeError("died")})
    with folders.FleetFolder(tmp_path, {}) as folder:
        folder.keep(record, "hash")
    with folders.FleetFolder(tmp_path, {}) as folder:
        found = folder.find("a", "hash", ("known",))
        assert found is not None
        assert str(found.errors["known"]) == "too few rows"
        assert folder.find("a", "hash", ("known", "lost")) is None
        assert folder.find("a", "other", ("known",)) is None
