"""Two columns of categories, counted in a table as their rows come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.errors import DataError


class Crossed(NamedTuple):
    """Rows as cells of a table.

    Attributes:
        cells: of the rows, in their order.
        shape: of the table.
        notes: on rows left out.
    """

    cells: Int[ndarray, " rows"]
    shape: tuple[int, int]
    notes: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        """All of them."""
        return len(self.cells)

    def first(self, count: int) -> Float[ndarray, "R C"]:
        """The table of the first rows; of all categories, some of which may come later."""
        counts = np.bincount(self.cells[:count], minlength=self.shape[0] * self.shape[1])
        return counts.reshape(self.shape).astype(float)


def crossed(table: Any) -> Crossed | None:
    """The rows of two columns of categories; None for a table of counts.

    A mapping has columns; a data frame of two has them unless both hold numbers.

    Raises:
        DataError: a mapping of other than two lists, or of unequal lengths.
    """
    from pandas import DataFrame
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if isinstance(table, Mapping):
        for name, column in table.items():
            if not isinstance(column, Collection) or getattr(column, "ndim", 1) != 1:
                raise DataError(f"column {name!r} of table must be a list of categories; got {column!r}.")
        lengths = {str(name): len(column) for name, column in table.items()}
        if len(lengths) != 2 or len(set(lengths.values())) > 1:
            raise DataError(
                "table as a mapping must have two columns of categories, with as many rows; got "
                f"{', '.join(f'{name} of {length:,}' for name, length in lengths.items()) or 'none'}."
            )
        table = DataFrame({name: list(column) for name, column in table.items()})
    elif not (isinstance(table, DataFrame) and table.shape[1] == 2) or all(
        is_numeric_dtype(kind) and not is_bool_dtype(kind) for kind in table.dtypes
    ):
        return None
    complete = table.dropna()
    rows, columns = (complete.iloc[:, place].astype("category").cat for place in (0, 1))
    rows, columns = rows.remove_unused_categories(), columns.remove_unused_categories()
    shape = len(rows.cat.categories), len(columns.cat.categories)
    left_out = len(table) - len(complete)
    notes = (f"left out as values are missing: {left_out:,} rows.",) if left_out else ()
    return Crossed(
        np.asarray(rows.cat.codes, int) * shape[1] + np.asarray(columns.cat.codes, int), shape, notes
    )
