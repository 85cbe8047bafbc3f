"""A look at all rows of a source, or at a part of them: categories, missing values, a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evidentia.data.sources import CsvSource
from evidentia.errors import DataError
from evidentia.regression.frequencies import frequencies_of, with_weights
from evidentia.regression.pieces import Levels, PieceSource, absent_from, counted, whole_numbers
from evidentia.regression.sample import Sample
from evidentia.regression.table import check_column


@dataclass
class Look:
    """What is known of rows after a look at them; looks at parts of a table add up.

    Attributes:
        num_read, num_absent: rows, and those with missing values.
        num_different, num_rows: complete rows that count, and how often they do together.
        gaps: missing values by column.
        whole: columns of numbers that are integers so far.
        levels, sample: categories, and rows to learn on.
    """

    whole: set[str]
    num_read: int = 0
    num_absent: int = 0
    num_different: int = 0
    num_rows: int = 0
    gaps: Counter[str] = field(default_factory=Counter)
    levels: Levels = field(default_factory=Levels)
    sample: Sample = field(default_factory=Sample)

    def add(self, other: Look) -> None:
        """Take in the rows that follow.

        Raises:
            DataError: a column that holds text in one part, and numbers in the other.
        """
        self.levels.merge(other.levels)
        if other.num_different:
            rows = other.sample.rows()
            self.sample.add(rows.set_axis(rows.index + self.num_different, axis=0))
        self.whole &= other.whole
        self.gaps.update(other.gaps)
        self.num_read += other.num_read
        self.num_absent += other.num_absent
        self.num_different += other.num_different
        self.num_rows += other.num_rows


def look_at(source: PieceSource, columns: Sequence[str], missing: str, weights: str | None) -> Look:
    """Look at all rows of a source. Raises as `look_through`."""
    found = Look(set(columns))
    for piece in source.pieces_of(with_weights(columns, weights)):
        if weights is not None:
            frequencies_of(weights, piece.table[weights].to_pandas(), f"{piece.where}: ", piece.first_row + 1)
        absent = absent_from(piece)
        if absent and missing == "error":
            raise DataError(
                f"{piece.where} has missing values in {', '.join(absent)}; the first is in data row "
                f"{piece.first_row + min(rows.argmax() for rows in absent.values()) + 1:,}. Drop or impute such rows, or "
                "pass missing='drop'."
            )
        found.gaps.update({name: int(rows.sum()) for name, rows in absent.items()})
        found.num_read += piece.table.num_rows
        found.num_absent += int(np.any(list(absent.values()), axis=0).sum()) if absent else 0
        table, counts = counted(piece, found.num_different, columns, weights)
        if len(table):
            for name in columns:
                check_column(name, table[name])
            found.levels.add(table, piece)
            found.whole &= whole_numbers(table) if isinstance(source, CsvSource) else set()
            found.sample.add(table)
            found.num_different += len(table)
            found.num_rows += int(counts.sum())
    return found
