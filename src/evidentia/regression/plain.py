"""Columns of tables with one number or text a row, as plain pandas columns."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy import ndarray

from evidentia.data.containers import NUMBERS, is_sparse
from evidentia.data.digits import WHOLE, check_float64
from evidentia.errors import DataError, check_memory

if TYPE_CHECKING:
    from pandas import Series


def one_dimensional(name: str, column: Any) -> Any:
    """A column as a table holds it; of an array or sparse matrix of one column, its numbers.

    Raises:
        DataError: an array with several values a row.
    """
    if hasattr(column, "to_pandas"):
        return column.to_pandas()
    if is_sparse(column):
        check_memory(f"column {name!r}", "its numbers, as a sparse one is read,", 8 * max(column.shape))
        _check_shape(name, column.shape)
        column = column.toarray() if hasattr(column, "toarray") else column.todense()
    column = getattr(column, "array", column)
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and not dtype.isnative:  # of which pandas takes no rows
        column = np.asarray(column).astype(dtype.newbyteorder("="))
    shape = np.shape(column) if hasattr(column, "shape") else ()
    if len(shape) < 2:
        return column
    _check_shape(name, shape)
    return np.asarray(column).ravel()


def _check_shape(name: str, shape: Sequence[int]) -> None:
    if len(shape) > 1 and any(size != 1 for size in shape[1:]):
        raise DataError(
            f"column {name!r} has the shape {tuple(shape)}: a formula needs one value in each row. Give each of its columns "
            "a name of its own in the table."
        )


def plain(name: str, column: Any) -> Series:
    """A column of a table without missing values; objects that are numbers become numbers.

    Raises:
        DataError: lists, complex numbers, periods and the like, values of several kinds, or exact
            numbers whose digits float64 does not hold.
    """
    from pandas import ArrowDtype, IntervalDtype, PeriodDtype, Series, SparseDtype
    from pandas.api import types

    dtype = column.dtype
    if isinstance(dtype, SparseDtype):
        return column.sparse.to_dense()
    if isinstance(dtype, ArrowDtype) and pa.types.is_decimal(dtype.pyarrow_dtype):
        check_float64([column.min(), column.max()], f"column {name!r}")
        return column.astype(np.float64)
    is_nested = isinstance(dtype, ArrowDtype) and pa.types.is_nested(dtype.pyarrow_dtype)
    if is_nested or types.is_complex_dtype(dtype) or isinstance(dtype, PeriodDtype | IntervalDtype):
        raise _refused(name, column)
    if isinstance(dtype, ArrowDtype) and pa.types.is_integer(dtype.pyarrow_dtype):
        return column.astype(dtype.numpy_dtype)  # of Arrow's, pandas compares some as float64
    if not types.is_object_dtype(dtype):
        return column
    values = column.tolist()
    if all(isinstance(one, str) for one in values):
        return column
    if not all(isinstance(one, NUMBERS) for one in values):
        raise _refused(name, column)
    return Series(_numbers(name, values), index=column.index)


def labels(name: str, column: Any) -> Series:
    """A column whose values are names of categories or groups: different ones stay different.

    Raises:
        DataError: float64 has rounded them.
    """
    if column.dtype == np.float16:  # of which pandas makes no index
        return column.astype(np.float32)
    if str(column.dtype).lower().startswith(("float", "double")) and column.abs().max() >= WHOLE:
        raise DataError(
            f"column {name!r} has categories up to {column.abs().max():.3g}, in float64, which rounds whole numbers beyond "
            "2**53, so that different ones may be the same. Give them as text, or as integers without missing values."
        )
    return column


def _numbers(name: str, values: list[Any]) -> ndarray:
    """Truth values, integers of 64 bits, or else float64."""
    if all(isinstance(one, bool | np.bool_) for one in values):
        return np.array(values, bool)
    if all(isinstance(one, Integral) and abs(int(one)) < 2**63 for one in values):
        return np.array(values, np.int64)
    check_float64(values, f"column {name!r}")
    try:
        return np.array([float(one) for one in values])
    except OverflowError:
        return np.full(len(values), np.inf)  # which is refused by name


def _refused(name: str, column: Any) -> DataError:
    """The error for values that are neither numbers nor text nor categories."""
    values = column.tolist()
    if all(isinstance(one, complex) for one in values):
        return DataError(f"column {name!r} holds complex numbers. Make columns of their parts first.")
    kinds = list(
        dict.fromkeys("number" if isinstance(one, NUMBERS) else type(one).__name__ for one in values)
    )
    if any(isinstance(one, list | tuple | np.ndarray) for one in values):
        needed = "a formula needs one value in each row. Make a column of each place in the lists"
    elif len(kinds) > 1:
        needed = "a formula needs one kind. Make numbers of all, or text"
    else:
        needed = "a formula needs numbers, text or categories. Convert them"
    listed = ", ".join(kinds[:4]) + (", …" if len(kinds) > 4 else "")
    return DataError(
        f"column {name!r} holds values of type {listed}, such as {reprlib.repr(values[0])}: {needed} first."
    )
