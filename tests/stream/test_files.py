"""Columns of numbers come back from CSV and Parquet as they were written; everything else gets one clear message."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.errors import DataError
from evidentia.stream.files import column_names, near, read_columns


def written(folder, suffix, columns):
    path = folder / f"table{suffix}"
    table = pa.table(columns)
    pa.parquet.write_table(table, path) if suffix == ".parquet" else pa.csv.write_csv(table, path)
    return path


def text(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


reals = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=20)
integers = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@given(values=st.one_of(reals, integers))
def test_numbers_come_back_as_written(tmp_path_factory, suffix, values):
    path = written(tmp_path_factory.mktemp("files"), suffix, {"a": values})
    (column,) = read_columns(path).values()
    np.testing.assert_array_equal(column, np.array(values))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_in_the_order_asked_for(tmp_path, suffix):
    path = written(tmp_path, suffix, {"a": [1, 2], "b": [0.5, 1.5], "c": [True, False], "words": ["x", "y"]})
    assert column_names(path) == ["a", "b", "c", "words"]
    columns = read_columns(path, ["c", "a", "b"])
    assert list(columns) == ["c", "a", "b"]
    assert [column.dtype.kind for column in columns.values()] == ["b", "i", "f"]


def test_a_column_that_starts_with_integers_may_go_on_with_fractions(tmp_path):
    """Arrow guesses types from the first megabyte; a guess must not decide what a table may hold."""
    rows = 400_000
    path = text(tmp_path, "a,b\n" + "1,\n" * 10 + "1,2\n" * rows + "0.5,2\n")
    assert read_columns(path, ["a"])["a"][-1] == 0.5
    with pytest.raises(
        DataError, match=r"'b' has missing values in 10 of 400,011 rows \(the first is data row 1\)"
    ):
        read_columns(path, ["b"])


def test_text_far_below_the_first_rows_is_named(tmp_path):
    path = text(tmp_path, "a,b\n" + "1,2\n" * 400_000 + "1,oops\n")
    with pytest.raises(DataError, match="column 'b' holds text, for example 'oops'"):
        read_columns(path)


def test_categories_and_decimals_of_numbers_are_numbers(tmp_path):
    columns = {
        "category": pa.array([3, 4]).dictionary_encode(),
        "price": [decimal.Decimal("1.5"), decimal.Decimal(2)],
    }
    columns = read_columns(written(tmp_path, ".parquet", columns))
    assert {name: values.tolist() for name, values in columns.items()} == {
        "category": [3, 4],
        "price": [1.5, 2.0],
    }


@pytest.mark.parametrize(
    ("suffix", "columns", "message"),
    [
        (".csv", {"a": ["1", "?", "2"]}, r"'a' holds text, for example '\?'"),
        (".parquet", {"a": ["1", "2"]}, "'a' holds text"),
        (".parquet", {"a": pa.array(["u", "v"]).dictionary_encode()}, "'a' holds text, for example 'u', 'v'"),
        (".parquet", {"a": [datetime.date(2020, 1, 1)]}, "'a' holds values of type date32.*, not numbers"),
        (
            ".csv",
            {"a": [1.0, None], "b": [1, 2]},
            r"'a' has missing values in 1 of 2 rows \(the first is data row 2\)",
        ),
        (
            ".parquet",
            {"a": [None, None, 3]},
            r"'a' has missing values in 2 of 3 rows \(the first is data row 1\)",
        ),
        (
            ".parquet",
            {"a": [1.0, float("nan")]},
            r"'a' has missing values in 1 of 2 rows \(the first is data row 2\)",
        ),
        (
            ".parquet",
            {"a": [1.0, float("inf")]},
            r"'a' has infinite values in 1 of 2 rows \(the first is data row 2\)",
        ),
        (".csv", {"a": [1.0, float("-inf")]}, r"'a' has infinite values in 1 of 2 rows"),
        (".parquet", {"a": [1.0, None], "b": ["x", "y"]}, "'a' has missing.*; 'b' holds text.*Encode.*leave"),
        (".parquet", {"a": np.zeros(0)}, "has columns but no rows"),
    ],
)
def test_columns_that_are_no_numbers(tmp_path, suffix, columns, message):
    path = written(tmp_path, suffix, columns)
    with pytest.raises(DataError, match=message) as caught:
        read_columns(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.txt", "a\n1\n", r"must end in \.csv or \.parquet"),
        ("table.csv", "", "is empty"),
        ("table.csv", "a,b\n", "has columns but no rows"),
        ("table.csv", "a,b\n1,2\n1,2,3\n", "cannot be read as CSV text: .*Expected 2 columns, got 3"),
        ("table.csv", b"PAR1\x15\x04", r"is a Parquet file, not CSV text. Name it \.parquet"),
        ("table.csv", "a\n1\n".encode("utf-16"), "is not CSV text: it holds binary data"),
        ("table.parquet", "a,b\n1,2\n", r"is not a Parquet file, .* If it is text, name it \.csv"),
        ("table.parquet", b"PAR1" + bytes(100), r"cannot be read as a Parquet file \(it may be damaged"),
    ],
)
def test_files_that_are_not_what_they_say(tmp_path, name, content, message):
    path = text(tmp_path, content, name)
    with pytest.raises(DataError, match=message):
        read_columns(path)


def test_no_such_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_columns(tmp_path / "table.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder; one CSV or Parquet file is needed"):
        read_columns(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("price,area\n1,2\n", r"has no column 'prize'. Did you mean 'price'\?"),
        ("a,b\n1,2\n", "has no column 'prize'. There are: a, b."),
        ("5,1.5,?\n1,2,3\n", "The first line looks like data: add a header line"),
        ("a;b\n1;2\n", "separated by semicolons: write it with commas"),
        ("a\tb\n1\t2\n", "separated by tabs: write it with commas"),
        ("prize,prize\n1,2\n", "has 2 columns named 'prize'"),
    ],
)
def test_names_of_columns(tmp_path, content, message):
    path = text(tmp_path, content)
    with pytest.raises(DataError, match=message):
        read_columns(path, ["prize"])


def test_near_names_or_the_first_ones():
    assert near("lable", ["label", "x"]) == "Did you mean 'label'?"
    assert near("q", [f"column{i}" for i in range(20)]).endswith("column11, ....")


def test_real_data(shared_data):
    columns = read_columns(shared_data / "ijcnn1.parquet", ["label", "f1"])
    assert len(columns["label"]) == 141_691
    assert round(columns["label"].mean(), 4) == 0.0957  # the README's share of ones
