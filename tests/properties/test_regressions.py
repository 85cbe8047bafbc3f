"""Exact evidences of regressions do not depend on how the same table and formula are written."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import evidentia as ev
from tests.properties.examples import examples, for_all

CLOSE = {"rel": 1e-9, "abs": 1e-8}
PRIORS = "jzs", "unit-information"


@st.composite
def tables(draw):
    """A response, two numbers and a factor of three categories, on 8 to 40 rows."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(8, 40))
    x, z = generator.normal(size=(2, rows))
    f = np.array(["a", "b", "c"])[generator.permutation(np.arange(rows) % 3)]
    y = draw(st.sampled_from([0.0, 1.0, 5.0])) * x + generator.normal(size=rows) + 2
    return pd.DataFrame({"y": y, "x": x, "z": z, "f": f}), generator


CASES = st.tuples(tables(), st.sampled_from(["0 + ", ""]), st.sampled_from(PRIORS))


def evidence(formula, table, prior="jzs"):
    return ev.estimate(ev.Regression(formula, prior=prior), table).log_evidence


@examples(many=500, few=15)
def test_rows_terms_and_names_of_categories_may_be_permuted(count):
    @for_all(CASES, count)
    def _(case):
        (table, generator), start, prior = case
        given = evidence(f"y ~ {start}x + z + f", table, prior)
        shuffled = table.iloc[generator.permutation(len(table))]
        renamed = table.assign(f=table["f"].map(dict(zip("abc", "zyx", strict=True))))
        reference = table.assign(
            f=table["f"].map(dict(zip("abc", generator.permutation(list("abc")), strict=True)))
        )
        for other in (shuffled, renamed, reference):
            assert evidence(f"y ~ {start}x + z + f", other, prior) == pytest.approx(given, **CLOSE)
        assert evidence(f"y ~ {start}f + z + x", table, prior) == pytest.approx(given, **CLOSE)


@examples(many=500, few=15)
def test_units_of_the_response_and_of_columns(count):
    """p(c y) = p(y) |c|^-ν, with ν = n - 1 degrees of freedom beside a flat intercept, else n."""

    @for_all(st.tuples(CASES, st.floats(1e-3, 1e3)), count)
    def _(given):
        ((table, _), start, prior), factor = given
        freedom = len(table) - (0 if start else 1)
        formula = f"y ~ {start}x + z + f"
        log_evidence = evidence(formula, table, prior)
        scaled = evidence(formula, table.assign(y=factor * table["y"]), prior)
        assert scaled == pytest.approx(log_evidence - freedom * np.log(factor), **CLOSE)
        assert evidence(formula, table.assign(x=-factor * table["x"]), prior) == pytest.approx(
            log_evidence, **CLOSE
        )


@examples(many=500, few=15)
def test_an_offset_is_subtracted_and_an_intercept_takes_up_a_constant(count):
    @for_all(CASES, count)
    def _(case):
        (table, generator), start, prior = case
        table = table.assign(o=generator.normal(size=len(table)))
        moved = table.assign(y=table["y"] + table["o"])
        given = evidence(f"y ~ {start}x + z", table, prior)
        assert evidence(f"y ~ {start}x + z + offset(o)", moved, prior) == pytest.approx(given, **CLOSE)
        shifted = evidence(f"y ~ {start}x + z", table.assign(y=table["y"] + 10), prior)
        assert (shifted == pytest.approx(given, **CLOSE)) == (start == "")


@examples(many=500, few=15)
def test_a_factor_may_be_written_as_columns_of_zeros_and_ones(count):
    @for_all(CASES, count)
    def _(case):
        (table, _), start, prior = case
        columns = {f"is_{name}": (table["f"] == name).astype(float) for name in "abc"}
        used = " + ".join(name for name in columns if start or name != "is_a")
        given = evidence(f"y ~ {start}f", table, prior)
        assert evidence(f"y ~ {start}{used}", table.assign(**columns), prior) == pytest.approx(given, **CLOSE)


def test_sampled_evidences_move_with_the_unit_of_the_response():
    """Under prior='normal', whose priors move with the response: by -n log c."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=30)
    y = x + generator.normal(size=30)
    for formula in ("y ~ x", "y ~ 0 + x"):
        one, other = (
            ev.estimate(ev.Regression(formula, prior="normal"), {"x": x, "y": unit * y})
            for unit in (1.0, 64.0)
        )
        error = 4 * np.hypot(one.standard_error, other.standard_error)
        assert abs(other.log_evidence - one.log_evidence + 30 * np.log(64)) < error
