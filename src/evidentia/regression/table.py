"""Tables: the columns that formulas use, as a pandas data frame without missing values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from evidentia.data.files import near_columns
from evidentia.data.fingerprint import as_text, sum_of_hashes
from evidentia.data.source import check_missing
from evidentia.errors import DataError, warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TIMES = "date", "datetime", "time", "timedelta"  # of objects, as pandas names them


def as_table(data: Any, columns: list[str], missing: str = "drop") -> DataFrame:
    """The columns of a table, in its order of rows, without rows that have missing values in them.

    Args:
        data: a pandas or Polars data frame, an Arrow table, or a mapping from names to columns.
        columns: the names of those that are used.
        missing: "drop" leaves rows with missing values out, with an EvidenceWarning that counts
            them; "error" refuses them.

    Raises:
        DataError: unknown, duplicated, or unusable columns, missing values, or no rows.
        ConfigurationError: `missing` is neither.
    """
    import pandas as pd

    check_missing(missing)
    names = _names_of(data)
    for column in columns:
        if column not in names:
            raise DataError(f"the table has no column {column!r}. {near_columns(column, names)}")
        if names.count(column) > 1:
            raise DataError(
                f"the table has {names.count(column)} columns named {column!r}. Rename all but one."
            )
    try:
        table = pd.DataFrame({name: _column(data, name) for name in columns})
    except ValueError as error:
        raise DataError(f"the table's columns cannot be put side by side: {error}") from error
    absent = table.isna().any(axis=1).to_numpy()
    if absent.any():
        by_column = ", ".join(f"{name} {count}" for name, count in table.isna().sum().items() if count)
        counted = f"{absent.sum():,} of {len(table):,} rows have missing values ({by_column})"
        if missing == "error":
            raise DataError(
                f"{counted}; the first is row {absent.argmax()}. Drop or impute them, or pass missing='drop'."
            )
        warn([f"{counted} and were left out."])
        table = pd.DataFrame(table[~absent]).reset_index(drop=True)
    if not len(table):
        raise DataError("the table has no rows without missing values in the columns used.")
    for name in columns:
        check_column(name, table[name])
        table[name] = _as_categories(name, table[name])
    return table


def fingerprint(table: DataFrame) -> str:
    """Of the rows in any order; categories count by their place."""
    return as_text(hash_of(table))


def hash_of(table: DataFrame) -> int:
    """The sum of the rows' hashes, which adds up over parts with the same categories."""
    return sum_of_hashes(np.column_stack([_numbers(column) for _, column in table.items()]))


def _numbers(column: Series) -> ndarray:
    from pandas import CategoricalDtype

    is_category = isinstance(column.dtype, CategoricalDtype)
    return (column.cat.codes if is_category else column).to_numpy(np.float64)


def _names_of(data: Any) -> list[str]:
    if isinstance(data, Mapping):
        return list(map(str, data))
    for attribute in ("column_names", "columns"):
        if hasattr(data, attribute):
            return list(map(str, getattr(data, attribute)))
    raise DataError(
        "data of a formula must be a table: a pandas or Polars data frame, an Arrow table, or a mapping from names to "
        f"columns; got {type(data).__name__}."
    )


def _column(data: Any, name: str) -> Any:
    column = data[name]
    return column.to_pandas() if hasattr(column, "to_pandas") else getattr(column, "array", column)


def check_column(name: str, column: Any) -> None:
    """Raise DataError for dates, durations and infinite numbers."""
    from pandas.api import types

    as_objects = types.is_object_dtype(column) and types.infer_dtype(column) in TIMES
    if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column) or as_objects:
        raise DataError(
            f"column {name!r} holds dates or durations. Make numbers of them first, such as days since a start."
        )
    if types.is_numeric_dtype(column):
        infinite = np.isinf(column.to_numpy(np.float64))
        if infinite.any():
            raise DataError(
                f"column {name!r} is infinite in {infinite.sum():,} rows (the first is row {column.index[infinite.argmax()]} of "
                "those used)."
            )


def check_text(name: str, column: Series) -> None:
    """Raise DataError for text that looks like numbers."""
    if _looks_numeric(column):
        raise DataError(
            f"column {name!r} holds text that looks like numbers, such as {column.iloc[0]!r}. Convert it to numbers; or, if "
            "these are names of categories, to a pandas Categorical."
        )


def _as_categories(name: str, column: Any) -> Series:
    """Text as a Categorical, which holds integers; Categoricals without unused categories."""
    from pandas.api import types

    if isinstance(column.dtype, types.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if types.is_numeric_dtype(column):
        return column
    check_text(name, column)
    return column.astype("category") if types.infer_dtype(column, skipna=False) == "string" else column


def _looks_numeric(column: Series) -> bool:
    try:
        column.iloc[:1000].astype(float)
    except (ValueError, TypeError):
        return False
    return True
