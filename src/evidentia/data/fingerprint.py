"""A fingerprint of observations: equal for the same rows in any order, in batches of any size."""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Real

from evidentia.data.batches import Batch
from evidentia.data.source import Source
from evidentia.errors import DataError

MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
INCREMENT = np.uint64(0x9E3779B97F4A7C15)
BLOCK = 131_072  # values hashed at once: 1 MiB of 64 bits, which the caches hold


def sum_of_hashes(observations: Real[np.ndarray, "rows ..."]) -> int:
    """The sum of the rows' hashes, modulo 2⁶⁴.

    Sums of parts add up to that of the whole, so it can be found while reading, and after a
    resumption. Values are compared in float32, in which they are used. The hash of a row with the
    bits s₁, …, s_k is mix(m_{k+1} + Σⱼ mⱼ sⱼ): multilinear (Lemire, Kaser 2014, The Computer
    Journal 57(11), section 3), then mixed by SplitMix64 (Steele, Lea, Flood 2014), which also
    makes the odd multipliers mⱼ. It detects other data, not forgery.

    Example:
        >>> rows = np.array([3.0, 1.0, 2.0], np.float32)
        >>> sum_of_hashes(rows) == sum_of_hashes(rows[::-1]) != sum_of_hashes(rows[:2])
        True
    """
    values = np.asarray(observations)
    num_columns = math.prod(values.shape[1:])
    values = values.reshape(len(values), num_columns)
    *multipliers, start = _mixed(np.arange(1, num_columns + 2, dtype=np.uint64) * INCREMENT) | np.uint64(1)
    multipliers, size, total = np.array(multipliers, np.uint64), max(1, BLOCK // max(1, num_columns)), 0
    for first in range(0, len(values), size):
        block = values[first : first + size].astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
        bits = block.view(np.uint32).astype(np.uint64)
        hashes = _mixed(np.einsum("ij,j->i", bits, multipliers) + start)
        total += int(hashes.sum(dtype=np.uint64))
    return total % 2**64


def sums_by_name(arrays: Any) -> dict[str, int]:
    """The sum of hashes of each array of checked data, by its name in them.

    Example:
        >>> list(sums_by_name({"x": np.zeros((2, 3)), "y": np.ones(2)}))
        ['x', 'y']
        >>> list(sums_by_name((np.zeros(2), np.ones(2))))
        ['data[0]', 'data[1]']
    """
    if isinstance(arrays, Mapping):
        return {key: sum_of_hashes(array) for key, array in arrays.items()}
    if isinstance(arrays, tuple):
        return {f"data[{place}]": sum_of_hashes(array) for place, array in enumerate(arrays)}
    return {"data": sum_of_hashes(arrays)}


def fingerprints(sums: Mapping[str, int]) -> dict[str, str]:
    """Sums of hashes as the texts that `Evidence.fingerprints` holds."""
    return {name: as_text(total) for name, total in sums.items()}


def check_same_data(known: Mapping[str, Mapping[str, str]]) -> None:
    """Check the fingerprints of models, by name: any two share an array, or one has none.

    Models of the same rows may use other features, so one common array is enough.

    Raises:
        DataError: two models were given other data.
    """
    for (name, first), (other, second) in combinations(known.items(), 2):
        if first and second and not {*first.values()} & {*second.values()}:
            raise DataError(
                f"the models must be given the same data; the arrays of {name!r} ({', '.join(first)}) and of {other!r} "
                f"({', '.join(second)}) all have different rows. Estimate all models on the same rows."
            )


def as_text(total: int) -> str:
    """A sum of hashes as sixteen hexadecimal digits."""
    return f"{total % 2**64:016x}"


def _mixed(state: np.ndarray) -> np.ndarray:
    state = state + INCREMENT
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        state = (state ^ (state >> shift)) * multiplier
    return state ^ (state >> SHIFTS[-1])


class Fingerprinted:
    """A source that finds the fingerprint of its observations `y` while it is read.

    Attributes:
        total: sum of the hashes of the rows read.
    """

    def __init__(self, source: Source):
        self._source = source
        self.total = 0

    @property
    def num_rows(self) -> int | None:
        """Number of rows of the source."""
        return self._source.num_rows

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of the source; like `Source`."""
        self.total = 0
        for batch in self._source.batches(skip):
            self.total += sum_of_hashes(batch.arrays["y"])
            yield batch
