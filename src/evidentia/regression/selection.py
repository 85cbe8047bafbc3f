"""`select_terms`: all sub-models of a formula, and how probable each term is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.display import text
from evidentia.errors import ConfigurationError, check_positive
from evidentia.regression import g_prior
from evidentia.regression.exact import JZS_SCALE, sums_of
from evidentia.regression.formula import evaluate, parse
from evidentia.regression.frame import Frame, frame_of
from evidentia.regression.streamed import rows_of
from evidentia.regression.table import as_table

MOST_MODELS = 2**14
MODEL_PRIORS = "uniform", "beta-binomial"
SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class TermSelection:
    """Sub-models of a formula, the most probable first.

    Attributes:
        terms: of the formula, without the intercept.
        included: whether each model has each term.
        log_bayes_factor: of each model against that without terms, in nats.
        prior_probability: of each model.
        probability: of each model, given the data.
        inclusion_probability: of each term: the sum over the models that have it.
        prior_inclusion_probability: the same before the data.
        coefficients: posterior means averaged over the models, by name, in the units of the table;
            0 counts for models without the term.
        num_observations: rows of the table that were used.

    Example:
        >>> selection = ev.select_terms("rating ~ complaints + learning", table)  # doctest: +SKIP
        >>> selection.inclusion_probability["learning"]  # doctest: +SKIP
        0.33
    """

    terms: tuple[str, ...]
    included: Bool[ndarray, "models terms"]
    log_bayes_factor: Float[ndarray, " models"]
    prior_probability: Float[ndarray, " models"]
    probability: Float[ndarray, " models"]
    coefficients: dict[str, float]
    num_observations: int
    _frame: Frame

    @property
    def inclusion_probability(self) -> dict[str, float]:
        """Of each term, given the data."""
        return dict(zip(self.terms, (self.probability @ self.included).tolist(), strict=True))

    @property
    def prior_inclusion_probability(self) -> dict[str, float]:
        """Of each term, before the data."""
        return dict(zip(self.terms, (self.prior_probability @ self.included).tolist(), strict=True))

    @property
    def formulas(self) -> list[str]:
        """Of the models, as `Regression` takes them."""
        left, own = self._frame.formula.text.split("~")[0].strip(), self._frame.formula
        offsets = tuple(f"offset({one})" for one in own.offsets)
        chosen = [
            tuple(term for term, is_in in zip(self.terms, row, strict=True) if is_in) for row in self.included
        ]
        return [f"{left} ~ {own.right_hand_side((*terms, *offsets))}" for terms in chosen]

    def predict(self, table: Any) -> Float[ndarray, " rows"]:
        """The mean of the response for the rows of a table, averaged over the models.

        Raises:
            DataError: missing columns or values, or categories that the first table did not have.
        """
        formula = self._frame.formula
        needed = [name for name in formula.variables if name not in formula.response_variables]
        given = as_table(table, needed, "error")
        predicted = self._frame.design.columns(given) @ np.array(
            [self.coefficients[n] for n in self._frame.names]
        )
        predicted += self.coefficients.get("Intercept", 0.0)
        for one in formula.offsets:
            predicted += evaluate(f"I({one})", given, formula).to_numpy(np.float64)
        return predicted

    def __repr__(self) -> str:
        return text.table(*self._cells())

    def _repr_html_(self) -> str:
        return text.html_table(*self._cells())

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header = ("model", "log Bayes factor", "probability")
        rows = [
            (formula, f"{factor:.2f}", text.probability(probability))
            for formula, factor, probability in zip(
                self.formulas[:SHOWN], self.log_bayes_factor, self.probability, strict=False
            )
        ]
        if more := len(self.included) - SHOWN:
            rows += [(f"… {more:,} more", "", "")] if more > 0 else []
        terms = [
            (f"P({term})", "", text.probability(value)) for term, value in self.inclusion_probability.items()
        ]
        return header, rows + terms


def select_terms(
    formula: str,
    table: Any,
    *,
    prior: str = "jzs",
    prior_scale: float | None = None,
    model_prior: str = "uniform",
    missing: str = "drop",
) -> TermSelection:
    """The probabilities of all sub-models of a normal regression, and of its terms.

    A model with an interaction has its parts as well. The sums over the rows are made once, so
    that a thousand models cost little more than one; each evidence is exact (see `Regression`).

    Args:
        formula: of the largest model; the intercept and offsets are in all.
        table: as for `Regression`.
        prior: of the effects, `"jzs"` or `"unit-information"`.
        prior_scale: of JZS; √2/4 if not given.
        model_prior: `"uniform"` over the models, or `"beta-binomial"`: uniform over the number of
            terms, and over the models with this number (Scott and Berger 2010).
        missing: as for `Regression`; all models have the same rows.

    Raises:
        ConfigurationError: an invalid argument, or more than 16,384 models.
        DataError: a table that cannot be used.

    Example:
        >>> ev.select_terms("rating ~ complaints + learning", table)  # doctest: +SKIP
    """
    if prior not in ("jzs", "unit-information"):
        raise ConfigurationError(f"prior must be 'jzs' or 'unit-information'; got {prior!r}.")
    if model_prior not in MODEL_PRIORS:
        raise ConfigurationError(
            f"model_prior must be one of {', '.join(MODEL_PRIORS)}; got {model_prior!r}."
        )
    if prior_scale is not None:
        check_positive("prior_scale", prior_scale)
    scale = None if prior == "unit-information" else prior_scale or JZS_SCALE
    parsed = parse(formula)
    included = well_formed(parsed.terms)
    frame = frame_of(parsed, rows_of(table, parsed.variables, missing))
    sums = sums_of(frame)
    places = [np.r_[frame.terms[term]] for term in parsed.terms]
    factors, effects = np.zeros(len(included)), np.zeros((len(included), len(frame.names)))
    for model, row in enumerate(included):
        chosen = np.concatenate(
            [np.zeros(0, int), *(one for one, is_in in zip(places, row, strict=True) if is_in)]
        )
        fit = g_prior.least_squares(sums, chosen)
        factors[model] = g_prior.log_bayes_factor(sums, fit, scale)
        effects[model, chosen] = fit.effects * g_prior.mean_shrinkage(sums, fit, scale)
    weights = prior_over_models(included, model_prior)
    log_joint = factors + np.log(weights)
    probability = np.exp(log_joint - log_joint.max())
    probability /= probability.sum()
    order = np.argsort(-probability, kind="stable")
    averaged = probability @ effects * sums.deviations[-1] / frame.deviations
    coefficients = dict(zip(frame.names, averaged.tolist(), strict=True))
    if parsed.has_intercept:
        coefficients = {"Intercept": float(sums.means[-1] - averaged @ frame.means), **coefficients}
    return TermSelection(
        parsed.terms,
        included[order],
        factors[order],
        weights[order],
        probability[order],
        coefficients,
        frame.num_rows,
        frame,
    )


def well_formed(terms: tuple[str, ...]) -> Bool[ndarray, "models terms"]:
    """All sets of terms that have, with an interaction, those of the terms that are its parts.

    Raises:
        ConfigurationError: more than `MOST_MODELS`.

    Example:
        >>> well_formed(("a", "b", "a:b")).sum(axis=0).tolist()  # {}, a, b, a + b, a * b
        [3, 3, 1]
    """
    parts = [frozenset(term.split(":")) for term in terms]
    within = [[low for low, part in enumerate(parts) if part < whole] for whole in parts]
    models: list[tuple[bool, ...]] = [()]
    for lows in (within[term] for term in range(len(terms))):  # parts come before their interaction
        models = [
            (*row, choice)
            for row in models
            for choice in (False, True)
            if not choice or all(row[i] for i in lows)
        ]
        if len(models) > MOST_MODELS:
            raise ConfigurationError(
                f"formula has more than {MOST_MODELS:,} sub-models; give select_terms fewer terms than these "
                f"{len(terms)}, or compare single models by ev.compare."
            )
    return np.array(models, bool).reshape(len(models), len(terms))


def prior_over_models(included: Bool[ndarray, "models terms"], choice: str) -> Float[ndarray, " models"]:
    """Prior probabilities of the models."""
    if choice == "uniform":
        return np.full(len(included), 1 / len(included))
    sizes = included.sum(axis=1)
    counts = np.bincount(sizes)
    return 1 / counts[sizes] / np.count_nonzero(counts)
