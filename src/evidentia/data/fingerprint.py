"""A fingerprint of observations: equal for the same rows in any order, in batches of any size."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from evidentia.data.batches import Batch
from evidentia.data.source import Source

MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
INCREMENT = np.uint64(0x9E3779B97F4A7C15)


def sum_of_hashes(observations: Float[np.ndarray, "rows ..."]) -> int:
    """The sum of the rows' hashes, modulo 2⁶⁴.

    Sums of parts add up to that of the whole, so it can be found while reading, and after a
    resumption. Values are compared in float32, in which they are used. The hash is SplitMix64
    (Steele, Lea, Flood 2014), chained over the columns: it detects other data, not forgery.

    Example:
        >>> rows = np.array([3.0, 1.0, 2.0], np.float32)
        >>> sum_of_hashes(rows) == sum_of_hashes(rows[::-1]) != sum_of_hashes(rows[:2])
        True
    """
    values = np.asarray(observations, np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    columns = values.reshape(len(values), -1).view(np.uint32).T.astype(np.uint64)
    hashes = np.zeros(len(values), np.uint64)
    for column in columns:
        hashes = _mixed(hashes ^ column)
    return int(hashes.sum(dtype=np.uint64))


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
