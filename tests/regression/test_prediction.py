"""Predictions: for draws at one known point, the mean of each family is its formula."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, ndtr, softmax

import evidentia as ev
from evidentia.regression.formula import parse
from evidentia.regression.frame import frame_of
from evidentia.regression.prediction import MOST_ROWS, Fitted, fitted, grouped
from evidentia.regression.predictive import FormulaPredictor
from evidentia.regression.table import as_table
from evidentia.report.regression import _outside
from tests.evidence_factory import make_evidence

X = np.linspace(-1.0, 2.0, 12)
ETA = 0.3 + 0.5 * X
CASES = {  # the response, and its mean
    ("gaussian", None): (ETA + 0.1, ETA),
    ("student-t", None): (ETA + 0.1, ETA),
    ("bernoulli", None): (np.tile([0, 1], 6), expit(ETA)),
    ("bernoulli", "probit"): (np.tile([0, 1], 6), ndtr(ETA)),
    ("poisson", None): (np.arange(12), np.exp(ETA)),
    ("negative-binomial", None): (np.arange(12), np.exp(ETA)),
    ("gamma", None): (np.arange(1.0, 13.0), np.exp(ETA)),
    ("beta", None): (np.linspace(0.1, 0.9, 12), expit(ETA)),
}


def at_a_point(**values):
    draws = {name: np.full((64, *np.shape(value)), value, float) for name, value in values.items()}
    return make_evidence(posterior=draws)


@pytest.mark.parametrize("family, link", CASES)
def test_one_mean(family, link):
    y, mean = CASES[family, link]
    table = pd.DataFrame({"y": y, "x": X})
    found = fitted(ev.Regression("y ~ x", family, link), at_a_point(Intercept=0.3, x=0.5), table)
    np.testing.assert_allclose(found.predicted[:, 0], mean, rtol=1e-12)
    np.testing.assert_allclose(found.observed[:, 0], y)


def test_shares_of_trials_with_an_offset():
    table = pd.DataFrame({"y": np.arange(12), "n": np.full(12, 20), "x": X, "known": X**2})
    regression = ev.Regression("y | n ~ x + offset(known)", "binomial")
    found = fitted(regression, at_a_point(Intercept=0.3, x=0.5), table)
    np.testing.assert_allclose(found.predicted[:, 0], expit(ETA + X**2), rtol=1e-12)
    np.testing.assert_allclose(found.observed[:, 0], np.arange(12) / 20)


def test_rows_without_trials_have_no_share():
    table = pd.DataFrame({"y": [0, 3, 0, 5], "n": [0, 4, 0, 9], "x": X[:4]})
    found = fitted(ev.Regression("y | n ~ x", "binomial"), at_a_point(Intercept=0.3, x=0.5), table)
    np.testing.assert_allclose(found.observed[:, 0], [3 / 4, 5 / 9])
    np.testing.assert_allclose(found.predicted[:, 0], expit(ETA[[1, 3]]), rtol=1e-12)


def test_categories():
    table = pd.DataFrame({"y": np.tile(["a", "b", "c"], 4), "x": X})
    evidence = at_a_point(Intercept=[0.3, -0.2], x=[0.5, 1.0])
    found = fitted(ev.Regression("y ~ x", "categorical"), evidence, table)
    logits = np.column_stack([np.zeros(12), ETA, -0.2 + X])
    np.testing.assert_allclose(found.predicted, softmax(logits, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(found.observed, np.tile(np.eye(3), (4, 1)))
    assert found.labels == ("a", "b", "c")


def test_ordered_categories():
    table = pd.DataFrame({"y": np.tile([1, 2, 3], 4), "x": X})
    evidence = at_a_point(cutpoints=[-1.0, 0.5], x=0.5)
    found = fitted(ev.Regression("y ~ x", "ordinal"), evidence, table)
    below = expit(np.array([-1.0, 0.5]) - 0.5 * X[:, None])
    wanted = np.column_stack([below[:, 0], below[:, 1] - below[:, 0], 1 - below[:, 1]])
    np.testing.assert_allclose(found.predicted, wanted, rtol=1e-12)


def test_a_long_table_is_thinned_evenly():
    count = 2 * MOST_ROWS + 1
    table = pd.DataFrame({"y": np.arange(count) % 7, "x": np.arange(count)})
    found = fitted(ev.Regression("y ~ x"), at_a_point(Intercept=0.0, x=1.0), table)
    np.testing.assert_allclose(found.predicted[:, 0], np.arange(0, count, 3))


def test_an_offset_that_is_centred_is_so_by_the_table_it_was_learnt_on():
    z = np.linspace(0.0, 5.0, 40)
    x, noise = np.random.default_rng(0).normal(size=(2, 40))
    table = {"y": 2 * x + z - z.mean() + 0.1 * noise, "x": x, "z": z}
    selection = ev.select_terms("y ~ x + offset(center(z))", table)
    few = {name: values[30:] for name, values in table.items()}
    np.testing.assert_allclose(selection.predict(few), selection.predict(table)[30:], atol=1e-9)


def test_intervals_of_group_means_are_those_of_simulated_means():
    observed = np.arange(10.0)[:, None]
    simulated = observed + np.linspace(-1, 1, 41)[:, None, None]
    found = grouped(Fitted(observed, observed, simulated, ("y",)))
    np.testing.assert_allclose(found.observed["y"], [2.0, 7.0])
    np.testing.assert_allclose(found.low["y"], [1.05, 6.05])
    np.testing.assert_allclose(found.high["y"], [2.95, 7.95])
    assert (found.num_outside, found.num_groups) == (0, 2)
    shifted = grouped(Fitted(observed + 1.2, observed, simulated, ("y",)))
    assert (shifted.num_outside, shifted.outside("y").tolist()) == (2, [True, True])


def test_few_group_means_are_outside_where_the_formula_is_true():
    """By chance at most 5%, and fewer as the draws have seen the rows."""
    generator, outside, groups = np.random.default_rng(7), 0, 0
    for _ in range(8):
        x = generator.normal(size=100)
        table = pd.DataFrame({"y": 0.5 * x + generator.normal(size=100), "x": x})
        regression = ev.Regression("y ~ x")
        found = grouped(fitted(regression, ev.estimate(regression, table), table))
        outside, groups = outside + found.num_outside, groups + found.num_groups
    assert groups == 160
    assert 0 < outside <= stats.binom.ppf(0.99, groups, 0.05)


def test_many_are_outside_where_it_is_not():
    x = np.random.default_rng(8).normal(size=200)
    table = pd.DataFrame({"y": x**2 + 0.1 * np.sin(9 * x), "x": x})
    regression = ev.Regression("y ~ x")
    found = grouped(fitted(regression, ev.estimate(regression, table), table))
    assert found.num_outside > 5
    text = _outside(found)
    assert text.endswith("more than by chance: the formula misses something.")


def test_counts_and_shares_are_simulated_in_their_range():
    table = pd.DataFrame({"y": np.arange(12), "n": np.full(12, 20), "x": X})
    evidence = at_a_point(Intercept=0.3, x=0.5)
    regression = ev.Regression("y | n ~ x", "binomial")
    evidence = replace(
        evidence, _predictor=FormulaPredictor(frame_of(parse("y | n ~ x"), table), "binomial", regression.law)
    )
    found = fitted(regression, evidence, table)
    assert found.simulated.shape == (1000, 12, 1)
    assert found.simulated.min() >= 0 and found.simulated.max() <= 1
    np.testing.assert_allclose(found.simulated.mean(axis=0)[:, 0], expit(ETA), atol=4 * 0.5 / np.sqrt(20_000))


def test_categories_are_simulated_as_shares():
    table = as_table({"y": np.tile(["a", "b", "c"], 4), "x": X}, ["y", "x"])
    regression = ev.Regression("y ~ x", "categorical")
    frame = frame_of(parse("y ~ x"), table)
    evidence = replace(
        at_a_point(Intercept=[0.3, -0.2], x=[0.5, 1.0]),
        _predictor=FormulaPredictor(frame, "categorical", regression.law, ("a", "b", "c")),
    )
    found = fitted(regression, evidence, table)
    np.testing.assert_allclose(found.simulated.sum(axis=2), 1)
    np.testing.assert_allclose(found.simulated.mean(axis=0), found.predicted, atol=4 * 0.5 / np.sqrt(1000))


def test_a_formula_without_columns_predicts_each_row():
    evidence = ev.estimate(ev.Regression("y ~ 1"), {"y": [1.0, 2.0, 4.0, 3.0]})
    assert evidence.predict({"x": [1.0, 2.0]})["y"].shape == (1000, 2)
