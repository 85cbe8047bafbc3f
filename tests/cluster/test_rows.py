"""Rows in partitions have the evidence of rows in memory; threads stand for a cluster."""

import multiprocessing
import os
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpyro.distributions as dist
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evidentia as ev
from evidentia import errors
from evidentia.cluster import over_executor, worker
from evidentia.cluster.engine import _result
from evidentia.cluster.over_executor import OverExecutor, RowsOf
from evidentia.cluster.rows import NUM_NEAR, PartitionedRows, gathered
from evidentia.data.arrays import on_device
from evidentia.data.sources.memory import ArraySource
from evidentia.evidence.population import leaps
from evidentia.posterior.rows import Window

NUM_ROWS = 2 * NUM_NEAR + 1000
MODEL = ev.models.linear_regression(num_features=2)
DATA, _ = MODEL.simulate(NUM_ROWS, seed=0)
COLUMNS = {"x": ["f0", "f1"], "y": "y"}


class Counting(ThreadPoolExecutor):
    """An executor that notes which functions of `worker` it calls."""

    def __init__(self):
        super().__init__(2)
        self.called = []

    def submit(self, fn, /, *args, **kwargs):
        self.called.append(args[3].__name__)
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
def executor():
    with Counting() as executor:
        yield executor


@pytest.fixture
def small_partitions(monkeypatch):
    monkeypatch.setattr(over_executor, "ROWS_PER_PARTITION", 50_000)


def parts_of(data, *stops):
    return [
        {name: values[start:stop] for name, values in data.items()} for start, stop in pairwise((0, *stops))
    ]


def written(folder, data, num_files=2):
    for number, part in enumerate(parts_of(data, NUM_ROWS // num_files, NUM_ROWS)):
        columns = {"f0": part["x"][:, 0], "f1": part["x"][:, 1], "y": part["y"]}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=20_000)
    return ev.read_parquet(f"{folder}/*.parquet", columns=COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("method", [ev.SGAIS(), ev.Laplace()])
def test_log_evidence_is_exact(tmp_path, executor, small_partitions, method):
    source = written(tmp_path, DATA)
    evidence = ev.estimate(MODEL, source, executor=executor, method=method)
    assert abs(evidence.log_evidence - MODEL.exact_log_evidence(DATA)) < 4 * evidence.standard_error
    assert evidence.standard_error < 0.05
    assert evidence.num_observations == NUM_ROWS
    assert evidence.fingerprints == ev.estimate(MODEL, DATA).fingerprints
    again = ev.estimate(MODEL, source, executor=executor, method=method)
    assert again.log_evidence == evidence.log_evidence


@pytest.mark.slow
def test_looks_are_few(tmp_path, executor, small_partitions):
    ev.estimate(MODEL, written(tmp_path, DATA), executor=executor)
    num_partitions = executor.called.count("facts")
    assert num_partitions == 3
    assert len(executor.called) <= 10 * num_partitions


@pytest.mark.slow
def test_sums_are_those_of_all_rows(executor):
    """Window's own float32 sums are right to the rounding that its 8 exact particles correct."""
    engine = OverExecutor(executor, parts_of(DATA, 10, 100_000, 100_000, NUM_ROWS))  # one without rows
    rows = gathered(engine, MODEL, seed=0).rows
    assert isinstance(rows, PartitionedRows)
    bound, whole = MODEL.bind(DATA), Window(on_device(DATA), 0, NUM_ROWS)
    positions = np.random.default_rng(0).normal(size=(20, bound.num_parameters)).astype(np.float32)
    exact = whole.exact_log_likelihoods(bound, positions)
    np.testing.assert_allclose(rows.exact_log_likelihoods(bound, positions), exact, rtol=1e-12)
    deviations, offset = rows.log_likelihoods(bound, positions)
    np.testing.assert_allclose(deviations + offset, exact, atol=0.02)
    expected, found = whole.expand(bound, positions[0]), rows.expand(bound, positions[0])
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-6)


def test_sample_is_random_rows_of_all_partitions(executor):
    data = {"y": np.arange(NUM_ROWS, dtype=np.int32)}
    coin = ev.Model({"p": dist.Beta(1.0, 1.0)}, lambda params, batch: params["p"] * batch["y"])
    found = gathered(OverExecutor(executor, parts_of(data, 40_000, NUM_ROWS)), coin, seed=3)
    chosen = np.sort(found.some["y"])
    assert len(np.unique(chosen)) == NUM_NEAR == found.rows.near.size
    # Uniform: the share below a row deviates by at most the Kolmogorov distance at 1e-4.
    assert np.abs(chosen / NUM_ROWS - np.arange(NUM_NEAR) / NUM_NEAR).max() < 2.2 / np.sqrt(NUM_NEAR)
    assert (found.some["y"] != chosen).any()
    other = gathered(OverExecutor(executor, parts_of(data, 40_000, NUM_ROWS)), coin, seed=4)
    assert (np.sort(other.some["y"]) != chosen).any()


@pytest.mark.slow
def test_few_rows_are_fetched_and_take_any_method_of_two(executor):
    data, _ = MODEL.simulate(500, seed=1)
    found = gathered(OverExecutor(executor, parts_of(data, 0, 200, 500)), MODEL, seed=0)
    assert isinstance(found.rows, Window) and found.rows.size == 500
    evidence = ev.estimate(MODEL, ArraySource(data), executor=executor)
    assert abs(evidence.log_evidence - MODEL.exact_log_evidence(data)) < 4 * evidence.standard_error


def test_part_of_a_source_has_its_rows():
    values = np.arange(10, dtype=np.float32)
    values[[0, 4]] = np.nan
    part = RowsOf(ArraySource({"y": values}, missing="drop"), 2, 7)
    (batch,) = part.batches()
    assert batch.arrays["y"].tolist() == [2, 3, 5, 6] and batch.num_dropped == 1
    (batch,) = part.batches(skip=3)
    assert batch.arrays["y"].tolist() == [5, 6]
    with pytest.raises(errors.DataError, match="have changed since they were opened"):
        list(RowsOf(ArraySource({"y": values[1:2]}), 0, 5).batches())


@pytest.mark.slow
def test_dropped_rows_are_counted(tmp_path, executor):
    data = {name: values.copy() for name, values in DATA.items()}
    data["y"][:7] = np.nan
    source = ev.read_parquet(_table(tmp_path, data), columns=COLUMNS, missing="drop")
    with pytest.warns(ev.EvidenceWarning, match="7 rows with missing values were dropped"):
        evidence = ev.estimate(MODEL, source, executor=executor)
    assert evidence.num_observations == NUM_ROWS - 7


def _table(folder, data):
    columns = {"f0": data["x"][:, 0], "f1": data["x"][:, 1], "y": data["y"]}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return folder / "rows.parquet"


def test_other_columns_or_types_name_the_partition(executor):
    parts = parts_of(DATA, 100, 200, 300)
    parts[1] = {"x": parts[1]["x"].astype(np.int32), "y": parts[1]["y"]}
    parts[2] = {"z": parts[2]["y"]}
    with pytest.raises(
        errors.DataError, match=r"partition 0 has \{'x': float32.*partition 1 has \{'x': int32"
    ):
        gathered(OverExecutor(executor, parts), MODEL, seed=0)


def test_no_rows(executor):
    with pytest.raises(errors.DataError, match="the 2 partitions have none"):
        gathered(OverExecutor(executor, parts_of(DATA, 0, 0)), MODEL, seed=0)


def test_unusable_rows_name_the_partition(executor):
    parts = parts_of(DATA, 100, 200)
    parts[1]["y"] = np.full(100, np.nan)
    with pytest.raises(errors.DataError, match=r"partition 1: data\['y'\] has NaN or infinite values in 100"):
        gathered(OverExecutor(executor, parts), MODEL, seed=0)


def test_other_versions_at_a_worker(executor, monkeypatch):
    here = worker.versions()
    monkeypatch.setattr("evidentia.cluster.rows.worker.versions", lambda: here)
    needed = here | {"jax": "0.1"}
    with pytest.raises(
        errors.ConfigurationError, match=r"has jax .*; this process has 0\.1\. Install the same"
    ):
        worker.answer(DATA, needed, b"", worker.facts)


def test_model_that_cannot_be_sent(tmp_path):
    model = ev.Model({"p": dist.Beta(1.0, 1.0)}, lambda params, batch: params["p"] * batch["y"])
    context = multiprocessing.get_context("spawn")
    cannot = pytest.raises(errors.ModelError, match="model 'model' cannot be sent to the workers")
    with ProcessPoolExecutor(1, context) as processes, cannot:
        ev.estimate(model, written(tmp_path, DATA), executor=processes)


class Breaking(Counting):
    """An executor whose calls of a function fail."""

    def __init__(self, function, error):
        super().__init__()
        self.function, self.error = function, error

    def submit(self, fn, /, *args, **kwargs):
        if args[3].__name__ != self.function:
            return super().submit(fn, *args, **kwargs)
        future = Future()
        future.set_exception(self.error)
        return future


def test_partition_that_fails_leaves_the_evidence_of_the_sample(tmp_path, small_partitions):
    source = written(tmp_path, DATA)
    with (
        Breaking("expansion", OSError("the disk is gone")) as executor,
        pytest.raises(errors.DataError, match="partition 0 cannot be read, after retries: OSError") as caught,
    ):
        ev.estimate(MODEL, source, executor=executor)
    assert caught.value.evidence.num_observations == NUM_NEAR
    assert not caught.value.evidence.completed


def test_ctrl_c_leaves_the_evidence_of_the_sample_and_cancels(tmp_path, small_partitions):
    class Interrupting(Counting):
        def submit(self, fn, /, *args, **kwargs):
            if args[3].__name__ != "expansion":
                return super().submit(fn, *args, **kwargs)
            pending.append(Future())
            if len(pending) == 3:
                raise_soon(pending[0])
            return pending[-1]

    def raise_soon(future):
        future.set_exception(KeyboardInterrupt())

    pending = []
    with Interrupting() as executor, pytest.warns(ev.EvidenceWarning, match="stopped after 65536 of 132072"):
        evidence = ev.estimate(MODEL, written(tmp_path, DATA), executor=executor)
    assert not evidence.completed and evidence.num_observations == NUM_NEAR
    assert all(future.cancelled() for future in pending[1:])


def test_posterior_that_draws_do_not_cover_is_said(tmp_path, executor, small_partitions, monkeypatch):
    monkeypatch.setattr(leaps, "draw_anew", _only_near(leaps.draw_anew))
    with pytest.warns(ev.EvidenceWarning, match="is that of 65,536 random rows out of 132,072"):
        evidence = ev.estimate(MODEL, written(tmp_path, DATA), executor=executor)
    assert not evidence.completed and evidence.fingerprints == {}


def _only_near(draw_anew):
    def limited(model, rows, *arguments):
        return None if isinstance(rows, PartitionedRows) else draw_anew(model, rows, *arguments)

    return limited


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": ev.SMC()}, "SGAIS.. and Laplace.. for rows on many devices or on a cluster; got SMC"),
        ({"method": ev.SGAIS.published()}, "SGAIS needs refresh=True for rows on a cluster"),
        ({"in_order": True}, "in_order=True needs rows on one device"),
    ],
)
def test_what_a_cluster_cannot_do(tmp_path, executor, arguments, message):
    with pytest.raises(errors.ConfigurationError, match=message):
        ev.estimate(MODEL, written(tmp_path, DATA), executor=executor, **arguments)


def test_executor_needs_a_source(executor):
    with pytest.raises(errors.DataError, match="data must be a source, such as read_parquet returns"):
        ev.estimate(MODEL, DATA, executor=executor)
    with pytest.raises(errors.ConfigurationError, match="must have the method submit"):
        ev.estimate(MODEL, ArraySource(DATA), executor="dask")


@pytest.mark.parametrize("looks", [0, 1, 20])
def test_results_are_asked_for_when_tasks_have_ended(looks):
    """Dask's waits with a timeout can fail if the task ends meanwhile."""
    assert _result(EndsAfter(looks), 3) == "done"


def test_timeout_of_a_task_is_its_own():
    future = Future()
    future.set_exception(TimeoutError("of a disk"))
    with pytest.raises(
        errors.DataError, match="partition 3 cannot be read, after retries: TimeoutError: of a disk"
    ):
        _result(future, 3)


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (
            "NoWorkerError",
            "the cluster had no workers for longer than its no-workers-timeout, at partition 3",
        ),
        ("KilledWorker", "the workers that had partition 3, perhaps beside others, died"),
        ("ClosedClientError", "the connection to the cluster was lost at partition 3"),
    ],
)
def test_faults_of_dask_are_named(raised, message):
    future = Future()
    future.set_exception(type(raised, (Exception,), {})())
    with pytest.raises(errors.EstimationError, match=message):
        _result(future, 3)


class EndsAfter:
    """A task that has ended after some looks."""

    def __init__(self, looks):
        self.looks = looks

    def done(self):
        self.looks -= 1
        return self.looks < 0

    def result(self):
        assert self.looks < 0
        return "done"


@dataclass(frozen=True)
class Deadly(ArraySource):
    """A source that ends the process that reads it."""

    def batches(self, skip=0):
        os._exit(1)


@pytest.mark.slow
def test_processes_that_die_are_said():
    executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with (
        executor,
        pytest.raises(errors.EstimationError, match=r"the workers that had partition 0.*BrokenProcessPool"),
    ):
        ev.estimate(MODEL, Deadly(DATA), executor=executor)
