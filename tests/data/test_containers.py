"""Containers of which NumPy makes objects: the same numbers as a plain array, or one message."""

from decimal import Decimal
from fractions import Fraction

import jax.experimental.sparse
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from evidentia.data.arrays import as_arrays, as_one_row
from evidentia.errors import ConfigurationError, DataError

X = np.array([[1.5, 0.0], [0.25, -2.0], [0.0, 3.0]])
Y = X[:, 0]
DECIMALS = [Decimal(str(one)) for one in Y]
LISTS = pa.array(X.tolist(), pa.list_(pa.float64(), 2))


@pytest.mark.parametrize(
    "numbers",
    [
        DECIMALS,
        np.array(DECIMALS),
        np.array([*DECIMALS[:2], 0.0], object),
        [Fraction(one) for one in Y],
        np.array([np.float32(one) for one in Y], object),
        pd.Series(DECIMALS),
        pd.Series(DECIMALS, dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
        pl.Series(Y).cast(pl.Decimal(10, 2)),
        pa.array(DECIMALS),
        pa.chunked_array([DECIMALS[:1], DECIMALS[1:]], pa.decimal128(10, 2)),
        pa.array(DECIMALS, pa.decimal256(50, 4)),
        pd.Series(Y).astype(pd.SparseDtype("float")),
    ],
)
def test_numbers_of_all_kinds(numbers):
    np.testing.assert_array_equal(as_arrays({"y": numbers})["y"], Y.astype(np.float32))
    np.testing.assert_array_equal(as_one_row({"y": numbers})[0]["y"][0], Y.astype(np.float32))


@pytest.mark.parametrize(
    "matrix",
    [
        LISTS,
        pa.chunked_array([LISTS[:1], LISTS[1:]]),
        pa.array([[9.0, 9.0], *X.tolist()], pa.list_(pa.float64(), 2))[1:],
        pa.array(X.tolist()),
        pa.array(X.tolist(), pa.large_list(pa.float32())),
        pa.array([[Decimal(str(one)) for one in row] for row in X.tolist()]),
        pa.FixedShapeTensorArray.from_numpy_ndarray(X),
        pl.Series(X.tolist(), dtype=pl.Array(pl.Float64, 2)),
        pl.Series(X.tolist()),
        pd.Series(X.tolist()),
        pd.Series(list(X)),
        pd.Series([[Decimal(str(one)) for one in row] for row in X.tolist()]),
        scipy.sparse.csr_matrix(X),
        scipy.sparse.csc_array(X),
        scipy.sparse.coo_array(X),
        jax.experimental.sparse.BCOO(
            (X.ravel().astype(np.float32), np.argwhere(np.ones_like(X))), shape=X.shape
        ),
        pd.DataFrame(X).astype(pd.SparseDtype("float")),
    ],
)
def test_matrices_of_all_kinds(matrix):
    np.testing.assert_array_equal(as_arrays({"x": matrix})["x"], X.astype(np.float32))
    np.testing.assert_array_equal(as_one_row({"x": matrix})[0]["x"][0], X.astype(np.float32))


def test_a_table_of_lists_and_decimals():
    found = as_arrays(pa.table({"x": LISTS, "y": pa.array(DECIMALS)}))
    np.testing.assert_array_equal(found["x"], X.astype(np.float32))
    np.testing.assert_array_equal(found["y"], Y.astype(np.float32))


def test_lists_of_lists_are_blocks():
    blocks = np.arange(12.0).reshape(2, 3, 2)
    assert as_arrays(pa.array(blocks.tolist())).tolist() == blocks.tolist()
    assert as_arrays(pa.array([[], []], pa.list_(pa.float64()))).shape == (2, 0)


@pytest.mark.parametrize(
    "values, message",
    [
        (
            [None, *DECIMALS[1:]],
            r"data\['y'\] has NaN or infinite values in 1 of 3 rows \(the first is row 0\)",
        ),
        (np.array([1.0, None, pd.NA], object), "NaN or infinite values in 2 of 3 rows"),
        ([Decimal("NaN"), *DECIMALS], "NaN or infinite values in 1 of 4 rows"),
        ([10**400, 1], "cannot be read as an array of numbers"),
        (np.array(["a", 1.0], object), "must hold numbers; got dtype object with str values, such as 'a'"),
        (np.array([object(), 1], object), "got dtype object with object values"),
        (pa.array([[1.0], [1.0, 2.0]]), "lists of different lengths in its rows: 1, 2"),
        (pd.Series([[1.0], [1.0, 2.0]]), "lists of different lengths in its rows: 1, 2"),
        (pa.array([None, [1.0, 2.0]]), "no list in 1 of 2 rows"),
        (pa.array([[1.0, None]]), "NaN or infinite values in 1 of 1 rows"),
        (pd.Series([["a"], ["b"]]), "must hold numbers; got dtype"),
    ],
)
def test_what_is_not_numbers_is_named(values, message):
    with pytest.raises(DataError, match=message):
        as_arrays({"y": values})


def test_missing_values_may_be_allowed():
    found = as_arrays({"y": [None, Decimal("1.5")]}, allow_nan=True)["y"]
    np.testing.assert_array_equal(found, [np.nan, 1.5])


def test_a_sparse_matrix_that_no_memory_holds_is_refused():
    huge = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(10**8, 10**6))
    with pytest.raises(ConfigurationError, match=r"data\['x'\] would need .* GiB for a dense array"):
        as_arrays({"x": huge})
