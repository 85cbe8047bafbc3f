"""Chunks hold each row once, in order, and end where trajectories can be compared."""

from hypothesis import given
from hypothesis import strategies as st

from evidentia.evidence.population.chunks import next_stop


@given(st.integers(1, 20_000), st.integers(1, 3000), st.booleans())
def test_chunks_hold_each_row_once_in_order(total, size, is_rounded):
    stop = 0
    while stop < total:
        start, stop = stop, next_stop(stop, size, total, round_above=stop if is_rounded else None)
        assert 0 < stop - start <= size
    assert stop == total


def stops(total, size, *, is_rounded):
    found = [0]
    while found[-1] < total:
        start = found[-1]
        found.append(next_stop(start, size(start), total, round_above=start if is_rounded else None))
    return found[1:]


def test_chunks_stop_at_round_numbers():
    found = stops(100_000, lambda n: max(500, n), is_rounded=True)
    assert found == [100, 200, 500, 1000, 2000, 4000, 5000, 10_000, 20_000, 40_000, 50_000, 100_000]


def test_a_chunk_that_reaches_the_end_does_not_stop_before():
    found = stops(100_000, lambda n: max(500, 4 * n), is_rounded=True)
    assert found == [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 100_000]


def test_a_chunk_can_pass_round_numbers_that_were_tried():
    assert next_stop(1000, 24_000, 100_000, round_above=5000) == 10_000


def test_chunks_of_one_size_are_equal():
    assert stops(2300, lambda n: 500, is_rounded=False) == [500, 1000, 1500, 2000, 2300]
