"""Columns of formulas that hold objects: numbers as such, or one message that says what to do."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import evidentia as ev
from evidentia.errors import DataError, EvidenceWarning

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(2, 20)).round(2)
PLAIN = {"y": Y, "x": X}
EXACT = ev.estimate(ev.Regression("y ~ x"), PLAIN).log_evidence


def decimals(numbers):
    return [Decimal(str(one)) for one in numbers]


@pytest.mark.parametrize(
    "convert",
    [
        decimals,
        lambda numbers: np.array(decimals(numbers)),
        lambda numbers: pd.Series(decimals(numbers)),
        lambda numbers: pd.Series(decimals(numbers), dtype=pd.ArrowDtype(pa.decimal128(10, 2))),
        lambda numbers: pl.Series(numbers).cast(pl.Decimal(10, 2)),
        lambda numbers: pa.array(decimals(numbers)),
        lambda numbers: [Fraction(one) for one in numbers],
        lambda numbers: pd.Series(numbers, dtype=object),
        lambda numbers: pd.Series(numbers).astype(pd.SparseDtype("float")),
        lambda numbers: scipy.sparse.csr_matrix(numbers[:, None]),
        lambda numbers: scipy.sparse.coo_array(numbers),
        lambda numbers: numbers[:, None],
    ],
)
def test_numbers_of_all_kinds_are_numbers(convert):
    for name in PLAIN:
        table = {**PLAIN, name: convert(PLAIN[name])}
        assert ev.estimate(ev.Regression("y ~ x"), table).log_evidence == pytest.approx(EXACT, abs=1e-9)


def test_tables_of_arrow_and_polars_may_hold_decimals():
    for table in (
        pa.table({name: decimals(one) for name, one in PLAIN.items()}),
        pl.DataFrame({name: decimals(one) for name, one in PLAIN.items()}),
    ):
        assert ev.estimate(ev.Regression("y ~ x"), table).log_evidence == pytest.approx(EXACT, abs=1e-9)


def test_missing_values_among_objects_are_left_out():
    table = {**PLAIN, "x": [None, *decimals(X[1:-1]), Decimal("NaN")]}
    with pytest.warns(EvidenceWarning, match=r"2 of 20 rows have missing values \(x 2\)"):
        found = ev.estimate(ev.Regression("y ~ x"), table)
    few = {name: one[1:-1] for name, one in PLAIN.items()}
    assert found.log_evidence == pytest.approx(
        ev.estimate(ev.Regression("y ~ x"), few).log_evidence, abs=1e-9
    )


@pytest.mark.parametrize(
    "column, message",
    [
        (
            pa.FixedSizeListArray.from_arrays(np.arange(40.0), 2),
            "holds values of type ndarray, .* one value in each row. Make a column of each place",
        ),
        (
            pd.Series([[1.0, 2.0]] * 20),
            r"of type list, such as \[1.0, 2.0\]: a formula needs one value in each row",
        ),
        (pl.Series([[1.0, 2.0]] * 20, dtype=pl.Array(pl.Float64, 2)), "one value in each row"),
        (pd.Series([[1.0, 2.0]] * 20, dtype=pd.ArrowDtype(pa.list_(pa.float64()))), "one value in each row"),
        (np.zeros((20, 2)), r"has the shape \(20, 2\): a formula needs one value in each row"),
        (scipy.sparse.csr_matrix(np.zeros((20, 2))), r"has the shape \(20, 2\)"),
        (
            pd.Series(["a", 1.0] * 10, dtype=object),
            "of type str, number, such as 'a': a formula needs one kind",
        ),
        (X + 1j, "holds complex numbers. Make columns of their parts first"),
        (
            pd.Series([b"a", b"b"] * 10),
            "of type bytes, such as b'a': a formula needs numbers, text or categories",
        ),
        (pd.period_range("2026", periods=20), "of type Period"),
        (pd.interval_range(0, 20), "of type Interval"),
        ([10**400] * 20, "infinite in 20 rows"),
    ],
)
@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("family", ["gaussian", "student-t"])
def test_other_values_are_refused_by_name(column, message, name, family):
    with pytest.raises(DataError, match=message) as caught:
        ev.estimate(ev.Regression("y ~ x", family=family), {**PLAIN, name: column})
    assert str(caught.value).startswith(f"column '{name}'")
