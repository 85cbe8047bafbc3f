"""Fingerprints of observations."""

import numpy as np
import pytest

from evidentia.data.batches import recut
from evidentia.data.fingerprint import BLOCK, Fingerprinted, as_text, check_same_data, sum_of_hashes
from evidentia.data.sources.memory import ArraySource
from evidentia.errors import DataError

ROWS = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float32)
KNOWN = sum_of_hashes(ROWS)


@pytest.mark.parametrize(
    ("rows", "is_equal"),
    [
        (ROWS[::-1], True),
        (ROWS.astype(np.float64), True),
        (np.asfortranarray(ROWS), True),
        (ROWS[:, ::-1], False),
        (ROWS[1:], False),
        (np.concatenate([ROWS, ROWS[:1]]), False),
        (np.concatenate([np.sort(ROWS[:, :1], axis=0), ROWS[:, 1:]], axis=1), False),
        (np.concatenate([ROWS, np.zeros((1000, 1))], axis=1), False),
        (ROWS * np.where(np.arange(3) < 2, -1, 1), False),
        (ROWS.reshape(1000, 3, 1), True),
    ],
    ids=[
        "other order",
        "float64",
        "other layout",
        "columns swapped",
        "a row less",
        "a row twice",
        "a column sorted",
        "a column of zeros more",
        "signs of two columns",
        "other shape of a row",
    ],
)
def test_equal_for_the_same_rows_alone(rows, is_equal):
    assert (as_text(sum_of_hashes(rows)) == as_text(KNOWN)) is is_equal


def test_zeros_of_either_sign_are_equal_and_a_last_digit_counts():
    zero, minus, least = np.zeros(1), -np.zeros(1), np.full(1, np.finfo(np.float32).tiny)
    assert sum_of_hashes(zero) == sum_of_hashes(minus) != sum_of_hashes(least)


def test_single_bits_change_many_bits():
    # A sum of hashes would hide a change if hashes of near values were near.
    values = np.arange(1, 5000, dtype=np.float32)
    assert len({sum_of_hashes(values[i : i + 1]) for i in range(len(values))}) == len(values)
    differences = [
        bin(sum_of_hashes(values[i : i + 1]) ^ sum_of_hashes(values[i + 1 : i + 2])).count("1")
        for i in range(1000)
    ]
    assert 30 < np.mean(differences) < 34  # half of 64 bits; standard error 0.13


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_source_is_known_once_read_in_batches_of_any_size(size):
    source = Fingerprinted(ArraySource({"y": ROWS}))
    for _ in range(2):
        assert sum(batch.num_rows for batch in recut(source.batches(), size)) == source.num_rows == 1000
        assert as_text(source.total) == as_text(KNOWN)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (5, 0), (3, BLOCK + 1)])
def test_arrays_of_any_shape_have_a_fingerprint(shape):
    assert 0 <= sum_of_hashes(np.ones(shape)) < 2**64


def test_parts_add_up_across_blocks():
    rows = np.random.default_rng(1).standard_normal((BLOCK // 3, 4)).astype(np.float32)
    assert sum_of_hashes(rows) == (sum_of_hashes(rows[:77]) + sum_of_hashes(rows[77:])) % 2**64


def test_models_of_the_same_data_share_an_array():
    first, second = {"x": "1", "y": "2"}, {"x": "3", "y": "2"}
    check_same_data({"a": first, "b": second, "unknown": {}})
    with pytest.raises(
        DataError, match=r"same data; the arrays of 'a' \(x, y\) and of 'c' \(y\) all have diff"
    ):
        check_same_data({"a": first, "b": second, "c": {"y": "3"}})
