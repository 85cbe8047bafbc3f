"""Chunks hold every kept row once, with its position, for any batches and dropped rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidentia.data.batches import Batch, joined, recut
from evidentia.data.sources.memory import without_missing
from evidentia.errors import ConfigurationError

# For each batch of a stream, a mask of the rows to keep; batches may be empty.
streams = st.lists(st.lists(st.booleans(), max_size=12), max_size=8)


def batches(stream):
    """Batches whose rows hold their positions 0, 1, 2, …, or NaN for dropped rows."""
    first = 0
    for kept in stream:
        values = np.where(kept, np.arange(first, first + len(kept)), np.nan).astype(np.float32)
        yield without_missing({"x": np.stack([values, values], 1), "y": values})
        first += len(kept)


@given(stream=streams, size=st.integers(1, 10))
def test_chunks_hold_every_row_once_and_know_where_they_end(stream, size):
    kept = np.flatnonzero([keep for batch in stream for keep in batch])
    chunks = list(recut(batches(stream), size))
    rows = np.concatenate([chunk.arrays["y"] for chunk in chunks]) if chunks else np.array([])
    np.testing.assert_array_equal(rows, kept)
    assert all(chunk.num_rows == size for chunk in chunks[: len(kept) // size])
    assert sum(chunk.num_read for chunk in chunks) == sum(map(len, stream))
    position = 0
    for chunk in chunks:
        np.testing.assert_array_equal(chunk.arrays["x"][:, 0], chunk.arrays["y"])
        indices = np.arange(chunk.num_rows) if chunk.indices is None else chunk.indices
        np.testing.assert_array_equal(chunk.arrays["y"], position + indices)
        assert len(chunk.arrays["y"]) == chunk.num_rows
        position += chunk.num_read


@given(stream=streams, size=st.integers(1, 10), other=st.integers(1, 10))
def test_chunks_do_not_depend_on_how_they_were_cut_before(stream, size, other):
    whole = [chunk.arrays["y"] for chunk in recut(batches(stream), size)]
    again = [chunk.arrays["y"] for chunk in recut(recut(batches(stream), other), size)]
    for one, two in zip([rows for rows in whole if len(rows)], again, strict=False):
        np.testing.assert_array_equal(one, two)


def test_a_chunk_is_given_out_as_soon_as_its_last_row_is_there():
    def endless():
        yield Batch(np.arange(3), 3)
        yield Batch(np.arange(3, 4), 1)
        raise AssertionError("the chunk was there")

    chunks = recut(endless(), 2)
    assert [next(chunks).arrays.tolist() for _ in range(2)] == [[0, 1], [2, 3]]


def test_what_lies_in_one_batch_is_not_copied():
    rows = np.arange(10)
    first, second = recut([Batch(rows, 10)], 5)
    assert np.shares_memory(first.arrays, rows) and np.shares_memory(second.arrays, rows)
    (whole,) = recut([Batch(rows, 10)], 10)
    assert whole.arrays is rows


def test_dropped_rows_at_the_end_are_counted():
    chunks = list(recut([without_missing(np.array([1.0, np.nan])), without_missing(np.array([np.nan]))], 1))
    assert [(chunk.num_rows, chunk.num_dropped) for chunk in chunks] == [(1, 1), (0, 1)]
    assert joined(chunks).num_dropped == 2


@pytest.mark.parametrize("size", [0, 2.5])
def test_impossible_sizes(size):
    with pytest.raises(ConfigurationError, match=f"size must be an integer of at least 1; got {size}"):
        list(recut([], size))
