"""Terms are counted before they are multiplied out, and responses are expressions."""

import time

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.formula import parse

COLUMNS = [f"x{place}" for place in range(40)]


@pytest.mark.parametrize(
    "right",
    [
        "*".join(COLUMNS[:12]),
        "*".join(COLUMNS),
        f"({'+'.join(COLUMNS[:3])})**20",
        f"({'+'.join(COLUMNS)})^9",
        "(((a + b + c) ** 3) ** 3) ** 9",
        ":".join(["(a + b)"] * 20),
        "x ** 999999999",
        "(a + b) ** 9 ** 9 ** 9",
        "2 ^ 2 ^ 2 ^ 2",
        "**".join(["x"] * 5000),
        "bs(x, df=10 ** 9)",
        "bs(x, df=1000000000)",
        "bs(x, degree=10000)",
        "cr(x, df=100000)",
        "poly(x, 10 ** 6)",
        "poly(x, 1000000)",
        "poly(x, degree=1e9)",
        "hashed(x, levels=1000000000)",
        f"bs(x, knots={[*range(2000)]})",
        "I(9 ** 9 ** 9)",
        "(" * 50_000,
        "`" * 5001,
        "x" * 300_000,
        "(a" + "(b)" * 30_000,
        "(1 | g) + " * 2000 + "x",
    ],
)
def test_formulas_that_explode_are_refused_at_once(right):
    started = time.process_time()
    with pytest.raises(ConfigurationError) as caught:
        ev.Regression(f"y ~ {right}")
    assert time.process_time() - started < 10 and len(str(caught.value)) < 1200


@pytest.mark.parametrize(
    "right", ["C(x):C(z)", ":".join(f"C(x{place})" for place in range(9)), "C(x) * C(z)"]
)
def test_columns_are_counted_before_they_are_made(right):
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 40)), columns=COLUMNS)
    table = table.assign(x=table["x0"], z=table["x1"], y=table["x2"])
    with pytest.raises(
        ConfigurationError, match=r"more than 5,000 columns|more than 8 factors with categories"
    ):
        ev.estimate(ev.Regression(f"y ~ {right}"), table)


def test_towers_of_powers_are_floats():
    table = {"y": [1.0, 2, 4, 3], "x": [1.0, 2, 3, 5]}
    with pytest.raises(DataError, match=r"I\(x \* 9 \*\* 9 \*\* 9\) is not finite in 4 of 4 rows"):
        ev.estimate(ev.Regression("y ~ I(x * 9**9**9)"), table)


def test_many_signs_at_the_top_are_read():
    assert parse("y ~ " + "-" * 5000 + "x + " + "+".join(["z"] * 2000)).terms == ("x", "z")
    assert parse("y ~ " + "(" * 500 + "x" + ")" * 500).terms == ("x",)
    assert len(parse(f"y ~ ({'+'.join(COLUMNS)}) ** 2").terms) == 820


def test_braces_keep_their_arithmetic():
    assert parse("y ~ {x ** 2} + z").terms == ("I(x ** 2)", "z")


@pytest.mark.parametrize(
    "left", ["1", "0", "'y'", "3", "y + x", "y - x", "log(y) - log(x)", "-y", "y * x", "y / x", "I(3)"]
)
def test_a_response_is_an_expression_of_columns(left):
    with pytest.raises(
        ConfigurationError, match=r"must have one response, a column|cannot be read|has no column"
    ):
        ev.Regression(f"{left} ~ x")


def test_a_single_row_is_no_response():
    with pytest.raises(
        ConfigurationError, match=r"y\[0\] cannot be computed in a formula: \[ \] takes single rows"
    ):
        ev.Regression("I(y[0]) ~ x")


@pytest.mark.parametrize("right", ["(x~ | )", "(x ~ z | g)", "(x ~ z || g) + x"])
def test_a_tilde_within_a_group_is_refused(right):
    with pytest.raises(ConfigurationError, match="may not stand inside"):
        ev.Regression(f"y ~ {right}", prior="normal")


def test_formulas_without_each_term_and_each_factor_of_groups():
    found = parse("y ~ x + offset(z) + (1 + x | g) + (1 | h)").without_each_term()
    assert found == {
        "x": "y ~ offset(z) + (1 + x | g) + (1 | h)",
        "(1 + x | g)": "y ~ x + offset(z) + (1 | h)",
        "(1 | h)": "y ~ x + offset(z) + (1 + x | g)",
    }
    assert list(parse("y ~ x + (1 | a/b)").without_each_term()) == ["x", "(1 | a:b)"]
    assert parse("y ~ (1 | g)").without_each_term() == {"(1 | g)": "y ~ 1"}
