"""Numbers and tables as text."""

import math

import pytest

from evidentia.display import text


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (-1234567.891, 0.1234, "-1,234,567.89 ± 0.12"),
        (-12.3456, 1.94, "-12.3 ± 1.9"),
        (-12345.6, 321.0, "-12,346 ± 321"),
        (0.5, 1e-9, "0.5000 ± 0.0000"),  # no more than four decimals
        (-3.14159, 0.0, "-3.14"),
        (-3.14159, math.nan, "-3.14 ± ?"),
    ],
)
def test_an_estimate_is_cut_to_two_digits_of_its_error(value, error, expected):
    assert text.with_error(value, error) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.7314, "0.731 ± 0.042"), (0.9999, "> 0.999"), (1.0, "> 0.999"), (1e-9, "< 0.001"), (0.0, "< 0.001")],
)
def test_probabilities(value, expected):
    assert text.probability(value, 0.042) == expected
    assert text.probability(value) == text.probability(value, 2e-5) == expected.partition(" ±")[0]


def test_the_probability_has_an_unknown_error():
    assert text.probability(0.5, math.nan) == "0.500 ± ?"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (312.4, "5 min 12 s"), (3599.8, "1 h 0 min"), (7260, "2 h 1 min")],
)
def test_durations(seconds, expected):
    assert text.duration(seconds) == expected


def test_table_aligns_its_columns():
    lines = text.table(("model", "nats"), [("a", "-1.5"), ("longer", "-10.25")]).split("\n")
    assert lines == ["model     nats", "a         -1.5", "longer  -10.25"]


def test_html_table_escapes_what_users_name():
    assert "<td>&lt;b&gt; &amp; co</td>" in text.html_table(("model",), [("<b> & co",)])
