"""Tables: the columns that formulas use, as a pandas data frame without missing values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from evidentia.data.files import near_columns
from evidentia.data.fingerprint import as_text, sum_of_hashes
from evidentia.data.lazy import collected
from evidentia.data.source import check_missing
from evidentia.errors import DataError, warn
from evidentia.regression.frequencies import check_some, frequencies_of, repeated, with_weights
from evidentia.regression.plain import one_dimensional, plain
from evidentia.regression.text_columns import check_commas, check_mixed, check_text

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TIMES = "date", "datetime", "time", "timedelta"  # of objects, as pandas names them


def as_table(
    data: Any,
    columns: list[str],
    missing: str = "drop",
    weights: str | None = None,
    factors: Collection[str] = (),
    where: str = "",
) -> DataFrame:
    """The columns of a table, in its order of rows, without rows that have missing values in them.

    Args:
        data: a pandas or Polars data frame, an Arrow table, or a mapping from names to columns.
        columns: the names of those that are used.
        missing: "drop" leaves rows with missing values out, with an EvidenceWarning that counts
            them; "error" refuses them.
        weights: the name of a column that says how often each row counts; rows are repeated.
        factors: columns whose text is categories, also if it looks like numbers.
        where: the file that the rows are all of, for messages; "" for a table in memory.

    Raises:
        DataError: unknown, duplicated, or unusable columns, missing values, or no rows; weights
            that are no frequencies.
        ConfigurationError: `missing` is neither.
    """
    import pandas as pd

    check_missing(missing)
    used = with_weights(columns, weights)
    table = _columns_of(collected(data, "the table"), used)
    if not used:
        return table
    for name in [one for one in columns if one not in factors]:
        check_commas(name, table[name])
        check_mixed(name, table[name], where)
    counts = np.ones(len(table), int) if weights is None else frequencies_of(weights, table[weights])
    gaps = table.isna().to_numpy() & (counts > 0)[:, None]
    absent = gaps.any(axis=1)
    if absent.any():
        by_name = zip(used, gaps.sum(axis=0), strict=True)
        by_column = ", ".join(f"{name} {count}" for name, count in by_name if count)
        counted = f"{absent.sum():,} of {len(table):,} rows have missing values ({by_column})"
        if missing == "error":
            raise DataError(
                f"{counted}; the first is row {absent.argmax()}. Drop or impute them, or pass missing='drop'."
            )
        warn([f"{counted} and were left out."])
    kept = ~absent & (counts > 0)
    if not kept.all():
        table, counts = pd.DataFrame(table[kept]).reset_index(drop=True), counts[kept]
    if weights is not None and not absent.any():
        check_some(weights, len(table))
    if not len(table):
        raise DataError("the table has no rows without missing values in the columns used.")
    for name in columns:
        check_dates(name, table[name])
        table[name] = plain(name, table[name])
        check_column(name, table[name])
        table[name] = _as_categories(name, table[name], is_factor=name in factors)
    return table if weights is None else repeated(pd.DataFrame(table[columns]), counts, weights)


def _columns_of(data: Any, used: list[str]) -> DataFrame:
    """The columns of a table as they are; of none, its rows.

    Raises:
        DataError: unknown or duplicated columns, or of different lengths.
    """
    import pandas as pd

    names = _names_of(data)
    if not used:  # an intercept alone: the number of rows is all
        return pd.DataFrame(index=pd.RangeIndex(len(_column(data, names[0])) if names else 0))
    for column in used:
        if column not in names:
            raise DataError(f"the table has no column {column!r}. {near_columns(column, names)}")
        if names.count(column) > 1:
            raise DataError(
                f"the table has {names.count(column)} columns named {column!r}. Rename all but one."
            )
    given = {name: _column(data, name) for name in used}
    _check_lengths(given)
    try:
        return pd.DataFrame(given)
    except ValueError as error:
        raise DataError(f"the table's columns cannot be put side by side: {error}") from error


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
    if isinstance(data, str | PathLike):
        reader = "read_parquet" if str(data).endswith((".parquet", ".pq")) else "read_csv"
        raise DataError(
            f"data of a formula must be a table; got {str(data)!r}. A file is read by ev.{reader}({str(data)!r})."
        )
    raise DataError(
        "data of a formula must be a table: a pandas or Polars data frame, an Arrow table, or a mapping from names to "
        f"columns; got {type(data).__name__}."
    )


def _check_lengths(columns: Mapping[str, Any]) -> None:
    lengths = {name: np.shape(column)[0] for name, column in columns.items() if hasattr(column, "shape")}
    lengths |= {name: len(column) for name, column in columns.items() if isinstance(column, list | tuple)}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} {lengths[name]:,}" for name in columns if name in lengths)
        raise DataError(f"the columns of a table must have the same length; those used have {listed}.")


def _column(data: Any, name: str) -> Any:
    keys = data if isinstance(data, Mapping) else getattr(data, "columns", ())
    key = next((one for one in keys if isinstance(one, int | float | tuple) and str(one) == name), name)
    return one_dimensional(name, data[key])


def check_column(name: str, column: Any) -> None:
    """Raise DataError for dates, durations and infinite numbers."""
    from pandas.api import types

    check_dates(name, column)
    if types.is_numeric_dtype(column):
        infinite = np.isinf(column.to_numpy(np.float64))
        if infinite.any():
            raise DataError(
                f"column {name!r} is infinite in {infinite.sum():,} rows (the first is row {column.index[infinite.argmax()]} of "
                "those used)."
            )


def check_dates(name: str, column: Any) -> None:
    """Raise DataError for dates and durations."""
    from pandas.api import types

    as_objects = types.is_object_dtype(column) and types.infer_dtype(column) in TIMES
    if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column) or as_objects:
        raise DataError(
            f"column {name!r} holds dates or durations. Make numbers of them first, such as days since a start."
        )


def _as_categories(name: str, column: Any, *, is_factor: bool) -> Series:
    """Text as a Categorical, which holds integers; Categoricals without unused categories."""
    from pandas.api import types

    if isinstance(column.dtype, types.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if types.is_numeric_dtype(column):
        return column
    if not is_factor:
        check_text(name, column)
    return column.astype("category") if types.infer_dtype(column, skipna=False) == "string" else column
