"""Text that may have been meant as numbers is refused before anything is estimated."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.regression.table import as_table

COMMAS = {"y": np.arange(6.0), "x": ["16,19", "13,90", "11,44", "9,1", None, "8,25"]}


@pytest.mark.parametrize(
    "formula, family", [("y ~ x", "gaussian"), ("x ~ y", "gaussian"), ("x ~ y", "poisson")]
)
def test_decimal_commas_in_a_table(formula, family):
    message = (
        r"column 'x' holds numbers with commas as text, such as '16,19'\. Pass decimal=','.*\(--decimal ,"
    )
    for table in COMMAS, pd.DataFrame(COMMAS):
        with pytest.raises(ev.DataError, match=message):
            ev.estimate(ev.Regression(formula, family=family), table)


def test_decimal_commas_in_files(tmp_path):
    """Small and in pieces, as those larger than memory are read."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text('y,x\n1,"16,19"\n2,"13,9"\n3,"8,0"\n')
    for paths in tmp_path / "a.csv", tmp_path / "*.csv":
        with pytest.raises(ev.DataError, match="column 'x' holds numbers with commas as text"):
            ev.estimate(ev.Regression("y ~ x"), ev.read_csv(str(paths), ["y"]))


def test_categories_may_look_so():
    table = {"y": np.arange(5.0), "x": pd.Categorical(["1,5", "2,5", "1,5", "3,0", "2,5"])}
    assert list(as_table(table, ["y", "x"])["x"].cat.categories) == ["1,5", "2,5", "3,0"]


def test_the_row_of_odd_text():
    numbers = [f"{k}" for k in range(12)]
    table = pd.DataFrame({"x": [*numbers, "ca. 16"]})
    with pytest.raises(
        ev.DataError, match=r"'ca. 16' in row 12 \(the first is 0\),.*; no other row holds such text"
    ):
        as_table(table, ["x"])
    with pytest.raises(ev.DataError, match=r"'ca. 16' in data row 13 of trees.csv, while"):
        as_table(table, ["x"], where="trees.csv")
    more = pd.DataFrame({"x": [*numbers, "?", "?"]}, index=[*"abcdefghijklmn"])  # positions count
    with pytest.raises(ev.DataError, match=r"'\?' in row 12 .*; 2 rows hold such text"):
        as_table(more, ["x"])


def test_a_response_of_text_is_refused_before_columns_are_left_out():
    x = np.arange(6.0)
    table = {"y": list("abcabc"), "x": x, "twice": 2 * x}
    for family in "gaussian", "poisson":
        with pytest.raises(ev.DataError, match="the response y must hold numbers"):
            ev.estimate(ev.Regression("y ~ x + twice", family=family), table)
    with pytest.raises(ev.DataError, match="the response y must hold numbers"):
        ev.select_terms("y ~ x + twice", table)


def test_truth_values_as_a_normal_response():
    table = {"y": [True, False, True, True], "x": [1.0, 2.0, 4.0, 3.0]}
    with pytest.raises(ev.DataError, match="it has True and False. Use family='bernoulli'"):
        ev.estimate(ev.Regression("y ~ x"), table)


def test_columns_of_different_length():
    with pytest.raises(ev.DataError, match="must have the same length; those used have 'y' 3, 'x' 2"):
        ev.estimate(ev.Regression("y ~ x"), {"y": [1.0, 2.0, 3.0], "x": np.ones(2), "z": [1.0]})


@pytest.mark.parametrize(
    "name, reader", [("trees.csv", "read_csv"), ("trees.xlsx", "read_csv"), ("trees.parquet", "read_parquet")]
)
def test_the_name_of_a_file(name, reader):
    with pytest.raises(
        ev.DataError, match=rf"must be a table; got '{name}'. A file is read by ev.{reader}\('{name}'\)"
    ):
        ev.estimate(ev.Regression("y ~ x"), name)


@pytest.mark.parametrize(
    "formula, message",
    [
        ("leaf len ~ x", r"an operator is missing between leaf and len\. .*within backticks: `leaf len`\.$"),
        ("y ~ x + leaf len", r"cannot be read: an operator is missing between leaf and len"),
        (
            "y ~ log(leaf len)",
            r"cannot be read: it is no expression\. A name with spaces is written within backticks",
        ),
        ("y ~ (1 | my group)", r"a name with spaces is written within backticks, \(1 \| `my group`\)"),
    ],
)
def test_names_with_spaces(formula, message):
    with pytest.raises(ev.ConfigurationError, match=message):
        ev.Regression(formula)
