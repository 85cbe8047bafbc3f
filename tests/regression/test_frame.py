"""Frames: sizes of columns that float64 cannot square."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import DataError


def table_of(rows=60):
    x, z, e = np.random.default_rng(0).standard_normal((3, rows))
    return pd.DataFrame({"x": x, "z": z, "y": x + e, "g": np.arange(rows) % 6})


@pytest.mark.parametrize("column", ["x", "y"])
@pytest.mark.parametrize(
    "factor, message", [(1e300, r"not within 1e\+100 of zero"), (1e-300, "within 1e-100 of zero in all rows")]
)
@pytest.mark.parametrize("options", [{}, {"prior": "normal"}, {"family": "student-t"}])
def test_columns_whose_squares_overflow_are_named(column, factor, message, options):
    table = table_of()
    table[column] *= factor
    with pytest.raises(DataError, match=rf"^{column} is {message}"):
        ev.estimate(ev.Regression("y ~ x + z", **options), table)


@pytest.mark.parametrize(
    "formula",
    ["y ~ I(x * 10**300)", "I(y * 1e200) ~ x", "y ~ x + offset(I(z * 1e300))", "y ~ z + (I(x * 1e200) | g)"],
)
def test_expressions_whose_squares_overflow_are_named(formula):
    options = {"prior": "normal"} if "|" in formula else {}
    with pytest.raises(DataError, match=r"is not within 1e\+100 of zero in 60 of 60 rows"):
        ev.estimate(ev.Regression(formula, **options), table_of())


def test_units_within_these_bounds_do_not_matter():
    table = table_of()
    expected = ev.estimate(ev.Regression("y ~ x + z"), table).log_evidence
    for factor in (1e95, 1e-95):
        found = ev.estimate(ev.Regression("y ~ x + z"), table.assign(x=factor * table["x"])).log_evidence
        assert found == pytest.approx(expected, rel=1e-9)


def test_complex_columns_and_names_that_are_numbers():
    table = table_of()
    with pytest.raises(DataError, match="column 'x' holds complex numbers"):
        ev.estimate(ev.Regression("y ~ x"), table.assign(x=table["x"] + 1j))
    named = ev.estimate(ev.Regression("y ~ `3`"), table.rename(columns={"x": 3}))
    assert named.log_evidence == ev.estimate(ev.Regression("y ~ x"), table).log_evidence
