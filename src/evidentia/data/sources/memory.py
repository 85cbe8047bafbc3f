"""Observations in memory, and batches from any Python iterable."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from evidentia.data.arrays import as_arrays, check_alike, map_arrays, num_rows
from evidentia.data.batches import Batch
from evidentia.data.digits import Digits
from evidentia.data.source import Missing, check_missing, too_short
from evidentia.errors import DataError, check_count


@dataclass(frozen=True)
class ArraySource:
    """Arrays in memory as a source: a single batch of views.

    Args:
        data: one array, a tuple, or a mapping of arrays, as for `ev.estimate`.
        missing: "error", or "drop" to drop and count rows with NaN.

    Raises:
        DataError: invalid arrays.

    Example:
        >>> next(ArraySource({"y": [1.0, 2.0, 3.0]}).batches(skip=1))
        Batch(arrays={'y': array([2., 3.], dtype=float32)}, num_read=2, indices=None)
    """

    data: Any = field(repr=False)
    missing: Missing = "error"

    def __post_init__(self) -> None:
        check_missing(self.missing)
        arrays = as_arrays(self.data, min_rows=0, allow_nan=self.missing == "drop")
        object.__setattr__(self, "data", arrays)

    @property
    def num_rows(self) -> int:
        """Number of rows in memory."""
        return num_rows(self.data)

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield all rows after the first `skip` in one batch. Raises like `Source`."""
        check_count("skip", skip, 0)
        if skip > self.num_rows:
            raise too_short(skip, self.num_rows)
        if skip < self.num_rows:
            yield without_missing(map_arrays(lambda leaf: leaf[skip:], self.data))


@dataclass(frozen=True)
class IterableSource:
    """Any Python iterable of batches as a source: a generator, a list, a data loader.

    A batch is an array, a tuple, a mapping or a table with any number of rows, as for
    `ev.estimate`. All must have the structure, shapes and dtypes of the first; empty batches are
    skipped. Rows are copied before the next batch is requested, so the iterable may reuse its
    arrays.

    Args:
        iterable: the batches. A list, or any other re-iterable object, can be read again; a
            generator cannot.
        missing: "error", or "drop" to drop and count rows with NaN.

    Raises:
        DataError: an invalid batch, or one that differs from the first; it is named `batches[i]`,
            counted from 0.

    Example:
        >>> source = IterableSource({"y": [float(i)]} for i in range(3))
        >>> sum(batch.num_rows for batch in source.batches(skip=1))
        2
    """

    iterable: Iterable[Any]
    missing: Missing = "error"
    _begun: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_missing(self.missing)

    @property
    def num_rows(self) -> None:
        """Not known before the end."""
        return None

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches after the first `skip` rows, cutting one if needed.

        Raises like `Source`.
        """
        check_count("skip", skip, 0)
        iterator = iter(self.iterable)
        if iterator is self.iterable:
            check_unread(self._begun, "this iterator of batches")
        template, passed, digits = None, 0, Digits()
        for index, given in enumerate(iterator):
            name = f"batches[{index}]"
            arrays = as_arrays(given, name=name, min_rows=0, allow_nan=self.missing == "drop", digits=digits)
            if not (size := num_rows(arrays)):
                continue
            if template is None:
                # Copied: a view would keep all rows in memory.
                template = map_arrays(lambda leaf: leaf[:0].copy(), arrays)
            check_alike(arrays, template, name)
            left = min(skip - passed, size)
            passed += left
            if left < size:
                # Copied: the caller may still hold this batch when its arrays are overwritten.
                yield without_missing(map_arrays(lambda leaf, left=left: leaf[left:].copy(), arrays))
        if passed < skip:
            raise too_short(skip, passed)


def check_unread(begun: threading.Event, what: str) -> None:
    """Mark a read-once source as begun. Raises DataError the second time."""
    if begun.is_set():
        raise DataError(
            f"{what} has been read before and can be read only once: rows would be missing. Create a new source, or use "
            "one that can be read again, such as a list or a file."
        )
    begun.set()


def without_missing(arrays: Any) -> Batch:
    """Return a batch of the rows without NaN."""
    rows = num_rows(arrays)
    missing = np.zeros(rows, bool)
    for leaf in jax.tree.leaves(arrays):
        if leaf.dtype.kind == "f":
            missing |= np.isnan(leaf).any(axis=tuple(range(1, leaf.ndim)))
    if not missing.any():
        return Batch(arrays, rows)
    indices = np.flatnonzero(~missing)
    return Batch(map_arrays(lambda leaf: leaf[indices], arrays), rows, indices)
