"""A name within backticks is a column, whatever it looks like."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evidentia as ev
from evidentia.errors import ConfigurationError, DataError
from evidentia.regression.formula import parse
from evidentia.regression.grouped import grouped_of
from evidentia.regression.quoting import column_name, decoded, encoded, factors_of, name_of, quoted

ODD = [
    "log(x)",
    "a+b",
    "1",
    "0",
    "offset(x)",
    "fixed acidity",
    "a:b",
    "(1 | g)",
    "y ~ x",
    "it's",
    'say "x"',
    "class",
]
ODD += ["µ", "x²", "x.y", "k[T.b]", "-", "True", "1e5", "np", "I", "log", "`".join("ab").replace("`", "\\")]
NAMES = st.text(st.characters(exclude_characters="`", exclude_categories=["Cs"]), min_size=1)


def table_of(name, rows=40):
    generator = np.random.default_rng(0)
    x, z, w = generator.standard_normal((3, rows))
    g = generator.choice(list("abcd"), rows)
    y = x + w + (g == "a") + generator.standard_normal(rows)
    return pd.DataFrame({"x": np.exp(z), name: w, "y": y, f"{name} ~ group": g})


@given(NAMES)
def test_a_quoted_name_is_a_word_and_back(name):
    word = encoded(f"`{name}`")
    assert word.isidentifier() and name_of(word) == name
    assert name_of(encoded(quoted(name))) == name
    assert parse(f"y ~ `{name}` + x:`{name}`").variables in (["y", name, "x"], ["y", name], ["y"], ["y", "x"])
    assert decoded(encoded(quoted(name))) == quoted(name)


@pytest.mark.parametrize("name", ODD)
def test_a_quoted_name_is_the_column_everywhere(name):
    """The same column under a plain name gives the same numbers."""
    table = table_of(name)
    plain = table.set_axis(["x", "w", "y", "g"], axis=1)
    group = f"`{name} ~ group`"
    for formula in (
        "y ~ {w}",
        "y ~ log(x) + {w}",
        "y ~ 0 + x:{w} + {g}",
        "y ~ I({w} ** 2) + np.abs({w})",
        "y ~ bs({w}, df=4) + offset({w})",
        "{w} ~ x + C({g}, contr.treatment('b'))",
        "I({w} + y) ~ {w} * x - {w}",
    ):
        evidences = [
            ev.estimate(ev.Regression(formula.format(w=w, g=g)), rows)
            for w, g, rows in ((f"`{name}`", group, table), ("w", "g", plain))
        ]
        assert evidences[0].log_evidence == pytest.approx(evidences[1].log_evidence, rel=1e-12)
        assert len(evidences[0].posterior) == len(evidences[1].posterior)


def test_names_of_coefficients_are_those_of_the_columns():
    table = table_of("log(x)").assign(**{"fixed acidity": np.arange(40.0)})
    found = ev.estimate(ev.Regression("y ~ log(x) + `log(x)` + `fixed acidity` + `fixed acidity`:x"), table)
    assert list(found.posterior)[1:5] == ["log(x)", "`log(x)`", "fixed acidity", "fixed acidity:x"]


def test_a_selection_and_its_predictions_know_quoted_names():
    table, plain = table_of("a:b"), table_of("a:b").set_axis(["x", "w", "y", "g"], axis=1)
    found = ev.select_terms("y ~ `a:b` * x + `a:b ~ group`", table)
    expected = ev.select_terms("y ~ w * x + g", plain)
    assert found.terms == ("`a:b`", "x", "`a:b ~ group`", "`a:b`:x")
    assert list(found.inclusion_probability.values()) == pytest.approx(
        list(expected.inclusion_probability.values())
    )
    np.testing.assert_allclose(found.predict(table), expected.predict(plain))
    assert all(ev.Regression(formula) for formula in found.formulas)


def test_groups_can_have_any_name():
    parsed = parse("y ~ `a b` + (1 + `log(x)` | `my group`) + (1 | `g|h`/`a:b`)")
    assert [one.name for one in parsed.varying] == ["my group", "g|h", "g|h:`a:b`"]
    assert parsed.variables == ["y", "a b", "log(x)", "my group", "g|h", "a:b"]
    assert parse(parsed.with_terms(())).varying == parsed.varying
    table = table_of("log(x)", 200)
    (varying,) = parse("y ~ `log(x)` + (1 + `log(x)` | `log(x) ~ group`)").varying
    found = grouped_of([varying], parsed, table)
    assert found.sd_names == ("sd(Intercept|`log(x) ~ group`)", "sd(`log(x)`|`log(x) ~ group`)")
    np.testing.assert_array_equal(found.levels, sorted(set(table["log(x) ~ group"])))


def test_parts_of_formulas_are_found_by_their_names():
    assert factors_of("x:`a:b`:C(k, levels=['a:b'])")[:2] == ["x", "`a:b`"]
    assert column_name(encoded("`a b`:log(x)[T.c]")) == "a b:log(x)[T.c]"
    assert list(parse("y ~ `a:b` + c + `a:b`:c").without_each_term()) == ["`a:b`:c"]


@pytest.mark.parametrize(
    "formula, error, message",
    [
        ("y ~ ``", ConfigurationError, "a name within backticks is missing"),
        ("y ~ `x", ConfigurationError, "a closing ` is missing"),
        ("y ~ `no such`", DataError, "the table has no column 'no such'"),
        ("y ~ np.abs(x.y)", ConfigurationError, "a column with this name is written `x.y`, within backticks"),
        ("y ~ Q('x')", ConfigurationError, "there is no function Q. Write `name`, within backticks"),
    ],
)
def test_names_that_cannot_be_used_are_explained(formula, error, message):
    with pytest.raises(error, match=message):
        ev.estimate(ev.Regression(formula), table_of("w"))
