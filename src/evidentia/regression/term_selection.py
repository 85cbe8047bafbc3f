"""The result of `select_terms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.display import text, words
from evidentia.errors import ConfigurationError
from evidentia.regression.families import Family
from evidentia.regression.frame import Frame
from evidentia.regression.table import as_table
from evidentia.results.configurations import jsonable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

SHOWN = 10
MOST_KEPT = 1000  # models in a dictionary
BLOCK = 2**22  # numbers of rows times draws


@dataclass(frozen=True, eq=False, repr=False)
class TermSelection:
    """Sub-models of a formula, all or those that a search visited, the most probable first.

    Attributes:
        terms: of the formula, without the intercept.
        included: whether each model has each term.
        log_bayes_factor: of each model against that without terms, in nats.
        log_bayes_factor_error: its standard error, in nats; 0 where the evidence is exact.
        prior_probability: of each model.
        probability: of each model, given the data.
        probability_error: its standard error, from those of the evidences (see `compare`); NaN for
            a search, whose normalising constant is estimated.
        inclusion_probability: of each term, given the data: the sum over the models that have it.
        inclusion_probability_error: its standard error, from the chains of a search or the errors
            of the evidences; 0 where all models have an exact evidence.
        prior_inclusion_probability: the same before the data.
        coefficients: posterior means averaged over the models, by name, in the units of the table;
            0 counts for models without the term. Arrays over the categories but the first for the
            family categorical.
        num_observations: rows of the table that were used.
        num_models: sub-models that the formula has.
        visited_probability: of the models above together: 1 if these are all, otherwise an
            estimate. NaN if the chains of a search have no model in common; `probability` is then
            relative to the visited models.

    Example:
        >>> selection = ev.select_terms("rating ~ complaints + learning", table)  # doctest: +SKIP
        >>> selection.inclusion_probability["learning"]  # doctest: +SKIP
        0.33
    """

    terms: tuple[str, ...]
    included: Bool[ndarray, "models terms"]
    log_bayes_factor: Float[ndarray, " models"]
    log_bayes_factor_error: Float[ndarray, " models"]
    prior_probability: Float[ndarray, " models"]
    probability: Float[ndarray, " models"]
    probability_error: Float[ndarray, " models"]
    inclusion_probability: dict[str, float]
    inclusion_probability_error: dict[str, float]
    prior_inclusion_probability: dict[str, float]
    coefficients: dict[str, Any]
    num_observations: int
    num_models: float
    visited_probability: float
    _frame: Frame
    _family: Family
    _draws: Float[ndarray, "draws coefficients"]  # for `predict`, as in `Averages`

    @property
    def formulas(self) -> list[str]:
        """Of the models, as `Regression` takes them."""
        return self._formulas(len(self.included))

    def predict(self, table: Any) -> Float[ndarray, " rows"]:
        """The mean of the response for the rows of a table, averaged over the models.

        For bernoulli it is the probability of the second value, for binomial the share of
        successes, for student-t the location.

        Raises:
            ConfigurationError: a family whose responses have no mean: categorical or ordinal.
            DataError: missing columns or values, or categories that the first table did not have.
        """
        if self._family.kind in ("category", "ordered"):
            raise ConfigurationError(
                "predict is not for the families categorical and ordinal, whose responses have no mean. Use the posterior "
                "of ev.estimate(ev.Regression(...), table) for the best of `formulas`."
            )
        formula = self._frame.formula
        needed = [name for name in formula.variables if name not in formula.response_variables]
        given = as_table(table, needed, "error")
        columns = self._frame.design.columns(given)
        offset = self._frame.offset(given)
        offset = np.zeros(len(given)) if offset is None else offset
        size = 1 + columns.shape[1]
        extra = dict(zip(self._family.of_mean, self._draws[:, size:].T, strict=True))
        predicted = np.zeros(len(given))
        for rows in np.array_split(np.arange(len(given)), -(-len(given) * len(self._draws) // BLOCK)):
            eta = columns[rows] @ self._draws[:, 1:size].T + self._draws[:, 0] + offset[rows, None]
            predicted[rows] = self._family.mean(eta, extra).mean(axis=1)
        return predicted

    def to_pandas(self) -> DataFrame:
        """A row for each term: its probability given the data, the error, and that before."""
        from pandas import DataFrame

        return DataFrame(self._terms()).T

    def to_dict(self) -> dict[str, Any]:
        """The terms and the 1,000 most probable models, for JSON; unknown numbers are None."""
        columns = {
            "log_bayes_factor": self.log_bayes_factor,
            "standard_error": self.log_bayes_factor_error,
            "prior_probability": self.prior_probability,
            "probability": self.probability,
        }
        models = {
            formula: {name: values[place] for name, values in columns.items()}
            for place, formula in enumerate(self._formulas(MOST_KEPT))
        }
        return jsonable(
            {
                "formula": self._frame.formula.text,
                "num_observations": self.num_observations,
                "num_models": self.num_models,
                "visited_probability": self.visited_probability,
                "terms": self._terms(),
                "models": models,
                "coefficients": self.coefficients,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the probability of each term beside that before the data.

        `ax` are axes to draw into; a new pyplot figure if not given. Returns the axes.
        """
        from evidentia.display.terms_plot import draw_terms

        return draw_terms(
            self.inclusion_probability,
            self.inclusion_probability_error,
            self.prior_inclusion_probability,
            ax,
        )

    def _terms(self) -> dict[str, dict[str, float]]:
        return {
            term: {
                "probability": probability,
                "standard_error": self.inclusion_probability_error[term],
                "prior_probability": self.prior_inclusion_probability[term],
            }
            for term, probability in self.inclusion_probability.items()
        }

    def __repr__(self) -> str:
        return text.narrow_table(*self._cells())

    def _repr_html_(self) -> str:
        return text.html_table(*self._cells())

    def _formulas(self, count: int) -> list[str]:
        chosen = [
            tuple(term for term, is_in in zip(self.terms, row, strict=True) if is_in)
            for row in self.included[:count]
        ]
        return list(map(self._frame.formula.with_terms, chosen))

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header = ("model", "log BF (nats)", "BF", "evidence", "probability")
        columns = (self.log_bayes_factor, self.log_bayes_factor_error, self.probability)
        rows = [
            (
                formula,
                text.with_error(factor, error),
                words.short(factor),
                words.evidence(factor),
                text.probability(probability, spread or None),
            )
            for formula, factor, error, probability, spread in zip(
                self._formulas(SHOWN), *columns, np.nan_to_num(self.probability_error), strict=False
            )
        ]
        if more := max(len(self.included) - SHOWN, 0):
            rows += [(f"… {more:,} more", "", "", "", "")]
        if len(self.included) < self.num_models:
            visited = f"all {len(self.included):,} visited, of {self.num_models:,.3g}"
            rows += [(visited, "", "", "", text.probability(self.visited_probability))]
        errors = self.inclusion_probability_error
        return header, rows + [
            (f"P({term})", "", "", "", text.probability(value, errors[term] or None))
            for term, value in self.inclusion_probability.items()
        ]
