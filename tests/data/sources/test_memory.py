"""Arrays and iterables as sources: rows in order, from any position; mismatches are errors."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.data.batches import recut
from evidentia.data.sources import ArraySource, IterableSource, Source
from evidentia.errors import ConfigurationError, DataError


def rows(source, skip=0):
    return np.concatenate([batch.arrays["y"] for batch in source.batches(skip)] or [np.array([])])


@given(cuts=st.lists(st.integers(0, 5), max_size=6), data=st.data())
def test_a_reading_that_goes_on_gives_the_rows_that_were_left(cuts, data):
    ends = np.cumsum([0, *cuts])
    given_batches = [{"y": np.arange(a, b, dtype=float)} for a, b in pairwise(ends)]
    skip = data.draw(st.integers(0, int(ends[-1])))
    np.testing.assert_array_equal(rows(IterableSource(given_batches), skip), np.arange(skip, ends[-1]))
    source = ArraySource({"y": np.arange(ends[-1], dtype=float)})
    np.testing.assert_array_equal(rows(source, skip), np.arange(skip, ends[-1]))
    assert source.num_rows == ends[-1]


def test_rows_with_missing_values_are_dropped_and_counted_and_positions_count_them():
    values = np.array([0.0, np.nan, 2.0, 3.0, np.nan, 5.0])
    for source in (ArraySource({"y": values}, "drop"), IterableSource([{"y": values}], "drop")):
        chunks = list(recut(source.batches(), 2))
        assert [chunk.arrays["y"].tolist() for chunk in chunks] == [[0, 2], [3, 5]]
        assert sum(chunk.num_dropped for chunk in chunks) == 2
        assert rows(source, skip=chunks[0].num_read).tolist() == [3, 5]


def test_a_generator_may_fill_the_same_arrays_again():
    """The arrays already have the dtypes of batches, so conversion does not copy them."""
    buffer = {"x": np.empty((3, 2), np.float32), "y": np.empty(3, np.int32)}

    def refilled():
        for number in range(4):
            buffer["x"][:] = number
            buffer["y"][:] = number
            yield buffer

    chunks = list(recut(IterableSource(refilled()).batches(skip=1), 5))
    assert [chunk.arrays["y"].tolist() for chunk in chunks] == [[0, 0, 1, 1, 1], [2, 2, 2, 3, 3], [3]]
    assert [chunk.arrays["x"][:, 1].tolist() for chunk in chunks] == [[0, 0, 1, 1, 1], [2, 2, 2, 3, 3], [3]]


def test_batches_of_one_row_and_of_none():
    source = IterableSource({"y": np.array(values)} for values in ([1.0], [], [2.0]))
    assert [batch.num_rows for batch in source.batches()] == [1, 1]


def test_dtypes_are_those_of_data():
    (batch,) = ArraySource((np.zeros((3, 2)), np.arange(3))).batches()
    assert [leaf.dtype for leaf in batch.arrays] == [np.float32, np.int32]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"y": [1, 2]},
            r"batches\[1\] holds {'y': int32 \(n,\)}; the first batch held {'y': float32 \(n,\)}",
        ),
        ({"z": [1.0]}, r"batches\[1\] holds {'z': float32"),
        ({"y": [[1.0, 2.0]]}, r"holds {'y': float32 \(n, 2\)}"),
        ([1.0, 2.0], r"holds float32 \(n,\); .* Give every batch the same names"),
        ({"y": [1.0, np.nan]}, r"batches\[1\]\['y'\] has NaN or infinite values in 1 of 2 rows"),
        ({"y": ["a"]}, r"batches\[1\]\['y'\] must hold numbers"),
        ({}, r"batches\[1\] is empty"),
    ],
)
def test_a_batch_that_does_not_fit_is_named_and_those_before_it_stand(second, message):
    source = IterableSource([{"y": np.array([1.0])}, second]).batches()
    assert next(source).arrays["y"].tolist() == [1.0]
    with pytest.raises(DataError, match=message):
        next(source)


def test_infinite_values_are_no_missing_ones():
    with pytest.raises(DataError, match=r"data\['y'\] has infinite values in 1 of 2 rows"):
        ArraySource({"y": [np.inf, np.nan]}, "drop")


def test_the_error_of_a_generator_is_its_own():
    def generator():
        yield {"y": [1.0]}
        raise OSError("the sensor is gone")

    batches = IterableSource(generator()).batches()
    next(batches)
    with pytest.raises(OSError, match="the sensor is gone"):
        next(batches)


def test_what_can_be_read_once_is_not_read_twice():
    source = IterableSource({"y": [float(i)]} for i in range(3))
    next(source.batches())
    with pytest.raises(DataError, match="has been read before and can be read only once"):
        next(source.batches())
    again = IterableSource([{"y": [1.0]}])
    assert rows(again).tolist() == rows(again).tolist() == [1.0]


@pytest.mark.parametrize("source", [ArraySource({"y": [1.0, 2.0]}), IterableSource([{"y": [1.0, 2.0]}])])
def test_positions(source):
    assert rows(source, skip=2).size == 0
    with pytest.raises(DataError, match="the data end after 2 rows, but the first 3 were to be skipped"):
        rows(source, skip=3)
    with pytest.raises(ConfigurationError, match="skip must be an integer of at least 0; got -1"):
        rows(source, skip=-1)


@pytest.mark.parametrize("make", [ArraySource, IterableSource])
def test_a_setting_that_is_none(make):
    assert isinstance(make([1.0]), Source)
    with pytest.raises(ConfigurationError, match="missing must be 'error' or 'drop'; got 'ignore'"):
        make([1.0], missing="ignore")
