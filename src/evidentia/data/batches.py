"""Batches of a stream: rows with their positions in the source, and cutting to other sizes."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from evidentia.data.arrays import map_arrays, num_rows
from evidentia.errors import DataError, HalfLineError, UnfinishedError, check_count


class Batch(NamedTuple):
    """Consecutive rows of a source, without the dropped ones.

    Positions in a source count all rows read, including dropped ones. After the batches b₁ to b_k,
    `source.batches(skip=b₁.num_read + … + b_k.num_read)` continues without losing or repeating a
    row.

    Attributes:
        arrays: NumPy arrays, float32 or int32, in the structure of the source; may have no rows.
        num_read: number of rows read for this batch, including dropped ones.
        indices: positions of the rows of `arrays` among the rows read, ascending; None if all.
        may_grow: whether the last row read is a line of a file that has no line end (yet).
    """

    arrays: Any
    num_read: int
    indices: Int[np.ndarray, " rows"] | None = None
    may_grow: bool = False

    @property
    def num_rows(self) -> int:
        """Number of rows of `arrays`."""
        return self.num_read if self.indices is None else len(self.indices)

    @property
    def num_dropped(self) -> int:
        """Number of rows dropped because of missing values."""
        return self.num_read - self.num_rows

    def part(self, start: int, stop: int) -> "Batch":
        """Return views of the rows `start <= row < stop` of `arrays`.

        Each row also counts the dropped rows after it, and the first row those before it, so that
        `num_read` of adjacent parts adds up to that of the whole.
        """
        arrays = map_arrays(lambda leaf: leaf[start:stop], self.arrays)
        may_grow = self.may_grow and stop >= self.num_rows
        if self.indices is None:
            return Batch(arrays, stop - start, None, may_grow)
        first = int(self.indices[start]) if start else 0
        last = int(self.indices[stop]) if stop < len(self.indices) else self.num_read
        return Batch(arrays, last - first, self.indices[start:stop] - first, may_grow)

    def whole_lines_first(self) -> "list[Batch]":
        """Return the rows of whole lines, and apart from them the row of a line that may grow."""
        if not self.may_grow:
            return [self]
        is_kept = self.indices is None or self.num_read - 1 in self.indices[-1:]
        before = self.num_rows - is_kept
        whole = map_arrays(lambda leaf: leaf[:before], self.arrays)
        line = map_arrays(lambda leaf: leaf[before:], self.arrays)
        indices = None if self.indices is None else self.indices[:before]
        parts = [Batch(whole, self.num_read - 1, indices)] if self.num_read > 1 else []
        return [*parts, Batch(line, 1, None if is_kept else np.zeros(0, int), may_grow=True)]


def recut(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """Cut batches into chunks of a given size, in order, without losing or repeating rows.

    Each chunk is yielded as soon as its last row arrives. Rows are copied only if a chunk spans
    several batches.

    Args:
        batches: batches of any size, including empty ones.
        size: rows per chunk.

    Returns:
        Chunks of `size` rows; the last may have fewer, or none if it only counts dropped rows.

    Raises:
        ConfigurationError: a size that is not a positive integer.
        UnfinishedError, HalfLineError: as raised by `batches`, after the rows that came before.

    Example:
        >>> batches = [Batch(np.arange(3), 3), Batch(np.arange(3, 5), 2)]
        >>> list(chunk.num_rows for chunk in recut(batches, 2))
        [2, 2, 1]
    """
    check_count("size", size, 1)
    pieces: deque[Batch] = deque()
    held = 0
    unfinished = None
    try:
        for batch in batches:
            taken = 0
            while held + batch.num_rows - taken >= size:
                stop = taken + size - held
                pieces.append(batch.part(taken, stop) if stop - taken < batch.num_rows else batch)
                yield joined(pieces)
                pieces.clear()
                taken, held = stop, 0
            if taken < batch.num_rows or (taken == 0 and batch.num_read):
                pieces.append(batch.part(taken, batch.num_rows) if taken else batch)
                held += batch.num_rows - taken
    except (UnfinishedError, HalfLineError) as error:  # the rows before it are valid
        unfinished = error
    if pieces:
        yield joined(pieces)
    if unfinished is not None:
        raise unfinished


def joined(pieces: Sequence[Batch] | deque[Batch]) -> Batch:
    """Join consecutive batches into one; a single batch is returned unchanged."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = map_arrays(lambda *leaves: np.concatenate(leaves), *(piece.arrays for piece in pieces))
    num_read = sum(piece.num_read for piece in pieces)
    may_grow = pieces[-1].may_grow
    if num_read == num_rows(arrays):
        return Batch(arrays, num_read, None, may_grow)
    before = np.cumsum([0, *(piece.num_read for piece in pieces)])
    indices = [
        offset + (np.arange(piece.num_rows) if piece.indices is None else piece.indices)
        for offset, piece in zip(before, pieces, strict=False)
    ]
    return Batch(arrays, num_read, np.concatenate(indices), may_grow)


def all_rows(batches: Iterable[Batch]) -> Any:
    """The rows of all batches, in memory.

    Raises:
        DataError: there are none.
    """
    pieces = [batch.arrays for batch in batches if batch.num_rows]
    if not pieces:
        raise DataError("data must have at least one observation; the source has none.")
    return map_arrays(lambda *leaves: np.concatenate(leaves), *pieces)
