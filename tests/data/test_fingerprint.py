"""Fingerprints of observations."""

import numpy as np
import pytest

from evidentia.data.batches import recut
from evidentia.data.fingerprint import Fingerprinted, as_text, sum_of_hashes
from evidentia.data.sources.memory import ArraySource

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
    ],
    ids=[
        "other order",
        "float64",
        "other layout",
        "columns swapped",
        "a row less",
        "a row twice",
        "a column sorted",
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
