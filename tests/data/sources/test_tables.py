"""Parquet, CSV and Arrow streams give the same arrays; errors name what is invalid."""

import datetime
import decimal
import errno
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evidentia as ev
from evidentia.data.batches import joined
from evidentia.data.sources import csv, open_source, read_csv, read_ipc, read_parquet
from evidentia.errors import ConfigurationError, DataError

KINDS = ["parquet", "csv", "ipc"]
TABLE = {"f0": [0.5, 1.5, 2.5], "count": [1, 2, 3], "label": [0, 1, 1], "flag": [True, False, True]}


def source_of(folder, kind, table, columns=None, **options):
    """Write the table as a file or stream of a kind, and open it."""
    table = pa.table(table) if isinstance(table, dict) else table
    if kind == "ipc":
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        stream.seek(0)
        return read_ipc(stream, columns, **options)
    path = folder / f"table.{kind}"
    if kind == "csv":
        pa.csv.write_csv(table, path)
        return read_csv(path, columns, **options)
    pa.parquet.write_table(table, path, row_group_size=2)
    return read_parquet(path, columns, **options)


def read(source, skip=0):
    return joined([*source.batches(skip)])


@pytest.mark.parametrize("kind", KINDS)
def test_columns_become_vectors_and_matrices(tmp_path, kind):
    source = source_of(tmp_path, kind, TABLE, {"x": ["count", "f0"], "y": "label", "n": ["count", "label"]})
    arrays = read(source).arrays
    np.testing.assert_array_equal(arrays["x"], np.array([[1, 0.5], [2, 1.5], [3, 2.5]], np.float32))
    np.testing.assert_array_equal(arrays["y"], [0, 1, 1])
    assert {name: array.dtype for name, array in arrays.items()} == {"x": "f4", "y": "i4", "n": "i4"}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_as_names_as_a_function_or_all(tmp_path, kind):
    assert list(read(source_of(tmp_path, kind, TABLE)).arrays) == list(TABLE)
    assert list(read(source_of(tmp_path, kind, TABLE, ["flag", "f0"])).arrays) == ["flag", "f0"]
    source = source_of(tmp_path, kind, TABLE, lambda names: {"y": [name for name in names if name != "flag"]})
    assert read(source).arrays["y"].shape == (3, 3)


@pytest.mark.parametrize("kind", KINDS)
@given(values=st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), max_size=20), data=st.data())
def test_rows_with_missing_values_are_dropped_and_a_reading_can_go_on_anywhere(
    tmp_path_factory, kind, values, data
):
    table = {"y": pa.array([0, *values], pa.int64()), "row": pa.array(range(len(values) + 1))}
    skip = data.draw(st.integers(0, len(values)))
    folder = tmp_path_factory.mktemp("files")
    batch = read(source_of(folder, kind, table, missing="drop"), skip)
    left = [(row, value) for row, value in enumerate([0, *values]) if row >= skip]
    kept = [(row, value) for row, value in left if value is not None]
    assert batch.arrays["row"].tolist() == [row for row, _ in kept]
    assert batch.arrays["y"].tolist() == [value for _, value in kept]
    assert batch.arrays["y"].dtype == np.int32
    assert (batch.num_read, batch.num_dropped) == (len(left), len(left) - len(kept))


@pytest.mark.parametrize("kind", KINDS)
def test_positions(tmp_path, kind):
    assert list(source_of(tmp_path, kind, TABLE).batches(skip=3)) == []
    with pytest.raises(DataError, match="the data end after 3 rows, but the first 4 were to be skipped"):
        list(source_of(tmp_path, kind, TABLE).batches(skip=4))
    with pytest.raises(ConfigurationError, match="skip must be an integer of at least 0"):
        source_of(tmp_path, kind, TABLE).batches(skip=-1)


def test_a_stream_can_be_read_once(tmp_path):
    source = source_of(tmp_path, "ipc", TABLE)
    next(source.batches())
    with pytest.raises(DataError, match="the stream has been read before"):
        source.batches()


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_the_user_knows_better(tmp_path, kind):
    table = {"label": [0.0, 1.0, None], "price": [1, 2, 3]}
    source = source_of(tmp_path, kind, table, types={"label": int, "price": float}, missing="drop")
    assert {name: array.dtype for name, array in read(source).arrays.items()} == {
        "label": "i4",
        "price": "f4",
    }
    source = source_of(tmp_path, kind, {"label": [0.0, 1.0, 1.25]}, types={"label": int})
    with pytest.raises(
        DataError, match=r"'label' holds integers.*; data row 3 has 1\.25\..*\{'label': float\}"
    ):
        read(source)


def test_categories_decimals_booleans_and_gaps_in_them(tmp_path):
    table = {
        "category": pa.array([3, 4, 5]).dictionary_encode(),
        "price": [decimal.Decimal("1.5"), decimal.Decimal(2), None],
        "flag": [True, False, None],
        "none": pa.nulls(3),
    }
    names = ["category", "price", "flag"]
    arrays = read(source_of(tmp_path, "parquet", table, names, missing="drop")).arrays
    assert {name: values.tolist() for name, values in arrays.items()} == {
        "category": [3, 4],
        "price": [1.5, 2.0],
        "flag": [1, 0],
    }
    assert read(source_of(tmp_path, "parquet", table, missing="drop")).num_dropped == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"a": [1.0, None, 3.0], "b": [None, None, 1]},
            r"has missing values in [12] of the [23] rows from data row 1 on \(the first is data row 1\), in 'a', 'b'. "
            "Fill them in, .* with missing='drop'",
        ),
        ({"a": [1.0, 2.0, np.nan]}, r"\(the first is data row 3\), in 'a'"),
        ({"a": [1.0, 2.0, np.inf]}, r"has infinite values of 'a' in 1 rows \(the first is data row 3\)"),
        ({"a": [1.0, 1e300, 3.0]}, "column 'a' has values outside the range of float32: from 1.0 to 1e.300"),
        ({"a": [1, 2**40, 3]}, "column 'a' has values outside the range of int32"),
    ],
)
def test_values_that_cannot_be_used(tmp_path, kind, table, message):
    source = source_of(tmp_path, kind, table)
    with pytest.raises(DataError, match=message) as caught:
        read(source)
    assert ("the stream" if kind == "ipc" else str(tmp_path)) in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        (["words"], {}, DataError, r"has no column 'words'. Did you mean 'word'\?"),
        ({"x": ["f0", "word"]}, {}, DataError, "'word' holds text.*Encode text as numbers, or leave"),
        (["day"], {}, DataError, "'day' holds values of type date32.*, not numbers"),
        ("f0", {}, ConfigurationError, "columns must be column names, or a mapping .*; got 'f0'"),
        ([], {}, ConfigurationError, "columns must be column names"),
        ({"x": []}, {}, ConfigurationError, r"columns\['x'\] must be one or more column names; got \[\]"),
        ({"x": ["f0", "f0"]}, {}, ConfigurationError, r"columns\['x'\] names a column more than once"),
        (["f0"], {"missing": "keep"}, ConfigurationError, "missing must be 'error' or 'drop'; got 'keep'"),
        (
            ["f0"],
            {"types": {"f0": "int"}},
            ConfigurationError,
            r"types\['f0'\] must be int or float; got 'int'",
        ),
        (["f0"], {"types": {"f9": int}}, ConfigurationError, "types names a column 'f9' that does not exist"),
    ],
)
def test_columns_that_are_none(tmp_path, kind, columns, options, error, message):
    table = {"f0": [0.5], "word": ["one"], "day": [datetime.date(2020, 1, 1)]}
    with pytest.raises(error, match=message):
        source_of(tmp_path, kind, table, columns, **options)


def test_streams_that_are_none_or_break_off(tmp_path):
    with pytest.raises(
        DataError, match=r"standard input cannot be read as an Arrow IPC stream \(at its beg.*CSV and"
    ):
        open_source("-", stdin=io.BytesIO(b"a,b\n1,2\n"))
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, pa.schema({"y": pa.float64()})) as writer:
        for _ in range(2):
            writer.write_table(pa.table({"y": np.zeros(100)}))
    whole = stream.getvalue()
    batches = read_ipc(io.BytesIO(whole[:-500])).batches()
    assert next(batches).num_rows == 100
    with pytest.raises(
        DataError, match=r"the stream cannot be read as an Arrow IPC stream \(after row 100\)"
    ):
        next(batches)


@pytest.mark.slow
def test_a_stream_whose_program_died_between_two_batches():
    model, stream = ev.models.linear_regression(num_features=1), io.BytesIO()
    rows = {"x": np.linspace(-1, 1, 300), "y": np.linspace(-1, 1, 300)}
    with pa.ipc.new_stream(stream, pa.table(rows).schema) as writer:
        writer.write_table(pa.table(rows))
    columns = {"x": ["x"], "y": "y"}
    whole, cut = (io.BytesIO(stream.getvalue()[:stop]) for stop in (None, -8))  # 8 bytes mark the end
    known = ev.estimate(model, read_ipc(whole, columns))
    with pytest.warns(
        ev.EvidenceWarning, match=r"the stream ended after row 300 without Arrow's end marker: .* died"
    ):
        found = ev.estimate(model, read_ipc(cut, columns))
    assert known.completed and not found.completed
    assert found.num_observations == 300
    empty = io.BytesIO(stream.getvalue()[: -8 - pa.table(rows).nbytes])
    with pytest.raises(DataError):
        ev.estimate(model, read_ipc(empty, columns))


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fails_while_it_is_read(tmp_path, monkeypatch, kind):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    source = source_of(tmp_path, kind, TABLE)
    monkeypatch.setattr(pa.parquet.ParquetFile, "iter_batches", fail)
    monkeypatch.setattr(csv.Records, "header", fail)
    if kind == "ipc":
        source = replace(source, reader=(fail() for _ in range(1)))
    where = {"ipc": r"the stream cannot be read \(after row 0\)"}.get(kind, rf"table\.{kind} cannot be read")
    with pytest.raises(DataError, match=f"{where}: Input/output error"):
        read(source)


def test_a_folder_that_may_not_be_entered(monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", refuse)
        with pytest.raises(DataError, match=r"secret/table\.csv cannot be read: Permission denied"):
            open_source("secret/table.csv")


def test_open_source_goes_by_the_names(tmp_path, monkeypatch):
    source_of(tmp_path, "csv", TABLE)
    source_of(tmp_path, "parquet", TABLE)
    monkeypatch.chdir(tmp_path)
    columns = {"y": "label"}
    for paths in ("*.csv", "*.parquet", tmp_path, ["table.csv"]):
        assert read(open_source(paths, columns)).arrays["y"].tolist() == [0, 1, 1]
    for paths, error, message in [
        ("table.*", DataError, r"must all end in \.csv, or all in \.parquet; got table\.csv, table\.parquet"),
        ("table.doc", DataError, "must end in"),
        ("*.tsv", DataError, r"no file matches \*\.tsv"),
        (["table.csv", "*.csv"], DataError, r"table\.csv: named more than once"),
        (["-", "table.csv"], ConfigurationError, "must be the only file"),
        ([], ConfigurationError, "paths must be a path, a pattern, or a list"),
        (3, ConfigurationError, "paths must be a path, a pattern, or a list"),
    ]:
        with pytest.raises(error, match=message):
            open_source(paths, columns)
    for paths, message in (
        ("-", "standard input cannot be followed"),
        ("table.parquet", "only a CSV file can"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            open_source(paths, columns, follow=True)


def test_a_terminal_is_no_stream():
    class Terminal(io.BytesIO):
        def isatty(self):
            return True

    with pytest.raises(DataError, match="standard input is a terminal; pipe"):
        open_source("-", stdin=Terminal())
