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


@given(stream=streams.filter(lambda stream: any(stream)), size=st.integers(1, 10))
def test_the_row_of_a_line_without_end_stays_apart(stream, size):
    *before, last = [batch for batch in batches(stream) if batch.num_read]
    chunks = list(recut([*before, last._replace(may_grow=True)], size))
    assert [chunk.may_grow for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    parts = [part for chunk in chunks for part in chunk.whole_lines_first()]
    assert [part.may_grow for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].num_read == 1
    assert sum(part.num_read for part in parts) == sum(map(len, stream))
    kept = np.flatnonzero([keep for batch in stream for keep in batch])
    np.testing.assert_array_equal(np.concatenate([part.arrays["y"] for part in parts]), kept)
    positions = np.cumsum([0, *(part.num_read for part in parts)])
    for part, position in zip(parts, positions, strict=False):
        indices = np.arange(part.num_rows) if part.indices is None else part.indices
        np.testing.assert_array_equal(part.arrays["y"], position + indices)


@pytest.mark.parametrize("size", [0, 2.5])
def test_impossible_sizes(size):
    with pytest.raises(ConfigurationError, match=f"size must be an integer of at least 1; got {size}"):
        list(recut([], size))
