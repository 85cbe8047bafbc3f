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
from evidentia.errors import ConfigurationError, DataError, EvidenceWarning
from evidentia.regression.formula import parse
from evidentia.regression.grouped import grouped_of
from evidentia.regression.table import as_table

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(2, 20)).round(2)
PLAIN = {"y": Y, "x": X}
Y_OF_80 = np.random.default_rng(1).normal(size=80) + np.arange(80) % 4
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


LARGE = [2**53 + 2 + one for one in range(8)] * 10
OF_TYPES = [
    lambda values: np.array(values),
    lambda values: np.array(values, ">u8"),
    list,
    lambda values: [Decimal(one) for one in values],
    lambda values: pd.Series(values, dtype="Int64"),
    lambda values: pd.Series(values, dtype="uint64[pyarrow]"),
    lambda values: pa.array([Decimal(one) for one in values], pa.decimal128(20, 2)),
]


@pytest.mark.parametrize("convert", OF_TYPES)
def test_whole_numbers_that_float64_rounds_are_refused(convert):
    table = {"k": convert(LARGE), "y": np.arange(80) % 7.0, "x": np.arange(80) % 5.0}
    first = LARGE[0]
    for formula in (
        "y ~ k",
        f"y ~ I(k - {first})",
        f"y ~ I(k == {first + 3})",
        "y ~ x + offset(k)",
        "y ~ scale(k)",
        "I(k - y) ~ x",
    ):
        with pytest.raises(
            (DataError, ConfigurationError),
            match=r"'k' has values up to 9.01e\+15 that vary by only 7; float64",
        ):
            ev.estimate(ev.Regression(formula), table)
    with pytest.raises(DataError, match="vary by only 7; float64"):
        ev.bf.t_test(table["k"], null=first)


@pytest.mark.parametrize("convert", [*OF_TYPES[:3], *OF_TYPES[4:6]])
def test_large_numbers_may_be_names_of_categories(convert):
    small = [one - LARGE[0] for one in LARGE]
    found, expected = (
        ev.estimate(ev.Regression("y ~ C(k)"), {"k": names, "y": Y_OF_80}).log_evidence
        for names in (convert(LARGE), small)
    )
    assert found == pytest.approx(expected, rel=1e-12)
    assert groups_of({"k": convert(LARGE)}) == groups_of({"k": small})
    rounded = {"k": np.array(LARGE, float), "y": Y_OF_80}
    for use in (groups_of, lambda table: ev.estimate(ev.Regression("y ~ C(k)"), table)):
        with pytest.raises((DataError, ConfigurationError), match="column 'k' has categories up to 9.01e"):
            use(rounded)


def groups_of(table):
    """The number of each row's group."""
    formula = parse("y ~ (1 | k)")
    return grouped_of(formula.varying, formula, as_table(table, ["k"])).codes.tolist()


@pytest.mark.parametrize("dtype", ["float16", "Float32", ">i2", ">f8", "uint8[pyarrow]"])
def test_categories_and_weights_may_have_any_type(dtype):
    numbers = pd.DataFrame({"k": np.arange(80) % 4, "w": np.arange(80) % 3, "y": Y_OF_80})
    table = {name: numbers[name].astype(dtype) for name in "kw"} | {"y": numbers["y"]}
    if dtype[0] == ">":
        table |= {name: numbers[name].to_numpy().astype(dtype) for name in "kw"}
    for formula in ("y ~ C(k)", "y ~ k"):
        asked = ev.Regression(formula, weights="w")
        found, expected = (ev.estimate(asked, each).log_evidence for each in (table, numbers))
        assert found == pytest.approx(expected, rel=1e-12)
    assert groups_of(table) == groups_of(numbers)


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
