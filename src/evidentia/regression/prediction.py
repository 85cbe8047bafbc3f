"""Predictions of a regression for rows of its table, beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import expit, softmax

from evidentia.errors import quietly
from evidentia.regression.censored import events_of
from evidentia.regression.design import evaluate
from evidentia.regression.families import CATEGORIES, Family
from evidentia.regression.formula import Formula, parse
from evidentia.regression.frame import frame_of
from evidentia.regression.predictive import FormulaPredictor
from evidentia.regression.regression import Regression
from evidentia.regression.response import respond
from evidentia.regression.table import as_table
from evidentia.results.predicted import Chosen
from evidentia.results.result import Evidence

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ROWS = 20_000
MOST_NUMBERS = 1 << 23  # of draws, rows and columns together: 64 MiB
FEWEST_DRAWS, MOST_DRAWS = 100, 1000
MOST_GROUPS = 20
GROUP_SIZE = 5  # at least
ENDS = 0.025, 0.975  # of the predictive interval of a group's mean


class Fitted(NamedTuple):
    """Observed and predicted responses: one column, or one per category.

    Attributes:
        observed: values, shares of successes, or 1 in the column of the observed category.
        predicted: their posterior means, given the effects of the groups of each row.
        simulated: draws of them from the posterior predictive distribution; none for a result
            that cannot simulate.
        labels: of the columns: the categories, or the name of the response.
    """

    observed: Float[ndarray, "rows columns"]
    predicted: Float[ndarray, "rows columns"]
    simulated: Float[ndarray, "draws rows columns"]
    labels: tuple[str, ...]


class GroupedFit(NamedTuple):
    """Means over groups of rows with similar predictions; arrays by label.

    Attributes:
        observed, predicted: their means in each group.
        low, high: the central 95% interval of such a mean, posterior predictive.
    """

    observed: dict[str, Float[ndarray, " groups"]]
    predicted: dict[str, Float[ndarray, " groups"]]
    low: dict[str, Float[ndarray, " groups"]]
    high: dict[str, Float[ndarray, " groups"]]

    @property
    def num_groups(self) -> int:
        """The number of groups of all labels together."""
        return sum(len(one) for one in self.observed.values())

    @property
    def num_outside(self) -> int:
        """How many observed means are outside of their interval."""
        return sum(int(self.outside(label).sum()) for label in self.observed)

    def outside(self, label: str) -> ndarray:
        """Which observed means of a label are outside of their interval."""
        slack = 1e-9 * np.abs(self.observed[label])  # of means of the same numbers
        above = self.observed[label] > self.high[label] + slack
        return above | (self.observed[label] < self.low[label] - slack)


def fitted(regression: Regression, evidence: Evidence, table: DataFrame) -> Fitted:
    """The responses of at most about `MOST_ROWS` rows, evenly spread over a table.

    Args:
        regression: whose evidence was estimated.
        evidence: of the table, with posterior draws in its units.
        table: without missing values.
    """
    formula, law = parse(regression.formula), regression.law
    most = min(MOST_ROWS, max(MOST_NUMBERS // (FEWEST_DRAWS * _num_columns(formula, law, table)), 100))
    rows = slice(None, None, -(-len(table) // most))
    observed, labels = _observed(formula, law, table, rows)
    few = table.iloc[rows].reset_index(drop=True)
    count = int(np.clip(MOST_NUMBERS // observed.size, FEWEST_DRAWS, MOST_DRAWS))
    chosen, predictor = evidence.weighted.equal(evidence.seed, count), evidence._predictor
    if not isinstance(predictor, FormulaPredictor):
        with quietly():
            predictor = FormulaPredictor(
                frame_of(formula, as_table(table, formula.variables)), regression.family, law
            )
    generator = np.random.default_rng(evidence.seed)
    means = _means(law, chosen, predictor.predictors(chosen, few, generator)).mean(axis=0)
    simulated = np.zeros((0, *observed.shape))
    has_value = np.isfinite(observed).all(axis=1)  # no share of successes of no trials
    if evidence._predictor is not None and has_value.any():
        drawn = predictor(chosen, few, evidence.seed)[formula.response]
        simulated = _as_observed(formula, predictor, few, drawn)
    return Fitted(observed[has_value], means[has_value], simulated[:, has_value], labels)


def grouped(found: Fitted) -> GroupedFit:
    """Means over up to 20 groups of equal size, of at least 5 rows, in the order of predictions.

    With draws y' of the responses, the interval of a group's mean is that of the means of y'.
    Where the model is true, at most about 5% of the observed means are outside: fewer where there
    are few rows for each coefficient, as the draws have seen these rows.
    """
    means = GroupedFit({}, {}, {}, {})
    num_groups = min(
        max(MOST_GROUPS // len(found.labels), GROUP_SIZE), max(len(found.predicted) // GROUP_SIZE, 1)
    )
    for column, label in enumerate(found.labels):
        order = np.argsort(found.predicted[:, column], kind="stable")
        groups = np.array_split(order, num_groups)
        means.observed[label] = np.array([found.observed[one, column].mean() for one in groups])
        means.predicted[label] = np.array([found.predicted[one, column].mean() for one in groups])
        simulated = [found.simulated[:, one, column].mean(axis=1) for one in groups]
        cuts = [np.quantile(one, ENDS) if len(one) else np.full(2, np.nan) for one in simulated]
        means.low[label], means.high[label] = np.stack(cuts, axis=1)
    return means


def _means(law: Family, chosen: Chosen, predictor: ndarray) -> Float[ndarray, "draws rows columns"]:
    """The mean responses at linear predictors."""
    if law.kind == "category":
        reference = np.zeros((*predictor.shape[:2], 1))
        return softmax(np.concatenate([reference, predictor], axis=2), axis=2)
    if law.kind == "ordered":
        below = expit(chosen.draws["cutpoints"][:, None, :] - predictor[:, :, None])
        ends = np.zeros((*below.shape[:2], 1)), np.ones((*below.shape[:2], 1))
        return np.diff(np.concatenate([ends[0], below, ends[1]], axis=2), axis=2)
    extra = {name: chosen.draws[name][:, None] for name in law.of_mean}
    return np.asarray(law.mean(predictor, extra))[:, :, None]


def _as_observed(
    formula: Formula, predictor: FormulaPredictor, few: DataFrame, drawn: ndarray
) -> Float[ndarray, "draws rows columns"]:
    """Drawn responses in the form of the observed ones."""
    if predictor.law.kind in ("category", "ordered"):
        return np.stack([drawn == level for level in predictor.levels], axis=2).astype(np.float64)
    drawn = np.asarray(drawn, np.float64)
    if formula.left.form == "trials":
        assert formula.left.second is not None
        trials = evaluate(formula.left.second, few, formula).to_numpy(np.float64)
        with np.errstate(invalid="ignore"):
            drawn = drawn / trials
    return drawn[:, :, None]


def _num_columns(formula: Formula, law: Family, table: DataFrame) -> int:
    is_wide = law.kind in ("category", "ordered")
    return evaluate(formula.response, table, formula).nunique() if is_wide else 1


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
