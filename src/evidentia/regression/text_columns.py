"""Columns of text that may have been meant as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evidentia.data.numbers_as_text import comma_advice, is_a_number
from evidentia.errors import DataError

if TYPE_CHECKING:
    from pandas import Series

LEAST_NUMBERS = 10  # different ones in a column of text that is taken for numbers with a slip


def check_text(name: str, column: Series) -> None:
    """Raise DataError for text that looks like numbers."""
    if looks_numeric(column):
        raise DataError(
            f"column {name!r} holds text that looks like numbers, such as {column.iloc[0]!r}. Convert it to numbers; or, if "
            "these are names of categories, to a pandas Categorical."
        )


def check_commas(name: str, column: Any) -> None:
    """Raise DataError for text nearly all of which is numbers with commas."""
    is_text = _is_text(column)
    if any(is_text) and (advice := comma_advice(column[is_text].unique().tolist())):
        raise DataError(
            f"column {name!r} holds {advice} If these are names of categories, make a pandas Categorical of the column (--levels)."
        )


def check_mixed(name: str, column: Any, where: str = "", first: int = 0) -> None:
    """Raise DataError for text most of whose values are numbers, with the first that is none.

    Rows are counted from `first`, and called data rows of the file `where` if there is one.
    """
    is_text = _is_text(column)
    if not any(is_text):
        return
    known = column[is_text].unique()
    odd = [one for one in known if not is_a_number(one)]
    if not odd or len(known) - len(odd) < max(LEAST_NUMBERS, len(odd) + 1):
        return
    is_odd = np.array([text and one in odd for one, text in zip(column, is_text, strict=True)])
    place = int(is_odd.argmax())
    row = f"data row {first + place + 1:,} of {where}" if where else f"row {place} (the first is 0)"
    rows = f"{is_odd.sum():,} rows hold" if is_odd.sum() > 1 else "no other row holds"
    raise DataError(
        f"column {name!r} holds {column.iloc[place]!r} in {row}, while other values are numbers; {rows} such "
        f"text. If it stands for a missing value, pass --na {column.iloc[place]!r} (na= of read_csv); if all are names of "
        f"categories, write C({name})."
    )


def looks_numeric(column: Series) -> bool:
    """Whether text, or categories, could be numbers."""
    try:
        column.iloc[:1000].astype(float)
    except (ValueError, TypeError):
        return False
    return True


def _is_text(column: Any) -> list[bool]:
    """Which values are text, of no Categorical; one by one, as lists and arrays have no hash."""
    from pandas.api import types

    is_given = isinstance(column.dtype, types.CategoricalDtype)  # a string dtype to pandas
    may_be = not is_given and (types.is_object_dtype(column) or types.is_string_dtype(column))
    return [isinstance(one, str) for one in column] if may_be else [False] * len(column)
