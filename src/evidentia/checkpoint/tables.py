"""Arrays as a Parquet table, bit for bit: a column each, a row per entry of the leading axis."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def encode(arrays: Mapping[str, np.ndarray]) -> tuple[bytes, dict[str, Any]]:
    """Arrays of the same leading axis as a Parquet file, and their dtypes and shapes for `decode`.

    The rows of an array with more axes are lists of fixed size, in C order. Arrays without values
    have no column.

    Raises:
        ValueError: different leading axes, or a dtype that Parquet does not have.

    Example:
        >>> data, layout = encode({"a": np.zeros((3, 2))})
        >>> decode(data, layout)["a"].shape
        (3, 2)
    """
    import pyarrow
    import pyarrow.parquet

    if len({len(array) for array in arrays.values()}) > 1:
        rows = ", ".join(f"{name} has {len(array)} rows" for name, array in arrays.items())
        raise ValueError(f"arrays must have the same number of rows; {rows}")
    layout = {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()}
    columns = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} is an array of {array.dtype}")
        if array.size:
            flat = np.ascontiguousarray(array).reshape(-1)
            values = pyarrow.array(flat.astype(flat.dtype.newbyteorder("="), copy=False))
            row = math.prod(array.shape[1:])
            columns[name] = values if array.ndim == 1 else pyarrow.FixedSizeListArray.from_arrays(values, row)
    sink = pyarrow.BufferOutputStream()
    # A dictionary would merge values that are equal in other bits, such as NaN of two kinds.
    pyarrow.parquet.write_table(pyarrow.table(columns), sink, use_dictionary=False)
    return sink.getvalue().to_pybytes(), layout


def decode(data: bytes, layout: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a Parquet file; raises exceptions of many kinds if it is damaged."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    found = {}
    for name, about in layout.items():
        dtype, shape = np.dtype(about["dtype"]), tuple(about["shape"])
        if dtype.kind not in "biuf":
            raise ValueError(f"{name} is an array of {dtype}")
        array = np.empty(shape, dtype)
        if array.size:
            chunks = table.column(name).chunks
            flat = [chunk.flatten() if len(shape) > 1 else chunk for chunk in chunks]
            values = [chunk.to_numpy(zero_copy_only=False) for chunk in flat]
            array[...] = np.concatenate(values).reshape(shape)
        found[name] = array
    return found
