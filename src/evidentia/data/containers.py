"""Containers of numbers of which NumPy makes objects: decimals, Arrow's lists, sparse matrices."""

import math
import reprlib
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidentia.errors import DataError, check_memory

NUMBERS = Real, Decimal, np.number, np.bool_  # whose `float` is their value
MISSING = "NoneType", "NAType"  # of Python and pandas
ADVICE = "Encode categories as integers, dates as numbers."


def as_numpy(values: Any, argument: str, advice: str = ADVICE) -> np.ndarray:
    """An array of what a container holds, of numbers as such.

    Decimals and fractions become float64, None and NA become NaN, lists of one length a matrix,
    and a sparse matrix a dense one.

    Args:
        values: whatever NumPy can read; an Arrow array, or a sparse matrix of SciPy or JAX.
        argument: its name in errors.
        advice: what to do about values that are not numbers, for errors.

    Raises:
        DataError: it cannot be read, holds lists of several lengths, or objects that are neither
            numbers nor missing.
        ConfigurationError: a dense matrix would exceed the memory of the machine.

    Example:
        >>> as_numpy([Decimal("0.5"), 2], "y")
        array([0.5, 2. ])
    """
    if is_sparse(values):
        check_memory(
            argument, "a dense array of all entries, as a sparse one is read,", 8 * math.prod(values.shape)
        )
        values = values.toarray() if hasattr(values, "toarray") else values.todense()
    try:
        array = (
            _of_arrow(values, argument)
            if isinstance(values, pa.Array | pa.ChunkedArray)
            else np.asarray(values)
        )
        return _of_objects(array, argument, advice) if array.dtype == object else array
    except DataError:
        raise
    except Exception as error:  # of any kind, as containers convert themselves
        raise DataError(f"{argument} cannot be read as an array of numbers: {error}") from error


def first_word(array: np.ndarray) -> str:
    """Where the first text is that is no number, for errors; empty if none or all are such."""
    row_of = max(1, array.size // len(array)) if array.ndim and len(array) else 1
    flat = array.ravel().tolist()
    words = [place for place, one in enumerate(flat) if isinstance(one, str | bytes) and not _is_number(one)]
    if not words or len(words) == len(flat):
        return ""
    return f", with {reprlib.repr(flat[words[0]])} in row {words[0] // row_of}"


def _is_number(word: str | bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def is_sparse(values: Any) -> bool:
    """Whether it is a sparse matrix of SciPy or JAX, of which NumPy makes a single object."""
    is_matrix = hasattr(values, "shape") and (hasattr(values, "toarray") or hasattr(values, "todense"))
    return is_matrix and not isinstance(values, np.ndarray)


def _of_arrow(values: Any, argument: str) -> np.ndarray:
    """An Arrow array: decimals as float64, lists of one length as rows."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.FixedShapeTensorArray):
        return array.to_numpy_ndarray()
    if pa.types.is_decimal(array.type):
        return np.asarray(array.cast(pa.float64()))
    is_list = pa.types.is_fixed_size_list(array.type) or pa.types.is_list(array.type)
    if not (is_list or pa.types.is_large_list(array.type)):
        return np.asarray(array)
    if array.null_count:
        raise DataError(
            f"{argument} has no list in {array.null_count} of {len(array)} rows. Drop or impute these rows."
        )
    lengths = pc.call_function("list_value_length", [array]).unique().to_pylist()
    if len(lengths) > 1:
        raise _ragged(argument, lengths)
    inner = as_numpy(array.flatten(), argument)
    return inner.reshape(len(array), *lengths or (0,), *inner.shape[1:])


def _of_objects(array: np.ndarray, argument: str, advice: str) -> np.ndarray:
    """An array of Python's objects: numbers, or lists of one length in each row."""
    flat = array.ravel().tolist()
    if flat and all(
        isinstance(one, Sequence | np.ndarray) and not isinstance(one, str | bytes) for one in flat
    ):
        lengths = list(dict.fromkeys(map(len, flat)))
        if len(lengths) > 1:
            raise _ragged(argument, lengths)
        rows = np.array([np.asarray(one) for one in flat])
        return (_numbers(rows, argument, advice) if rows.dtype == object else rows).reshape(
            *array.shape, *rows.shape[1:]
        )
    return _numbers(array, argument, advice)


def _numbers(array: np.ndarray, argument: str, advice: str) -> np.ndarray:
    flat = [math.nan if type(one).__name__ in MISSING else one for one in array.ravel().tolist()]
    if odd := [one for one in flat if not isinstance(one, NUMBERS)]:
        given = f"{type(odd[0]).__name__} values, such as {reprlib.repr(odd[0])}{first_word(array)}"
        raise DataError(f"{argument} must hold numbers; got dtype object with {given}. {advice}")
    return np.array([float(one) for one in flat], np.float64).reshape(array.shape)


def _ragged(argument: str, lengths: list[int]) -> DataError:
    listed = ", ".join(map(str, lengths[:3])) + (", …" if len(lengths) > 3 else "")
    return DataError(
        f"{argument} has lists of different lengths in its rows: {listed}. Give each row the same number of values."
    )
