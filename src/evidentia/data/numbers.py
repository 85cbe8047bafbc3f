"""One array of data: numbers in 32 bits, after the checks."""

from typing import Any

import numpy as np

from evidentia.data.containers import ADVICE, as_numpy, first_word
from evidentia.data.digits import Digits, exact_rows
from evidentia.data.lazy import collected
from evidentia.errors import DataError


def as_numbers(
    values: Any,
    argument: str,
    allow_nan: bool = False,
    digits: Digits | None = None,
    part: str = "",
    advice: str = ADVICE,
) -> np.ndarray:
    """Numbers in 32 bits, after the checks; `digits` knows them as `part`."""
    if np.ma.is_masked(values):
        raise DataError(
            f"{argument} has {np.ma.count_masked(values)} masked values. Drop these rows, or fill them with .filled(value)."
        )
    values = collected(values, argument)
    array = as_numpy(values, argument, advice)
    if array.dtype.kind not in "fiub":
        word = first_word(array) if array.dtype.kind in "US" else ""
        raise DataError(f"{argument} must hold numbers; got dtype {array.dtype}{word}. {advice}")
    if array.ndim == 0:
        raise DataError(
            f"{argument} must have observations on its leading axis; got the single number {array}."
        )
    if array.dtype.kind == "f":
        usable = ~np.isinf(array) if allow_nan else np.isfinite(array)
        bad = ~usable.all(axis=tuple(range(1, array.ndim)))
        if bad.any():
            raise DataError(
                f"{argument} has {'' if allow_nan else 'NaN or '}infinite values in {bad.sum()} of {len(array)} rows (the first is row "
                f"{bad.argmax()}). Drop or impute these rows."
            )
    if digits is not None:
        digits.check(part, exact_rows(values, array), argument)
    return narrowed(array, np.float32 if array.dtype.kind == "f" else np.int32, argument)


def narrowed(array: np.ndarray, dtype: type, argument: str) -> np.ndarray:
    """Convert to `dtype`, float32 or int32. Raises DataError for values out of range."""
    info = np.iinfo(dtype) if dtype is np.int32 else np.finfo(dtype)
    if array.size and array.dtype != dtype:
        low, high = np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)  # ignore NaN
        if high > info.max or low < info.min:
            raise DataError(
                f"{argument} has values outside the range of {np.dtype(dtype).name}: from {low} to {high}. Rescale it."
            )
    return np.ascontiguousarray(array, dtype)
