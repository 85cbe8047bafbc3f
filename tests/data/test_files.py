"""Checks of files and their columns, with one clear message for each mistake."""

import datetime
import gzip

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from evidentia.data.files import near
from evidentia.data.sources import open_source
from evidentia.errors import DataError


def written(folder, suffix, columns):
    path = folder / f"table{suffix}"
    table = pa.table(columns)
    pa.parquet.write_table(table, path) if suffix == ".parquet" else pa.csv.write_csv(table, path)
    return path


def text(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("suffix", "columns", "message"),
    [
        (".csv", {"a": ["1", "?", "2"]}, r"'a' holds text, for example '\?'"),
        (".parquet", {"a": ["1", "2"]}, "'a' holds text"),
        (".parquet", {"a": pa.array(["u", "v"]).dictionary_encode()}, "'a' holds text"),
        (".parquet", {"a": [datetime.date(2020, 1, 1)]}, "'a' holds values of type date32.*, not numbers"),
        (
            ".csv",
            {"a": ["1", "?"], "b": [1, 2], "c": ["x", "y"]},
            "'a' holds text.*; 'c' holds.*Encode.*leave",
        ),
    ],
)
def test_columns_that_are_no_numbers(tmp_path, suffix, columns, message):
    path = written(tmp_path, suffix, columns)
    with pytest.raises(DataError, match=message) as caught:
        open_source(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.doc", "a\n1\n", r"must end in \.parquet"),
        ("table.csv", "", "is empty"),
        ("table.csv", "a,b\n1,2\n1,2,3\n", "cannot be read as CSV text: .*Expected 2 columns, got 3"),
        ("table.csv", b"PAR1\x15\x04", r"is a Parquet file, not CSV text. Name it \.parquet"),
        ("table.csv", "a\n1\n".encode("utf-16"), "is not CSV text: it holds binary data"),
        (
            "table.csv",
            "a;b\n1,5;2,5\n",
            r"is separated by semicolons: pass sep=';' \(--sep ';'\)",
        ),
        (
            "table.csv",
            "\n\ufeffa\tb\r\n\r\n1\t2\r\n",
            r"is separated by tabs: pass sep='tab' \(--sep 'tab'\)",
        ),
        ("table.csv", "a|b\n1|2\n", "is separated by vertical bars"),
        ("table.csv", gzip.compress(b"a\n1\n", mtime=0), r"is compressed \(gzip\)\. Let its name say so"),
        ("table.csv", b"\x28\xb5\x2f\xfd\x20", r"is compressed \(zstd\)"),
        ("table.parquet", "a,b\n1,2\n", r"is not a Parquet file, .* If it is text, name it \.csv"),
        ("table.parquet", b"PAR1" + bytes(100), r"cannot be read as a Parquet file \(it may be damaged"),
    ],
)
def test_files_that_are_not_what_they_say(tmp_path, name, content, message):
    path = text(tmp_path, content, name)
    with pytest.raises(DataError, match=message):
        open_source(path)


def test_no_such_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        open_source(tmp_path / "table.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder without .parquet files"):
        open_source(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("price,area\n1,2\n", r"has no column 'prize'. Did you mean 'price'\?"),
        ("a,b\n1,2\n", "has no column 'prize'. Available: a, b."),
        ("5,1.5,?\n1,2,3\n", "The first line looks like data: add a header line"),
        ("a;b\n1;2\n", r"separated by semicolons: pass sep=';' \(--sep ';'\)"),
        ("a\tb\n1\t2\n", r"separated by tabs: pass sep='tab' \(--sep 'tab'\)"),
        ("prize,prize\n1,2\n", "has 2 columns named 'prize'"),
    ],
)
def test_names_of_columns(tmp_path, content, message):
    path = text(tmp_path, content)
    with pytest.raises(DataError, match=message):
        open_source(path, ["prize"])


def test_near_names_or_the_first_ones():
    assert near("lable", ["label", "x"]) == "Did you mean 'label'?"
    assert near("q", [f"column{i}" for i in range(20)]).endswith("column11, ....")
