"""A real S3 server and a real web server on this machine, with faults put between them and us."""

import contextlib
import pickle
import socket
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evidentia as ev
from evidentia import errors
from evidentia.system import storage

pytestmark = [
    pytest.mark.cluster,
    # Of the stores' clients: sockets that the garbage collector closes.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
server = pytest.importorskip("moto.server", reason="needs the extra cluster")
boto3 = pytest.importorskip("boto3")
s3fs = pytest.importorskip("s3fs")

SECRET = "hunter2-wJalrXUtnFEMI"
MODEL = ev.models.linear_regression(num_features=1)
DATA, _ = MODEL.simulate(300_000, seed=0)
COLUMNS = {"x": ["f0"], "y": "y"}


class Proxy:
    """Passes connections on to a port; the first few are cut, after some bytes of the answer."""

    def __init__(self, port):
        self.port, self.to_cut, self.after, self.num_cut = port, 0, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def cut(self, connections, after):
        """Cut so many of the next connections, each after so many bytes of the answer."""
        self.to_cut, self.after, self.num_cut = connections, after, 0

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            upstream = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self._pass, args=(client, upstream), daemon=True).start()
            threading.Thread(target=self._answer, args=(upstream, client), daemon=True).start()

    def _pass(self, source, target):
        try:
            while data := source.recv(65_536):
                target.sendall(data)
        except OSError:
            pass

    def _answer(self, source, target):
        sent = 0
        try:
            while data := source.recv(65_536):
                if self.to_cut > 0 and sent + len(data) > self.after:
                    self.to_cut, self.num_cut = self.to_cut - 1, self.num_cut + 1
                    target.sendall(data[: max(0, self.after - sent)])
                    break
                target.sendall(data)
                sent += len(data)
        except OSError:
            pass
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # a close alone waits for the other thread
            each.close()


@pytest.fixture(scope="module")
def proxy():
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    yield Proxy(moto.get_host_and_port()[1])
    moto.stop()


@pytest.fixture
def bucket(proxy, monkeypatch):
    """A bucket with rows, reached through the proxy; credentials come from the environment."""
    proxy.cut(0, 0)
    for name, value in {
        "AWS_ENDPOINT_URL": proxy.url,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(storage, "PAUSE", 0.01)
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="rows")
    for number, (start, stop) in enumerate([(0, 100_000), (100_000, 300_000)]):
        sink = pa.BufferOutputStream()
        rows = pa.table(
            {"f0": DATA["x"][start:stop, 0], "y": DATA["y"][start:stop], "z": DATA["y"][start:stop]}
        )
        pq.write_table(rows, sink, row_group_size=40_000)
        client.put_object(
            Bucket="rows", Key=f"parts/{number}.parquet", Body=sink.getvalue().to_pybytes(), ACL="public-read"
        )
    yield "s3://rows"
    proxy.cut(0, 0)
    s3fs.S3FileSystem.clear_instance_cache()


def check_rows(source):
    batches = list(source.batches())
    for name, values in DATA.items():
        np.testing.assert_array_equal(np.concatenate([batch.arrays[name] for batch in batches]), values)


def test_rows_are_those_of_local_files(bucket):
    source = ev.read_parquet(f"{bucket}/parts/*.parquet", columns=COLUMNS)
    check_rows(source)
    check_rows(pickle.loads(pickle.dumps(source)))
    check_rows(ev.read_parquet(f"{bucket}/parts", columns=COLUMNS))


@pytest.mark.parametrize("after", [0, 1000, 300_000])
def test_cut_connections_lose_no_row(bucket, proxy, after):
    source = ev.read_parquet(f"{bucket}/parts/*.parquet", columns=COLUMNS)
    proxy.cut(4, after)
    check_rows(source)
    assert proxy.num_cut >= 2


def test_store_that_is_gone_is_an_error(bucket, proxy):
    source = ev.read_parquet(f"{bucket}/parts/*.parquet", columns=COLUMNS)
    proxy.cut(10_000, 0)
    with pytest.raises(
        errors.DataError, match=r"s3://rows/parts/0\.parquet cannot be read: .*4 attempts"
    ) as caught:
        check_rows(source)
    assert SECRET not in str(caught.value)


def test_what_does_not_exist_is_said(bucket):
    with pytest.raises(errors.DataError, match=r"s3://rows/none\.parquet does not exist"):
        ev.read_parquet(f"{bucket}/none.parquet")
    with pytest.raises(errors.DataError, match="no object matches s3://nobucket/"):
        ev.read_parquet("s3://nobucket/*.parquet")


def test_no_credentials_are_said(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(errors.DataError, match="cannot be read: .*[Cc]redentials"):
        ev.read_parquet(f"{bucket}/parts/0.parquet")


@pytest.mark.parametrize("after", [0, 20])
def test_results_and_checkpoints_survive_faults_and_hold_no_secrets(bucket, proxy, after):
    evidence = ev.estimate(MODEL, ev.read_parquet(f"{bucket}/parts/0.parquet", columns=COLUMNS))
    online = ev.Online(MODEL, seed=0)
    online.update({name: values[:500] for name, values in DATA.items()})
    for save in (lambda: evidence.save(f"{bucket}/result"), lambda: online.save(f"{bucket}/run")):
        proxy.cut(2, after)
        save()
    proxy.cut(0, 0)
    assert ev.load(f"{bucket}/result").log_evidence == evidence.log_evidence
    assert ev.Online.load(f"{bucket}/run", MODEL).num_observations == 500
    client = boto3.client("s3")
    listed = client.list_objects_v2(Bucket="rows")["Contents"]
    assert {"run/checkpoint", "result/evidence.json"} <= {each["Key"] for each in listed}
    for each in listed:
        stored = client.get_object(Bucket="rows", Key=each["Key"])["Body"].read()
        assert SECRET.encode() not in stored and b"AKIAIOSFODNN7EXAMPLE" not in stored


def test_result_is_the_old_one_if_the_store_is_gone(bucket, proxy):
    old, new = (
        ev.estimate(MODEL, {name: values[:500] for name, values in DATA.items()}, seed=seed)
        for seed in (0, 1)
    )
    old.save(f"{bucket}/kept")
    proxy.cut(10_000, 0)
    with pytest.raises(errors.CheckpointError, match=r"s3://rows/kept.*unchanged") as caught:
        new.save(f"{bucket}/kept")
    proxy.cut(0, 0)
    assert ev.load(f"{bucket}/kept").log_evidence == old.log_evidence
    assert SECRET not in str(caught.value)


def test_files_of_a_web_server(bucket, proxy):
    """The objects of the bucket, without credentials; the server answers requests for ranges."""
    boto3.client("s3").put_object(
        Bucket="rows", Key="rows.csv", ACL="public-read", Body=b"f0,y\n0.5,1\n-0.25,2\n"
    )
    source = ev.read_csv(f"{proxy.url}/rows/rows.csv", columns=COLUMNS)
    assert [batch.arrays["y"].tolist() for batch in source.batches()] == [[1.0, 2.0]]
    names = [f"{proxy.url}/rows/parts/{number}.parquet" for number in range(2)]
    source = ev.read_parquet(names, columns=COLUMNS)
    proxy.cut(2, 100_000)
    check_rows(source)
    assert proxy.num_cut == 2
    with pytest.raises(errors.DataError, match=r"nothing\.csv does not exist"):
        ev.read_csv(f"{proxy.url}/rows/nothing.csv")
