"""Columns of numbers and counts, as the standard tests take them."""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.data.digits import WHOLE, check_float64
from evidentia.errors import ConfigurationError, DataError, as_number


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
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must hold numbers; got {_shown(values)} ({error}).") from error
    if found.ndim != 1:
        raise DataError(f"{name} must be one column of numbers, of shape (n,); got shape {found.shape}.")
    if np.abs(found).max(initial=0, where=~np.isnan(found)) >= WHOLE:
        given = np.asarray(values, object).ravel().tolist()
        check_float64([one for one in given if isinstance(one, Integral | Decimal)], name)
    if np.isinf(found).any():
        raise DataError(
            f"{name} has {np.isinf(found).sum():,} infinite values, the first in row {np.argmax(np.isinf(found)):,}."
        )
    return found


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
        ConfigurationError: not a whole number, or too small.
    """
    number = as_number(value)
    if not (number >= least and number == np.floor(number) and np.isfinite(number)):
        raise ConfigurationError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(number)


def finite_of(name: str, value: Any) -> float:
    """A statistic that is given in place of data.

    Raises:
        ConfigurationError: not a finite number.
    """
    number = as_number(value)
    if not np.isfinite(number):
        raise ConfigurationError(f"{name} must be a finite number; got {value!r}.")
    return number


def _is_numeric(values: ndarray) -> bool:
    return values.dtype.kind == "O" and all(value is None or np.isreal(value) for value in values.ravel())


def _shown(values: Any) -> str:
    shown = repr(values)
    return shown if len(shown) <= 60 else shown[:57] + "..."
