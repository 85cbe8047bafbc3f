"""Files behind URLs hold what local files hold; faults of a store are tried again, then said."""

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evidentia as ev
from evidentia import errors
from evidentia.system import storage

upath = pytest.importorskip("upath", reason="needs the extra storage")
MODEL = ev.models.linear_regression(num_features=1)
DATA, _ = MODEL.simulate(5000, seed=0)
COLUMNS = {"x": ["f0"], "y": "y"}


@pytest.fixture
def store():
    """An empty folder in a store in memory."""
    from fsspec.implementations.memory import MemoryFileSystem

    yield upath.UPath("memory://bucket/folder")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(storage, "PAUSE", 0.0)


def table(start, stop):
    return pa.table({"f0": DATA["x"][start:stop, 0], "y": DATA["y"][start:stop]})


def as_parquet(rows):
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=700)
    return sink.getvalue()


def all_of(source):
    batches = list(source.batches())
    return {name: np.concatenate([batch.arrays[name] for batch in batches]) for name in COLUMNS}


def check_rows(source):
    found = all_of(source)
    for name, values in DATA.items():
        np.testing.assert_array_equal(found[name], values)


def test_patterns_and_folders_are_read_as_local_ones(store):
    for number, (start, stop) in enumerate([(0, 2000), (2000, 5000)]):
        (store / f"year={number}").mkdir(parents=True)
        (store / f"year={number}" / "part.parquet").write_bytes(as_parquet(table(start, stop)))
    check_rows(ev.read_parquet(f"{store}/*/part.parquet", columns=COLUMNS))
    source = ev.read_parquet(str(store), columns={**COLUMNS, "year": "year"})
    check_rows(source)
    assert source.num_rows == 5000
    assert (
        np.concatenate([b.arrays["year"] for b in source.batches(skip=1990)]).tolist()
        == [0] * 10 + [1] * 3000
    )
    check_rows(pickle.loads(pickle.dumps(source)))


@pytest.mark.reference
def test_csv_is_read_as_a_local_one(store, tmp_path):
    text = "f0,y\n" + "\n".join(
        f"{x!r},{y!r}" for x, y in zip(DATA["x"][:, 0].tolist(), DATA["y"].tolist(), strict=True)
    )
    (store / "rows.csv").write_text(text)
    check_rows(ev.read_csv(f"{store}/rows.csv", columns=COLUMNS))
    evidence = ev.estimate(MODEL, ev.read_csv(f"{store}/rows.csv", columns=COLUMNS))
    (tmp_path / "rows.csv").write_text(text)
    assert (
        ev.estimate(MODEL, ev.read_csv(tmp_path / "rows.csv", columns=COLUMNS)).log_evidence
        == evidence.log_evidence
    )


@pytest.mark.slow
def test_results_are_kept(store):
    evidence = ev.estimate(MODEL, DATA)
    evidence.save(f"{store}/result")
    loaded = ev.load(f"{store}/result")
    assert loaded.log_evidence == evidence.log_evidence
    np.testing.assert_array_equal(loaded.posterior["weights"], evidence.posterior["weights"])
    ev.estimate(MODEL, DATA, seed=1).save(f"{store}/result")
    assert ev.load(f"{store}/result").log_evidence != evidence.log_evidence
    assert sum(name.name.endswith(".parquet") for name in (store / "result").iterdir()) == 3  # no leftovers


@pytest.mark.slow
def test_streams_continue(store):
    online = ev.Online(MODEL, seed=0)
    online.update({name: values[:500] for name, values in DATA.items()})
    online.save(f"{store}/run")
    later = {name: values[500:900] for name, values in DATA.items()}
    again = ev.Online.load(f"{store}/run", MODEL)
    assert again.update(later).log_evidence == online.update(later).log_evidence


def test_fleets_resume(store):
    series = [{name: values[i : i + 50] for name, values in DATA.items()} for i in range(0, 500, 50)]
    first = list(ev.estimate_many(MODEL, series, folder=f"{store}/fleet"))
    resumed = []
    again = list(ev.estimate_many(MODEL, series, folder=f"{store}/fleet", progress=resumed.append))
    assert list(map(repr, again)) == list(map(repr, first))
    assert resumed[-1].num_resumed == len(series)


# --- Faults --------------------------------------------------------------------------------------


class Faults:
    """Lets a method of the store fail at the calls with some numbers."""

    def __init__(self, monkeypatch, owner, name, at):
        self.calls, original = 0, getattr(owner, name)

        def failing(*args, **kwargs):
            self.calls += 1
            if self.calls in at:
                raise ConnectionError("reset by peer")
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, failing)


@pytest.fixture
def memory():
    from fsspec.implementations import memory

    return memory


@pytest.mark.parametrize("at", [{1}, {2, 3}, {3, 4, 5}, {2, 4, 6}])
def test_transient_faults_of_reading_lose_no_row(store, memory, monkeypatch, at):
    store.mkdir(parents=True)
    (store / "rows.parquet").write_bytes(as_parquet(table(0, 5000)))
    faults = Faults(monkeypatch, memory.MemoryFile, "read", at)
    check_rows(ev.read_parquet(f"{store}/rows.parquet", columns=COLUMNS))
    assert faults.calls > max(at)


def test_permanent_faults_of_reading_are_said(store, memory, monkeypatch):
    store.mkdir(parents=True)
    (store / "rows.parquet").write_bytes(as_parquet(table(0, 5000)))
    source = ev.read_parquet(f"{store}/rows.parquet", columns=COLUMNS)
    faults = Faults(monkeypatch, memory.MemoryFile, "read", range(2, 1000))
    with pytest.raises(
        errors.DataError, match=r"rows\.parquet cannot be read: ConnectionError: reset by peer \(4 attempts\)"
    ):
        all_of(source)
    assert faults.calls <= 2 * storage.ATTEMPTS


def test_what_does_not_exist_is_said_at_once(store):
    with pytest.raises(errors.DataError, match=r"memory://bucket/folder/rows\.csv does not exist"):
        ev.read_csv(f"{store}/rows.csv")
    with pytest.raises(errors.DataError, match="no object matches memory://bucket/folder/"):
        ev.read_parquet(f"{store}/*.parquet")
    with pytest.raises(errors.CheckpointError, match="holds no checkpoint"):
        ev.Online.load(str(store), MODEL)
    with pytest.raises(errors.CheckpointError, match="holds no saved result: there is no such folder"):
        ev.load(str(store))


@pytest.mark.slow
@pytest.mark.parametrize("call", range(1, 6))
def test_a_result_is_the_old_or_the_new_one_wherever_saving_fails(store, memory, monkeypatch, call):
    old, new = (ev.estimate(MODEL, DATA, method=ev.Laplace(), seed=seed) for seed in (0, 1))
    old.save(str(store))
    with monkeypatch.context() as patched:
        faults = Faults(patched, memory.MemoryFileSystem, "pipe_file", range(call, 1000))
        if call <= 4:  # three tables and the index
            with pytest.raises(errors.CheckpointError, match="A result that was there is unchanged"):
                new.save(str(store))
        else:
            new.save(str(store))
        assert faults.calls >= min(call, 4)
    assert ev.load(str(store)).log_evidence == (old if call <= 4 else new).log_evidence


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(store, memory, monkeypatch):
    online = ev.Online(MODEL, seed=0)
    online.update({name: values[:500] for name, values in DATA.items()})
    online.save(str(store))
    online.update({name: values[500:600] for name, values in DATA.items()})
    with monkeypatch.context() as patched:
        Faults(patched, memory.MemoryFileSystem, "pipe_file", range(1, 100))
        with pytest.raises(errors.CheckpointError, match="A checkpoint that was there is unchanged"):
            online.save(str(store))
    assert ev.Online.load(str(store), MODEL).num_observations == 500


# --- Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA123:hunter2@bucket/rows.parquet",
        "https://host/rows.csv?X-Amz-Signature=hunter2",
        "az://c/r.csv?sig=hunter2",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(errors.ConfigurationError, match="holds credentials, which would be kept") as caught:
        ev.read_parquet(url)
    assert "hunter2" not in str(caught.value) and "AKIA123" not in str(caught.value)


def test_unknown_stores_and_missing_packages_are_named(monkeypatch):
    with pytest.raises(errors.ConfigurationError, match="floppy:// is no store that fsspec knows"):
        ev.read_csv("floppy://a/rows.csv")
    if pytest.importorskip("fsspec") and not _has("gcsfs"):
        with pytest.raises(
            errors.ConfigurationError, match=r"gs:// needs a package .* pip install 'evidentia\[gcs\]'"
        ):
            ev.read_csv("gs://bucket/rows.csv")


def _has(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_only_local_files_are_followed(store):
    store.mkdir(parents=True)
    (store / "rows.csv").write_text("f0,y\n1,2\n")
    with pytest.raises(errors.ConfigurationError, match="only a local file can be followed"):
        ev.read_csv(f"{store}/rows.csv", columns=COLUMNS, follow=True)
