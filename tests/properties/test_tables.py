"""Any container of numbers becomes arrays of the same values, or a DataError."""

import datetime

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from evidentia.data.arrays import as_arrays, num_rows
from evidentia.errors import DataError
from tests.properties.examples import ODD, examples, for_all

DTYPES = st.one_of(
    some.boolean_dtypes(),
    some.integer_dtypes(endianness="?"),
    some.unsigned_integer_dtypes(endianness="?"),
    some.floating_dtypes(endianness="?"),
    some.complex_number_dtypes(),
    some.unicode_string_dtypes(max_len=3),
    some.byte_string_dtypes(max_len=3),
    some.datetime64_dtypes(max_period="D"),
    some.timedelta64_dtypes(),
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: some.arrays(dtype, some.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def arranged(array):
    """The same values with another layout in memory."""
    locked = array.copy()
    locked.flags.writeable = False
    wide = np.repeat(array, 2, axis=0)[::2] if array.ndim else array
    masked = np.ma.masked_array(array, mask=np.zeros(array.shape, bool))
    hidden = np.ma.masked_array(array, mask=np.ones(array.shape, bool))
    return st.sampled_from(
        [array, locked, wide, np.asfortranarray(array), array[::-1] if array.ndim else array, masked, hidden]
    )


SCALARS = st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none(), ODD)
LISTS = st.lists(st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=4)
OBJECTS = LISTS.map(lambda values: pd.Series(values, dtype=object))
NULLABLE = st.sampled_from(["Int8", "Int64", "UInt16", "Float32", "Float64", "boolean"]).flatmap(
    lambda dtype: st.lists(st.sampled_from([0, 1, None]), max_size=4).map(
        lambda values: pd.array(values, dtype=dtype)
    )
)
DAYS = st.lists(st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)), max_size=3)
PANDAS = st.one_of(
    NULLABLE.map(pd.Series),
    # Not `str`: pandas makes no categories of lone surrogates.
    LISTS.map(lambda values: pd.Categorical([ascii(value) for value in values])),
    DAYS.map(pd.to_datetime),
    DAYS.map(lambda days: pd.Series(days).astype("string")),
)
ARROW = st.sampled_from(
    [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32()]
).flatmap(
    lambda kind: st.lists(st.sampled_from([None, 0, 1]), max_size=3).map(
        lambda values: pa.array(
            [
                value
                if value is None
                else "x"
                if kind == pa.string()
                else np.float16(value)
                if kind == pa.float16()
                else bool(value)
                if kind == pa.bool_()
                else value
                for value in values
            ],
            kind,
        )
    )
)
COLUMNS = st.one_of(
    ARRAYS.flatmap(arranged), ARRAYS.flatmap(arranged), LISTS, OBJECTS, PANDAS, ARROW, SCALARS
)
NAMES = st.sampled_from(["x", "y", 1, "", None])
TABLES = st.one_of(
    COLUMNS,
    st.tuples(COLUMNS, COLUMNS),
    st.dictionaries(NAMES, COLUMNS, max_size=3),
    st.lists(st.tuples(st.sampled_from(["x", "y", "x"]), st.integers(0, 3)), max_size=3).map(
        lambda pairs: pd.DataFrame([[value for _, value in pairs]] * 2, columns=[name for name, _ in pairs])
    ),
    st.lists(st.sampled_from(["x", "y"]), max_size=3).map(
        lambda names: pa.table([pa.array([1, 2])] * len(names), names=names)
    ),
)


def columns_of(table):
    """The arrays or columns of a container, in order."""
    if isinstance(table, pd.DataFrame):
        return [table.iloc[:, place].to_numpy() for place in range(table.shape[1])]
    if isinstance(table, pa.Table):
        return table.columns
    return (
        list(table.values())
        if isinstance(table, dict)
        else list(table)
        if isinstance(table, tuple)
        else [table]
    )


def in_float64(values):
    """Of objects and nullable types too; a series may hold lists of one length."""
    if isinstance(values, pd.Series) and any(isinstance(value, list) for value in values):
        values = list(values)
    return np.array(values, dtype=np.float64)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::evidentia.errors.EvidenceWarning", "ignore::hypothesis.errors.HypothesisWarning"
)
@examples(many=20_000, few=100)
def test_a_container_gives_the_same_values_or_an_error(count):
    @for_all(st.tuples(TABLES, st.booleans()), count)
    def holds(found):
        table, allow_nan = found
        try:
            arrays = as_arrays(table, allow_nan=allow_nan)
        except DataError:
            return
        columns, given = columns_of(arrays), columns_of(table)
        assert len(columns) == len(given)
        for column, values in zip(columns, given, strict=True):
            assert column.dtype in (np.float32, np.int32) and len(column) == num_rows(arrays) > 0
            wide = in_float64(values)
            assert column.shape == wide.shape
            np.testing.assert_allclose(column, wide, rtol=1e-6, atol=1e-37)
            assert allow_nan or np.isfinite(column).all()
            jnp.asarray(column)
