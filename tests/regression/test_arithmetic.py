"""Expressions: in float64, and the same for a row whatever rows are computed with it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evidentia as ev
from evidentia import errors
from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.design import evaluate, learn
from evidentia.regression.formula import parse
from tests.regression.test_streamed import parts_of

TYPES = [
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint64",
    "int64",
    "float32",
    "Int64",
    "Float32",
    "int64[pyarrow]",
]
BY_ROW = ["x", "I(x ** 2)", "log(x + 9)", "x:z", "C(i)", "I((x > 0) & (z < 1))", "np.where(k == 'a', x, z)"]
LEARNT = ["I((x - x.mean()) ** 2)", "I(x / np.std(x))", "I(x - z.median())", "I(x.max() - x)", "bs(x, df=5)"]
LEARNT += [
    "center(x)",
    "scale(x):scale(z)",
    "poly(x, 3)",
    "cr(x, df=4, constraints='center')",
    "I(scale(log(x + 9)) ** 2)",
    "standardize(x)",
]
LEARNT += ["C(x > x.mean())", "bs(`x`, knots=[0.0, 0.5])"]
SEVERAL = [
    "x.cumsum()",
    "x.rank()",
    "x.shift(1)",
    "x.diff()",
    "np.cumsum(x)",
    "np.diff(x)",
    "np.sort(x)",
    "lag(x)",
]
SEVERAL += [
    "np.add.accumulate(x)",
    "np.add.reduce(x)",
    "np.convolve(x, z)",
    "np.matmul(x, z)",
    "I(x.rolling(3).mean())",
]


def table_of(rows=200):
    generator = np.random.default_rng(0)
    x, z = np.sort(generator.standard_normal((2, rows)), axis=1)
    i, k = generator.integers(1, 5, rows), generator.choice(list("ab"), rows)
    return pd.DataFrame(
        {"x": x, "z": z + 0.3 * x**2, "i": i, "k": k, "y": x**2 + generator.standard_normal(rows)}
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_types_of_columns_do_not_matter(dtype, tmp_path):
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 100, (2, 300))
    numbers = pd.DataFrame({"a": a, "b": b, "y": (a * b // 100).clip(0, 100)}).astype("float64")
    table = numbers.astype(dtype)
    table.to_parquet(tmp_path / "0.parquet")
    formulas = (
        "y ~ a:b",
        "y ~ a * b + I(a ** 3)",
        "I(y ** 2) ~ I(a - b) + I(-a)",
        "y ~ b + offset(I(a * b / 300))",
    )
    for formula in formulas:
        expected = ev.estimate(ev.Regression(formula), numbers).log_evidence
        for data in (table, ev.read_parquet(tmp_path)):
            found = ev.estimate(ev.Regression(formula), data).log_evidence
            assert found == pytest.approx(expected, rel=1e-12)
    selections = [ev.select_terms("y ~ a * b", each).inclusion_probability for each in (numbers, table)]
    assert selections[0] == pytest.approx(selections[1], rel=1e-12)


def test_truth_values_are_numbers_in_arithmetic():
    table = pd.DataFrame({"a": [True, True, False], "b": [True, False, False]})
    values = {
        "I(a + b)": [2, 1, 0],
        "I(-a)": [-1, -1, 0],
        "I((a > 0) + (b > 0))": [2, 1, 0],
        "I(a & ~b)": [0, 1, 0],
        "I(a | b)": [1, 1, 0],
        "I(-1 < b <= 0)": [0, 1, 1],
        "exp10(a)": [10, 10, 1],
        "I(7 // 2 + a % 2)": [4, 4, 3],
    }
    for text, expected in values.items():
        assert evaluate(text, table, parse("a ~ b")).tolist() == expected


def test_a_formula_does_not_change_the_table():
    table = table_of()
    before = table.copy()
    ev.estimate(ev.Regression("y ~ np.abs(x) + np.clip(z, 0, 1) + I(-x)"), table)
    pd.testing.assert_frame_equal(table, before)


@given(st.sampled_from([*BY_ROW, *LEARNT]), st.lists(st.integers(0, 200), max_size=4))
def test_a_design_in_blocks_is_that_of_all_rows(term, cuts):
    table = table_of()
    design = learn(parse(f"y ~ {term}"), (term,), table)
    blocks = np.split(np.arange(len(table)), sorted(cuts))
    parts = [design.columns(table.iloc[block]) for block in blocks if len(block)]
    np.testing.assert_array_equal(np.concatenate(parts), design.columns(table))


@pytest.fixture
def whole(term):
    """A table, and its evidence in memory at once."""
    return (table := table_of(1100)), ev.estimate(ev.Regression(f"y ~ {term}"), table).log_evidence


@pytest.mark.parametrize("term", LEARNT)
def test_what_is_learnt_of_files_is_learnt_on_all_rows(term, whole, small_blocks, tmp_path):
    """Also of more rows than those that are kept as a sample, and of small blocks in memory."""
    table, expected = whole
    for each in (parts_of(table, tmp_path, count=4), table):
        found = ev.estimate(ev.Regression(f"y ~ {term}"), each)
        assert found.log_evidence == pytest.approx(expected, rel=1e-10)


def test_memory_of_what_is_learnt_is_checked_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(errors.os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 100)
    with pytest.raises(
        ConfigurationError, match=r"bs\(x, df=900\) on 200 rows would need .* for what it learns"
    ):
        ev.estimate(ev.Regression("y ~ bs(x, df=900)"), table_of())


def test_responses_and_offsets_are_learnt_on_all_rows(tmp_path, small_blocks):
    table = table_of(1000)
    source = parts_of(table, tmp_path)
    for formula in ("I((y - y.mean()) ** 2) ~ x", "scale(y) ~ x + offset(scale(z))"):
        inside, outside = (ev.estimate(ev.Regression(formula), each).log_evidence for each in (table, source))
        assert outside == pytest.approx(inside, rel=1e-10)


@pytest.mark.parametrize("term", SEVERAL)
def test_what_takes_several_rows_is_refused_by_name(term):
    name = term.split("(")[0].split(".")[-1]
    with pytest.raises(ConfigurationError, match=rf"{name}.*(Make a column|column of the table)"):
        ev.Regression(f"y ~ {term}")


@pytest.mark.parametrize("term", ["log(k)", "I(k)", "I(k * 2)", "scale(k)", "I(x + k)", "k.mean()"])
def test_text_in_arithmetic_is_explained(term):
    with pytest.raises(
        (DataError, ConfigurationError), match=r"column 'k' holds 'b' and the like.*I\(k == 'b'\)"
    ):
        ev.estimate(ev.Regression(f"y ~ {term}"), table_of())


def test_methods_of_pandas_and_functions_of_numpy_have_their_own_deviations():
    table = table_of(10)
    for text, expected in {
        "I(x / x.std())": table["x"] / table["x"].std(),
        "I(x / np.std(x))": table["x"] / np.std(table["x"].to_numpy()),
        "I(x - x.var())": table["x"] - table["x"].var(),
    }.items():
        np.testing.assert_allclose(evaluate(text, table, parse("y ~ x")), expected, rtol=1e-14)
