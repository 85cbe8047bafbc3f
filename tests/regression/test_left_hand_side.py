"""Left-hand sides: trials, survival times and known standard errors beside a response."""

import numpy as np
import pandas as pd
import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError
from evidentia.regression.families import family
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.response import response_of


@pytest.mark.parametrize(
    "left, parts, columns",
    [
        ("y", ("y", None, "plain"), ["y"]),
        ("s | n", ("s", "n", "trials"), ["s", "n"]),
        ("Surv(time, status)", ("time", "status", "time"), ["time", "status"]),
        ("Surv ( time,event = status == 1 )", ("time", "I(status == 1)", "time"), ["time", "status"]),
        (
            "Surv(d / 7, (s == 1) | (s == 3), type='right')",
            ("I(d / 7)", "I((s == 1) | (s == 3))", "time"),
            ["d", "s"],
        ),
        ("Surv(`my time`, `|` == 'dead')", ("`my time`", "I(`|` == 'dead')", "time"), ["my time", "|"]),
        ("cbind(s, f)", ("s", "I(s + f)", "trials"), ["s", "f"]),
        ("cbind(s, n - s)", ("s", "I(s + (n - s))", "trials"), ["s", "n"]),
        ("Surv(time)", ("time", None, "plain"), ["time"]),
        ("log(y) | se(sqrt(v))", ("log(y)", "sqrt(v)", "error"), ["y", "v"]),
        ("y | se(s, sigma=False)", ("y", "s", "error"), ["y", "s"]),
    ],
)
def test_parts(left, parts, columns):
    found = parse(f"{left} ~ x + (1 | g)")
    assert found.left == parts
    assert found.variables == [*columns, "x", "g"]
    assert parse(f"{found.left_hand_side} ~ x").left == found.left  # as formulas without terms are written
    assert left.startswith(("cbind", "y | se")) or "I(" not in found.left_hand_side


@pytest.mark.parametrize(
    "formula, words",
    [
        (
            "Surv(a, b, c) ~ x",
            r"has Surv\(a, b, c\): Surv\(start, stop, event\) and intervals are not supported\. There is Surv\(",
        ),
        ("Surv(time=a, time2=b, event=c) ~ x", r"Surv\(start, stop, event\) and intervals are not supported"),
        ("Surv(a, b, type='left') ~ x", "type='left' is not supported"),
        ("Surv(a, b, foo=1) ~ x", "there is no argument foo"),
        ("Surv() ~ x", "a time and whether it is that of an event are needed"),
        ("Surv(*a) ~ x", r"has Surv\(\*a\): it cannot be read"),
        ("Surv(a, 1) ~ x", r"I\(1\) has no column"),
        (
            "log(Surv(a, b)) ~ x",
            r"no function Surv in this place\. .* Surv\(time, status\) ~ x, of the families exponential",
        ),
        ("y ~ Surv(a, b)", "no function Surv in this place"),
        ("a | cens(b) ~ x", r"no function cens\. Censored times are the response: Surv\(time, status\)"),
        (
            "y | se(s, sigma=TRUE) ~ x",
            r"no deviation besides their standard errors\. .*, as in \(1 \| study\)",
        ),
        ("y | se() ~ x", r"one standard error is needed, as in y \| se\(s\) ~ x"),
        ("y | se(s, t) ~ x", "one standard error is needed"),
        ("y ~ se(x)", r"no function se in this place\. .* y \| se\(s\) ~ x"),
        (
            "cbind(s) ~ x",
            r"the two counts of a binomial are needed, cbind\(successes, failures\)\. Of several responses",
        ),
        ("cbind(s, f, g) ~ x", "the two counts of a binomial are needed"),
        ("y ~ cbind(s, f)", r"no function cbind in this place\. Two counts are the whole response"),
        ("y | n | m ~ x", r"at most one \| left of ~"),
    ],
)
def test_what_cannot_be_read_says_what_there_is(formula, words):
    with pytest.raises(ConfigurationError, match=words) as caught:
        parse(formula)
    assert formula in str(caught.value)


@pytest.mark.parametrize(
    "formula, family, words",
    [
        (
            "Surv(a, b) ~ x",
            "gaussian",
            r"'Surv\(time, status\)' needs the family exponential, weibull or lognormal; .* gaussian",
        ),
        ("y | se(s) ~ x", "student-t", r"'y \| se\(s\)' needs the family gaussian; got .* student-t"),
        ("Surv(a, b) ~ x", "binomial", "and the family binomial need each other"),
        ("s | n ~ x", "weibull", "and the family binomial need each other"),
    ],
)
def test_responses_need_their_families(formula, family, words):
    with pytest.raises(ConfigurationError, match=words):
        ev.Regression(formula, family)


def test_two_counts_are_successes_of_their_sum():
    table = pd.DataFrame({"s": [3, 0, 5, 7], "f": [2, 0, 1, 0], "n": [5, 0, 6, 7], "x": [0.0, 1.0, 2.0, 3.0]})
    found, exact = (
        response_of(frame_of(parse(formula), table), table, family("binomial"))
        for formula in ("cbind(s, f) ~ x", "s | n ~ x")
    )
    assert found.information == exact.information
    for name, array in exact.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)


def test_an_anova_has_one_column_left():
    with pytest.raises(ConfigurationError, match="an ANOVA's formula has a response"):
        ev.bf.anova("y | se(s) ~ x", {"y": [1.0, 2.0, 4.0], "s": [1.0, 1.0, 1.0], "x": ["a", "b", "a"]})


@pytest.mark.parametrize(
    ("left", "family"), [("k | 7", "binomial"), ("k | se(0.5)", "gaussian"), ("Surv(k, 1)", "weibull")]
)
def test_constants_are_columns(left, family):
    with pytest.raises(ConfigurationError) as caught:
        ev.estimate(ev.Regression(f"{left} ~ x", family=family), {"k": [1, 2, 4], "x": [0.0, 1.0, 5.0]})
    assert "has no column of the table. A constant is a column of the table" in str(caught.value)
