"""Conversion of a file to the data of a model: exact values, float32, random order."""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.cli.table import read_table
from evidentia.data.form import Form
from evidentia.data.sources import open_source
from evidentia.errors import ConfigurationError, DataError


def written(folder, suffix, columns):
    path = folder / f"table{suffix}"
    table = pa.table(columns)
    pa.parquet.write_table(table, path) if suffix == ".parquet" else pa.csv.write_csv(table, path)
    return str(path)


def read(path, target=None, features=None, **options):
    return read_table(path, target, features, "error", **options)


reals = st.lists(st.floats(-3e38, 3e38), min_size=1, max_size=20)
integers = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@given(values=st.one_of(reals, integers))
def test_a_target_comes_back_as_written(tmp_path_factory, suffix, values):
    columns = {"x": np.zeros(len(values)), "y": values}
    table = read(written(tmp_path_factory.mktemp("files"), suffix, columns), "y")
    assert isinstance(table.data, dict)
    np.testing.assert_array_equal(table.data["y"], np.array(values))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_in_the_order_asked_for(tmp_path, suffix):
    path = written(tmp_path, suffix, {"a": [1, 2], "b": [0.5, 1.5], "c": [True, False], "words": ["x", "y"]})
    table = read(path, "a", ["c", "b"])
    assert table.features == ["c", "b"] and table.data["y"].dtype.kind == "i"
    np.testing.assert_array_equal(table.data["x"], np.array([[1, 0.5], [0, 1.5]], np.float32))


def test_a_column_that_starts_with_integers_may_go_on_with_fractions(tmp_path):
    """Types guessed from the first megabytes must not restrict the rest of a table."""
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,\n" * 10 + "1,2\n" * 1_200_000 + "0.5,2\n")
    assert read(str(path), features=["a"]).data["y"][-1, 0] == 0.5
    with pytest.raises(DataError, match=r"missing values in 10 of .* \(the first is data row 1\), in 'b'"):
        read(str(path))


def test_text_far_below_the_first_rows_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,2\n" * 1_200_000 + "1,oops\n")
    with pytest.raises(DataError, match="column 'b' holds 'oops' in data row 1,200,001"):
        read(str(path))


@pytest.mark.parametrize(
    ("suffix", "columns", "message"),
    [
        (".csv", {"a": [1.0, -np.inf]}, r"infinite values of 'a' in 1 rows \(the first is data row 2\)"),
        (".parquet", {"a": [1.0, None], "b": ["x", "y"], "c": ["x", None]}, "'b' holds text; 'c' holds text"),
    ],
)
def test_columns_that_are_no_numbers(tmp_path, suffix, columns, message):
    path = written(tmp_path, suffix, columns)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert path in str(caught.value)


def test_categories_and_decimals_of_numbers_are_numbers(tmp_path):
    columns = {
        "category": pa.array([3, 4]).dictionary_encode(),
        "price": [decimal.Decimal("1.5"), decimal.Decimal(2)],
    }
    table = read(written(tmp_path, ".parquet", columns))
    assert table.data["y"].tolist() == [[3, 1.5], [4, 2]]


def test_standardising_loses_no_digits(tmp_path):
    """Seconds since 1970 have no fraction in float32."""
    seconds = 1.7e9 + np.arange(5)
    table = read(written(tmp_path, ".parquet", {"t": seconds, "same": np.ones(5)}), standardise=True)
    np.testing.assert_allclose(table.data["y"][:, 0], (np.arange(5) - 2) / np.sqrt(2), rtol=1e-6)
    assert table.standardisation.constant == ["same"]
    assert table.standardisation.scales["t"] == pytest.approx(np.sqrt(2))


def test_a_table_without_rows(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="has columns but no rows"):
        read(str(tmp_path / "table.csv"))


def test_real_data(shared_data):
    table = read(str(shared_data / "ijcnn1.parquet"), "label", ["f1"])
    assert len(table.data["y"]) == 141_691
    assert round(table.data["y"].mean(), 4) == 0.0957  # fraction of ones in the README


def test_columns_with_the_same_name_are_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y,b\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"table\.csv has 2 columns named 'b'; give each its own name"):
        read_table(str(path), "y", None, "error")
    assert read_table(str(path), "y", ["a"], "error").features == ["a"]


def test_a_table_in_another_encoding(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("größe,y\n1,2\n".encode("latin-1"))
    assert read_table(str(path), "y", None, "error", form=Form(encoding="latin-1")).features == ["größe"]
    path.rename(tmp_path / "table.parquet")
    for file in ("-", str(tmp_path / "table.parquet")):
        with pytest.raises(ConfigurationError, match=r"encoding='latin-1' \(--encoding\) is for CSV files"):
            open_source(file, form=Form(encoding="latin-1"))


def test_digits_that_float32_cannot_hold_are_refused_unless_standardised(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("t,y\n" + "".join(f"{10**9 + 20 + row % 7},{row}\n" for row in range(50)))
    with pytest.raises(DataError, match="column 't' has values up to 1e.09 that vary by only 6; float32 has"):
        read_table(str(path), "y", None, "error")
    x = read_table(str(path), "y", None, "error", standardise=True).data["x"]
    assert len(np.unique(x)) == 7
