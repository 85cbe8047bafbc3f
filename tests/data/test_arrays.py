"""Conversion to arrays: all supported containers, and errors for invalid data."""

import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from evidentia.data.arrays import as_arrays, on_device, shuffled
from evidentia.errors import DataError, EvidenceWarning


@pytest.mark.parametrize("container", [list, np.asarray, jnp.asarray, pd.Series, pl.Series, pa.array])
def test_every_container_of_numbers_is_read(container):
    array = as_arrays({"y": container([1.5, 2.5, 3.5])})["y"]
    np.testing.assert_array_equal(array, np.array([1.5, 2.5, 3.5], np.float32))
    assert array.dtype == np.float32


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_are_mappings_of_their_columns(table):
    arrays = as_arrays(table({"a": [1.0, 2.0], "b": [3, 4]}))
    np.testing.assert_array_equal(arrays["a"], [1.0, 2.0])
    assert arrays["b"].dtype == np.int32


def test_a_data_frame_inside_a_mapping_is_a_matrix():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [3, 4, 5]})
    assert as_arrays({"x": frame, "y": frame["a"]})["x"].shape == (3, 2)


def test_arrays_and_tuples_keep_their_structure():
    assert as_arrays(np.zeros((3, 2))).shape == (3, 2)
    first, second = as_arrays((np.zeros(3), np.ones((3, 2))))
    assert first.shape == (3,) and second.shape == (3, 2)


def test_booleans_become_integers():
    assert as_arrays(np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "data is empty"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(4)}, r"data\['x'\] has 3, data\['y'\] has 4"),
        ((np.zeros(3), np.zeros(4)), r"data\[0\] has 3, data\[1\] has 4"),
        ({"y": np.zeros(0)}, "at least one observation; got 0"),
        (
            {"y": [1.0, np.nan, np.inf]},
            r"data\['y'\] has NaN or infinite values in 2 of 3 rows \(the first is row 1\)",
        ),
        ({"y": [[1.0, 2.0], [3.0, np.nan]]}, r"NaN or infinite values in 1 of 2 rows \(the first is row 1\)"),
        ({"y": ["a", "b"]}, r"data\['y'\] must hold numbers; got dtype <U1\. Encode categories as integers"),
        ({"y": [1, "b"]}, r"data\['y'\] must hold numbers; got dtype <U21, with 'b' in row 1\. Encode"),
        ({"y": [["1", "2"], ["3", "high"]]}, r"must hold numbers; got dtype <U4, with 'high' in row 1\."),
        ({"y": np.array([0.5, "low", 2.0], object)}, r"str values, such as 'low', with 'low' in row 1\."),
        (
            {"y": np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")},
            "must hold numbers; got dtype datetime64",
        ),
        ({"y": np.array([1 + 2j, 2])}, "must hold numbers; got dtype complex128"),
        ({"y": [[1.0], [1.0, 2.0]]}, r"data\['y'\] cannot be read as an array of numbers"),
        ({"y": 3.0}, r"data\['y'\] must have observations on its leading axis; got the single number 3\.0"),
        ({"y": np.array([1, 2**40])}, "outside the range of int32: from 1 to 1099511627776"),
        ({"y": np.array([1.0, 1e300])}, "outside the range of float32"),
        (3.0, "data must have observations on its leading axis"),
    ],
)
def test_data_that_cannot_be_used_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        as_arrays(data)


def test_one_observation_is_singular():
    with pytest.raises(DataError, match=r"batch must have at least one observation; got 0\."):
        as_arrays(np.zeros(0), name="batch", min_rows=1)


@pytest.mark.parametrize(
    ("rows", "length"), [(2, 32), (33, 64), (4096, 4096), (4097, 4608), (5000, 5120), (1_000_000, 1_048_576)]
)
def test_arrays_on_the_device_have_round_numbers_of_rows(rows, length):
    """Few lengths compile few programs; padding repeats the last row, which is valid data."""
    array = on_device({"y": np.arange(rows, dtype=np.int32)})["y"]
    assert len(array) == length
    np.testing.assert_array_equal(np.asarray(array[:rows]), np.arange(rows))
    assert np.all(np.asarray(array[rows:]) == rows - 1)


@pytest.mark.parametrize("count", [1, 10, 65_536, 200_003])
def test_shuffled_rows_are_the_same_rows_together(count):
    x = np.arange(2 * count).reshape(count, 2)
    found = shuffled({"x": x, "y": np.arange(count)}, 3)
    assert np.array_equal(np.sort(found["y"]), np.arange(count))
    assert np.array_equal(found["x"], x[found["y"]])
    if count > 1:
        again, other = (shuffled({"y": np.arange(count)}, seed)["y"] for seed in (3, 4))
        assert np.array_equal(again, found["y"]) and not np.array_equal(other, found["y"])
        # The first tenth is spread over all rows.
        assert abs(found["y"][: count // 10 + 1].mean() / count - 0.5) < (0.5 if count < 100 else 0.02)


def test_rows_that_pandas_labels_differently_are_refused():
    table = pd.DataFrame({"x": np.arange(5.0), "y": np.arange(5.0)})
    shuffled_x = table["x"].sample(frac=1, random_state=0)
    message = (
        r"data\['x'\] and data\['y'\] label their rows differently: .* begin with \[2, 0, 1\] and \[0, 1, 2\]"
    )
    with pytest.raises(DataError, match=message):
        as_arrays({"x": shuffled_x, "y": table["y"]})
    with pytest.raises(DataError, match=r"data\[0\] and data\[1\] label their rows differently"):
        as_arrays((shuffled_x, table["y"]))
    paired = as_arrays({"x": shuffled_x, "y": table["y"].loc[shuffled_x.index]})
    np.testing.assert_array_equal(paired["x"], paired["y"])
    as_arrays({"x": shuffled_x.to_numpy(), "y": table["y"]})  # without labels, by position


def test_masked_values_are_refused():
    values = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(DataError, match=r"data\['y'\] has 1 masked values"):
        as_arrays({"y": values})
    np.testing.assert_array_equal(as_arrays(np.ma.masked_array([1.0, 2.0])), [1.0, 2.0])


def test_variation_that_float32_cannot_hold_is_refused():
    noise = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(DataError, match=r"data\['x'\], column 1, has values up to 1e\+09 that vary by only"):
        as_arrays({"x": noise + np.array([0.0, 1e9])})
    with pytest.raises(DataError, match="float32 has steps of 64 there. Subtract a constant first"):
        as_arrays((1e9 + 30 * noise[:, 0]).astype(np.float32))
    with pytest.warns(EvidenceWarning, match="float32 has steps of 0.0625 there"):
        as_arrays(1e6 + noise[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for harmless in (1e4 + noise, np.full(10, 1e9), np.zeros((0, 2)), np.full(3, np.nan), noise * 1e30):
            as_arrays(harmless, allow_nan=True, min_rows=0)


def test_lazy_tables_are_collected():
    lazy = pl.LazyFrame({"a": [1.0, 2.0], "b": [3, 4]})
    assert as_arrays(lazy)["b"].tolist() == [3, 4]
    assert as_arrays({"x": lazy, "y": [1, 2]})["x"].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert as_arrays((lazy, [1, 2]))[0].shape == (2, 2)
    with pytest.raises(DataError, match="data is a lazy table that cannot be collected: ColumnNotFoundError"):
        as_arrays(lazy.select("c"))
    with pytest.raises(DataError, match=r"data\['x'\] is a lazy table that cannot be collected"):
        as_arrays({"x": pl.scan_csv("gone.csv")})
