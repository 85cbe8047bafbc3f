"""Columns of numbers and counts, as the standard tests take them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.data.digits import WHOLE, check_float64
from evidentia.errors import ConfigurationError, DataError, as_number

MOST = 10**11  # observations: beyond, float64 holds their log factorials to fewer than 0.01 nats
LARGEST = 1e100  # of a statistic, whose square float64 holds


def numbers_of(name: str, values: Any) -> ndarray:
    """One column of numbers in float64; missing values are NaN.

    Raises:
        DataError: text, another shape than one column, infinite values, or whole numbers whose
            digits float64 does not hold.
    """
    try:
        if hasattr(values, "to_numpy") and hasattr(values, "isna"):
            found = values.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        else:
            if isinstance(values, np.ma.MaskedArray):
                values = np.ma.filled(values.astype(float), np.nan)
            found = np.asarray(values)
            if found.dtype.kind in "OUSM" and not _is_numeric(found):
                raise TypeError(f"dtype {found.dtype}")
            found = np.array([np.nan if value is None else value for value in found.ravel()], float).reshape(
                found.shape
            )
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must hold numbers; got {_shown(values)} ({error}).") from error
    if found.ndim != 1:
        raise DataError(f"{name} must be one column of numbers, of shape (n,); got shape {found.shape}.")
    if np.abs(found).max(initial=0, where=~np.isnan(found)) >= WHOLE:
        given = np.asarray(values, object).ravel().tolist()
        check_float64([one for one in given if isinstance(one, int | Decimal)], name)
    if np.isinf(found).any():
        raise DataError(
            f"{name} has {np.isinf(found).sum():,} infinite values, the first in row {np.argmax(np.isinf(found)):,}."
        )
    return found


def outcomes_of(name: str, values: Any) -> tuple[ndarray, tuple[str, ...]]:
    """A column of zeros and ones, of trials in their order, and a note on those left out.

    Raises:
        DataError: no column, or other numbers.
    """
    found, notes = np.zeros(0), ()
    if np.ndim(values) == 1:
        (found,), notes = without_missing(**{name: numbers_of(name, values)})
    if not len(found) or not np.isin(found, (0.0, 1.0)).all():
        raise DataError(
            f"{name} without trials must be a column of zeros and ones; got {_shown(values)}. Of counts, give trials as well."
        )
    return found, notes


def without_missing(**columns: ndarray) -> tuple[list[ndarray], tuple[str, ...]]:
    """Columns without rows in which one of them is missing, and a note that counts those left out.

    Raises:
        DataError: unequal lengths.
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise DataError(f"pairs need columns of the same length; {shown}.")
    keep = np.all([~np.isnan(column) for column in columns.values()], axis=0)
    left_out = int((~keep).sum())
    what = "pairs" if len(columns) > 1 else f"rows of {next(iter(columns))}"
    notes = (f"left out as values are missing: {left_out:,} {what}.",) if left_out else ()
    return [column[keep] for column in columns.values()], notes


def count_of(name: str, value: Any, least: int) -> int:
    """A number of observations that is given in place of data.

    Raises:
        ConfigurationError: not a whole number, too small, or more than `MOST`.
    """
    number = as_number(value)
    if not (least <= number <= MOST and number == np.floor(number)):
        raise ConfigurationError(
            f"{name} must be a whole number of at least {least} and at most {MOST:,}; got {_shown(value)}."
        )
    return int(number)


def check_sum(name: str, counts: Any) -> None:
    """Raise DataError for more observations than `MOST`."""
    if (total := np.sum(counts)) > MOST:
        raise DataError(f"{name} must hold at most {MOST:,} observations in all; got {total:,.0f}.")


def finite_of(name: str, value: Any) -> float:
    """A statistic that is given in place of data.

    Raises:
        ConfigurationError: not a number, or beyond `LARGEST`.
    """
    number = as_number(value)
    if not abs(number) <= LARGEST:
        raise ConfigurationError(
            f"{name} must be a finite number, of at most {LARGEST:g} in size; got {_shown(value)}."
        )
    return number


def _is_numeric(values: ndarray) -> bool:
    return values.dtype.kind == "O" and all(value is None or np.isreal(value) for value in values.ravel())


def _shown(values: Any) -> str:
    shown = repr(values)
    return shown if len(shown) <= 60 else shown[:57] + "..."
