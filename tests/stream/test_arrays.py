"""Arrays: every container that users have, every mistake they make, and the cutting into chunks."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.errors import DataError
from evidentia.stream.arrays import as_arrays, next_chunk


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
        ({"y": np.zeros(0)}, "at least two observations; got 0"),
        ({"y": np.zeros(1)}, "at least two observations; got 1"),
        (
            {"y": [1.0, np.nan, np.inf]},
            r"data\['y'\] has NaN or infinite values in 2 of 3 rows \(the first is row 1\)",
        ),
        ({"y": [[1.0, 2.0], [3.0, np.nan]]}, r"NaN or infinite values in 1 of 2 rows \(the first is row 1\)"),
        ({"y": ["a", "b"]}, r"data\['y'\] must hold numbers; got dtype <U1\. Encode categories as integers"),
        ({"y": [1, "b"]}, r"data\['y'\] must hold numbers"),
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


@given(st.integers(1, 20_000), st.integers(1, 3000), st.booleans())
def test_chunks_hold_each_row_once_in_order(total, size, is_rounded):
    arrays, stop = np.zeros(total, np.float32), 0
    while stop < total:
        past, chunk = next_chunk(arrays, stop, size, round_above=stop if is_rounded else None)
        assert (past.start, past.stop, chunk.start) == (0, stop, stop)
        assert 0 < chunk.size <= size
        stop = chunk.stop
    assert stop == total


def stops(arrays, size, *, is_rounded):
    found = [0]
    while found[-1] < len(arrays):
        start = found[-1]
        found.append(
            next_chunk(arrays, start, size(start), round_above=start if is_rounded else None)[1].stop
        )
    return found[1:]


def test_chunks_stop_at_round_numbers():
    found = stops(np.zeros(100_000), lambda n: max(500, n), is_rounded=True)
    assert found == [500, 1000, 2000, 4000, 5000, 10_000, 20_000, 40_000, 50_000, 100_000]


def test_a_chunk_that_reaches_the_end_does_not_stop_before():
    found = stops(np.zeros(100_000), lambda n: max(500, 4 * n), is_rounded=True)
    assert found == [500, 1000, 2000, 5000, 10_000, 20_000, 100_000]


def test_a_chunk_can_pass_round_numbers_that_were_tried():
    past, chunk = next_chunk(np.zeros(100_000), 1000, 24_000, round_above=5000)
    assert (past.stop, chunk.start, chunk.stop) == (1000, 1000, 10_000)


def test_chunks_of_one_size_are_equal():
    assert stops(np.zeros(2300), lambda n: 500, is_rounded=False) == [500, 1000, 1500, 2000, 2300]
