"""Times of events on a plane: refused where the evidence is infinite, and only there."""

import numpy as np
import pytest

import evidentia as ev
from evidentia.errors import DataError
from evidentia.regression.exact_times import are_exact

X = np.linspace(0.0, 3.0, 12)
LINE = np.column_stack([np.ones(12), X])
EVENTS = X < 2


def test_events_on_a_line_with_censored_times_below_it():
    for drop, exact in ((1.0, True), (0.0, True), (-1.0, False)):  # above it, they exclude the line
        assert are_exact(LINE, 1 + 2 * X - drop * ~EVENTS, EVENTS) is exact
    assert not are_exact(LINE, 1 + 2 * X + 1e-3 * np.sin(9 * X), EVENTS)


def test_as_many_columns_as_events_explain_anything():
    few = X < 0.5
    assert few.sum() == 2 and not are_exact(LINE, X, few)
    assert not are_exact(LINE, X, np.zeros(12, bool))


def test_columns_that_vary_in_censored_rows_alone():
    """Some effect takes them above the censored times, unless the others hold it."""
    late = np.column_stack([np.ones(12), ~EVENTS])
    assert are_exact(late, np.where(EVENTS, 1.0, 5.0), EVENTS)
    assert not are_exact(np.ones((12, 1)), np.where(EVENTS, 1.0, 5.0), EVENTS)


@pytest.mark.parametrize("family", ["weibull", "lognormal"])
def test_exact_times_are_named(family):
    table = {"t": np.exp(1 + 2 * X - ~EVENTS), "d": EVENTS, "x": X, "z": np.cos(X)}
    words = (
        r"the times of all events are explained exactly by 'x', and no time is censored later, so that the evidence is "
        r"infinite\. Leave out what the times are computed from, or give the scale a prior that excludes 0"
    )
    with pytest.raises(DataError, match=words):
        ev.estimate(ev.Regression("Surv(t, d) ~ x", family), table)
    with pytest.raises(DataError, match="explained exactly by 'x', and"):
        ev.select_terms("Surv(t, d) ~ x + z", table, family=family)
