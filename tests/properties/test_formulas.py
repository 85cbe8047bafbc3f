"""Formulas of all kinds: an evidence or a message; and rows that do not depend on others."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import evidentia as ev
from evidentia.errors import EvidentiaError
from evidentia.regression.design import evaluate, learn_expression
from evidentia.regression.formula import parse
from tests.properties.examples import examples, for_all

pytestmark = pytest.mark.filterwarnings("ignore::evidentia.errors.EvidenceWarning")  # of many columns
ROWS = 40
COLUMNS = "x", "z", "i", "u", "b", "k", "`a b`", "`log(x)`", "`1`", "`~|`", "missing"
FUNCTIONS = (
    "log",
    "exp",
    "I",
    "C",
    "scale",
    "center",
    "np.abs",
    "np.maximum",
    "np.mean",
    "np.cumsum",
    "bs",
    "poly",
)
FUNCTIONS += (
    "offset",
    "hashed",
    "sum",
    "np.where",
    "round",
    "eval",
    "x.mean",
    "k.sum",
    "contr.sum",
    "np.add.reduce",
)
NUMBERS = "0", "1", "2", "3.5", "1e300", "1e-300", "10**400", "-1", "9**9**9", "1e999", "0x10", "1j", "10_0"
SIGNS = (
    " + ",
    " - ",
    "*",
    ":",
    "/",
    "**",
    "^",
    " | ",
    "~",
    "&",
    "<",
    "==",
    "%",
    "//",
    ", ",
    " in ",
    "%in%",
    ".",
)
PIECES = [
    *COLUMNS,
    *FUNCTIONS,
    *NUMBERS,
    *SIGNS,
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'a'",
    '"',
    "`",
    "=",
    " ",
    "\\",
    "#",
]


def table_of(rows=ROWS):
    generator = np.random.default_rng(0)
    x, z, w, a, y = generator.standard_normal((5, rows))
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "i": generator.integers(0, 4, rows).astype("int8"),
            "u": generator.integers(0, 256, rows).astype("uint8"),
            "b": x > z,
            "k": generator.choice(list("abc"), rows),
            "a b": w,
            "log(x)": a,
            "1": w + a,
            "~|": z - a,
            "y": y,
        }
    )


def expressions():
    """Expressions within each other, some of which cannot be computed."""
    leaves = st.sampled_from([*COLUMNS, *NUMBERS])
    signs = st.sampled_from([" + ", " - ", " * ", " / ", " ** ", " // ", " % ", " > ", " == ", " & ", " ^ "])

    def larger(inner):
        pairs = st.tuples(inner, signs, inner).map("".join)
        calls = st.tuples(st.sampled_from(FUNCTIONS), inner, st.sampled_from(["", ", 2", ", df=4"])).map(
            lambda parts: f"{parts[0]}({parts[1]}{parts[2]})"
        )
        return pairs | calls | inner.map("({})".format) | inner.map("-{}".format)

    return st.recursive(leaves, larger, max_leaves=6)


def check(formula):
    """An evidence that is a number, or an error of ours."""
    try:
        found = ev.estimate(ev.Regression(formula), table_of())
    except EvidentiaError:
        return
    assert np.isfinite(found.log_evidence)


@examples(20_000, 60)
def test_formulas_of_any_pieces_end(count):
    @for_all(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), count)
    def _(right):
        check(f"y ~ {right}")
        check(f"{right} ~ x")


@examples(20_000, 60)
def test_formulas_of_any_expressions_end(count):
    @for_all(st.lists(expressions(), min_size=1, max_size=4), count)
    def _(terms):
        check(f"y ~ {' + '.join(terms)}")


@examples(20_000, 60)
def test_formulas_of_any_text_end(count):
    @for_all(st.text(max_size=30), count)
    def _(text):
        check(f"y ~ {text}")
        check(text)


@examples(20_000, 60)
def test_expressions_of_rows_do_not_depend_on_their_types_or_on_other_rows(count):
    @for_all(st.tuples(expressions(), st.lists(st.integers(1, ROWS - 1), max_size=3)), count)
    def _(given):
        text, cuts = given
        table = table_of().assign(missing=0.0)
        numbers = table.astype(dict.fromkeys("iub", "float64"))
        try:
            formula = parse(f"I({text}) ~ x")
            expected = evaluate(formula.response, table, formula).to_numpy()
        except EvidentiaError:
            return
        np.testing.assert_array_equal(evaluate(formula.response, numbers, formula).to_numpy(), expected)
        learnt = learn_expression(formula.response, table, formula)
        blocks = [block for block in np.split(np.arange(ROWS), sorted(cuts)) if len(block)]
        parts = [learnt.values(table.iloc[block]).to_numpy() for block in blocks]
        np.testing.assert_array_equal(np.concatenate(parts), expected)
