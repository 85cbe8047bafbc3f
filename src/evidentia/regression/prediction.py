"""Predictions of a regression for rows of its table, beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import expit, softmax

from evidentia.regression.censored import events_of
from evidentia.regression.design import evaluate, learn, learn_expression
from evidentia.regression.families import CATEGORIES, Family
from evidentia.regression.formula import INTERCEPT, Formula, parse
from evidentia.regression.regression import Regression
from evidentia.regression.response import respond
from evidentia.results.result import Evidence

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ROWS = 20_000
NUM_DRAWS = 64


class Fitted(NamedTuple):
    """Observed and predicted responses: one column, or one per category.

    Attributes:
        observed: values, shares of successes, or 1 in the column of the observed category.
        predicted: their posterior means.
        labels: of the columns: the categories, or the name of the response.
        are_categories: whether the columns are.
    """

    observed: Float[ndarray, "rows columns"]
    predicted: Float[ndarray, "rows columns"]
    labels: tuple[str, ...]
    are_categories: bool


def fitted(regression: Regression, evidence: Evidence, table: DataFrame) -> Fitted:
    """The responses of at most about `MOST_ROWS` rows, evenly spread over a table.

    Args:
        regression: whose evidence was estimated.
        evidence: of the table, with posterior draws in its units.
        table: without missing values.
    """
    formula, law = parse(regression.formula), regression.law
    rows = slice(None, None, -(-len(table) // MOST_ROWS))
    predictor, draws = _predictor(formula, evidence, table, rows)
    observed, labels = _observed(formula, law, table, rows)
    if law.kind == "category":
        reference = np.zeros((*predictor.shape[:2], 1))
        means = softmax(np.concatenate([reference, predictor], axis=2), axis=2)
    elif law.kind == "ordered":
        below = expit(evidence.weighted["cutpoints"][draws] - predictor)
        ends = np.zeros((*below.shape[:2], 1)), np.ones((*below.shape[:2], 1))
        means = np.diff(np.concatenate([ends[0], below, ends[1]], axis=2), axis=2)
    else:
        extra = {name: evidence.weighted[name][draws][:, None] for name in law.of_mean}
        means = law.mean(predictor, extra)
    has_value = np.isfinite(observed).all(axis=1)  # no share of successes of no trials
    return Fitted(observed[has_value], means.mean(axis=1)[has_value], labels, law.kind in CATEGORIES)


def _predictor(
    formula: Formula, evidence: Evidence, table: DataFrame, rows: slice
) -> tuple[Float[ndarray, "rows draws outputs"], ndarray]:
    """The linear predictor at some posterior draws, and the places of these draws."""
    few = table.iloc[rows]
    design = learn(formula, formula.terms, table)
    generator = np.random.default_rng(evidence.seed)
    draws = generator.choice(evidence.num_particles, NUM_DRAWS, p=np.exp(evidence.weighted.log_weights))

    def values(name: str) -> Float[ndarray, "draws outputs"]:
        return evidence.weighted[name][draws].reshape(NUM_DRAWS, -1)

    predictor = np.zeros((len(few), NUM_DRAWS, 1))
    for name, column in zip(design.names, design.columns(few).T, strict=True):
        if name not in evidence.weighted:  # left out, as others determine it
            continue
        predictor = predictor + column[:, None, None] * values(name)
    if INTERCEPT in evidence.weighted:
        predictor = predictor + values(INTERCEPT)
    for one in formula.offsets:
        offset = learn_expression(f"offset({one})", table, formula).values(few)
        predictor = predictor + offset.to_numpy(np.float64)[:, None, None]
    return predictor, draws


def _observed(
    formula: Formula, law: Family, table: DataFrame, rows: slice
) -> tuple[Float[ndarray, "rows columns"], tuple[str, ...]]:
    column = evaluate(formula.response, table, formula)
    if law.kind in CATEGORIES:
        response = respond(column, None, np.zeros(len(column)), law, formula.response, formula.has_intercept)
        codes, labels = response.arrays["y"][rows], tuple(map(str, response.levels))
        if law.kind == "binary":
            return codes[:, None].astype(np.float64), labels[1:]
        return np.eye(len(labels))[codes], labels
    observed = column.to_numpy(np.float64)[rows]
    left = formula.left
    if left.second is not None and left.form != "error":
        second = evaluate(left.second, table, formula).to_numpy()
        if left.form == "trials":
            with np.errstate(invalid="ignore"):
                observed = observed / second[rows].astype(np.float64)
        elif not events_of(second, len(second)).all():  # means of the events alone would be too early
            observed = np.full(len(observed), np.nan)
    return observed[:, None], (formula.response,)
