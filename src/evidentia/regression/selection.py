"""`select_terms`: the sub-models of a formula, and how probable each term is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, DiagnosticWarning, check_seed, quietly, warn
from evidentia.regression.averages import Averages
from evidentia.regression.design import learn
from evidentia.regression.estimated_models import estimated
from evidentia.regression.exact import FINITE, JZS_SCALE, sums_of
from evidentia.regression.families import family as family_of
from evidentia.regression.formula import parse
from evidentia.regression.frame import Frame, frame_of
from evidentia.regression.g_prior import Sums, least_squares
from evidentia.regression.g_prior_models import Fits, fits_of, log_bayes_factors
from evidentia.regression.model_search import search
from evidentia.regression.model_space import MOST_LISTED, ModelSpace, model_space, well_formed
from evidentia.regression.neighbours import Neighbours
from evidentia.regression.perfect_fit import PERFECT, check_fit, rounding
from evidentia.regression.regression import Regression
from evidentia.regression.streamed import Streamed, rows_of
from evidentia.regression.term_selection import TermSelection

if TYPE_CHECKING:
    from pandas import DataFrame

TOO_UNCERTAIN = 0.05  # standard error of a term's probability, above which chains disagree
BLOCK = 2**22  # numbers in the effects of some models


def select_terms(
    formula: str,
    table: Any,
    *,
    family: str = "gaussian",
    link: str | None = None,
    prior: str | None = None,
    prior_scale: float | None = None,
    model_prior: str = "uniform",
    missing: str = "drop",
    seed: int = 0,
) -> TermSelection:
    """The probabilities of the sub-models of a regression, and of its terms.

    A model with an interaction has its parts as well. For the family gaussian under `"jzs"` and
    `"unit-information"` each evidence is exact. The sums over the rows are made once, so that a
    thousand models cost little more than one; of more than 16,384 sub-models, those that a
    weighted tempered Gibbs sampler visits are weighed, and terms have standard errors. Otherwise
    each evidence is estimated by `SGAIS()`, of at most 256 sub-models.

    Args:
        formula: of the largest model; the intercept and offsets are in all.
        table: as for `Regression`.
        family: as for `Regression`.
        link: as for `Regression`.
        prior: as for `Regression`.
        prior_scale: as for `Regression`.
        model_prior: `"uniform"` over the models, or `"beta-binomial"`: uniform over the number of
            terms, and over the models with this number (Scott and Berger 2010).
        missing: as for `Regression`; all models have the same rows.
        seed: of a search and of estimates.

    Raises:
        ConfigurationError: an invalid argument; more than 256 models to estimate.
        DataError: a table that cannot be used; a response that some terms explain exactly.

    Example:
        >>> ev.select_terms("rating ~ complaints + learning", table)  # doctest: +SKIP

    Source: Zanella and Roberts (2019), Journal of the Royal Statistical Society B 81, 489.
    """
    regression = Regression(formula, family, link, prior, prior_scale, missing=missing)
    check_seed(seed)
    parsed = parse(formula)
    if parsed.varying:
        raise ConfigurationError(
            f"select_terms takes no effects that vary by group, as in {formula!r}; compare Regressions with and without them."
        )
    space = model_space(parsed.terms, model_prior)
    rows = rows_of(table, parsed.variables, missing)
    frame = frame_of(parsed, rows)
    _check_coding(frame, space, rows.sample if isinstance(rows, Streamed) else rows)
    if not regression.is_exact:
        rows = rows.in_memory() if isinstance(rows, Streamed) else rows
        found = estimated(regression, frame, rows, space, int(seed))
    else:
        scale = None if prior == "unit-information" else prior_scale or JZS_SCALE
        is_listed = space.num_models <= MOST_LISTED
        found = _listed(frame, space, scale) if is_listed else _searched(frame, space, scale, int(seed))
    order = np.lexsort((-found.log_bayes_factor, -found.probability))  # of equal ones, the better first
    return TermSelection(
        terms=space.terms,
        included=found.included[order],
        log_bayes_factor=found.log_bayes_factor[order],
        log_bayes_factor_error=found.log_bayes_factor_error[order],
        prior_probability=np.exp(space.log_prior[found.included[order].sum(axis=1)]),
        probability=found.probability[order],
        probability_error=found.probability_error[order],
        inclusion_probability=_by_term(space, found.inclusion),
        inclusion_probability_error=_by_term(space, found.inclusion_error),
        prior_inclusion_probability=_by_term(space, space.prior_inclusion),
        coefficients=found.coefficients,
        num_observations=frame.num_rows,
        num_models=space.num_models,
        visited_probability=found.visited_probability,
        _frame=frame,
        _family=family_of(family, link),
        _draws=found.draws,
    )


def _check_coding(frame: Frame, space: ModelSpace, table: DataFrame) -> None:
    """Refuse factors whose columns depend on which other terms are in the model.

    Without an intercept, the first of several factors has a column for each category, and the
    others have one fewer: a sub-model without the first would not be the formula's own.
    """
    if frame.formula.has_intercept:
        return
    for term, needs in zip(space.terms, space.needs, strict=True):
        place = frame.terms[term]
        own = tuple(
            one for one, is_needed in zip(space.terms, needs, strict=True) if is_needed or one == term
        )
        alone = learn(frame.formula, own, table)
        if alone.names[alone.terms[term]] != frame.names[place]:
            raise ConfigurationError(
                f"select_terms needs an intercept for {frame.formula.text!r}: without it, the categories of {term!r} are coded "
                "in another way in models that lack the terms before it."
            )


def _listed(frame: Frame, space: ModelSpace, scale: float | None) -> Averages:
    """All models, each with its exact Bayes factor."""
    sums = sums_of(frame)
    included = well_formed(space.needs, MOST_LISTED)
    assert included is not None
    columns = included[:, _owners(frame)]
    fits = fits_of(sums, columns)
    _check_fits(frame, sums, columns, fits, scale)
    factors, shrinkages = log_bayes_factors(sums, fits, scale)
    log_joint = factors + space.log_prior[included.sum(axis=1)]
    probability = np.exp(log_joint - log_joint.max())
    probability /= probability.sum()
    coefficients = _coefficients(frame, sums, (probability * shrinkages) @ fits.effects)
    errors, none = _rounding(sums, fits, scale), np.zeros(len(included))
    inclusion = probability @ included
    return Averages(
        included, factors, errors, probability, none, inclusion, 0 * inclusion, 1.0, *coefficients
    )


def _searched(frame: Frame, space: ModelSpace, scale: float | None, seed: int) -> Averages:
    """The models that a search visits, with their exact Bayes factors."""
    sums, owners = sums_of(frame), _owners(frame)
    largest = np.ones((1, len(owners)), bool)
    _check_fits(frame, sums, largest, fits_of(sums, largest), scale)
    found = search(Neighbours(sums, scale, space, owners), space.needs, seed)
    factors, errors, effects = np.zeros(len(found.models)), np.zeros(len(found.models)), np.zeros(len(owners))
    size = max(BLOCK // max(len(owners), 1), 1)
    for block in np.array_split(np.arange(len(factors)), -(-len(factors) // size)):
        columns = found.models[block][:, owners]
        fits = fits_of(sums, columns)
        with quietly():  # the errors say how much is rounding
            _check_fits(frame, sums, columns, fits, scale)
        errors[block] = _rounding(sums, fits, scale)
        factors[block], shrinkages = log_bayes_factors(sums, fits, scale)
        effects += (found.weights[block] * shrinkages) @ fits.effects
    log_joint = factors + space.log_prior[found.models.sum(axis=1)]
    if found.inclusion_error.max() > TOO_UNCERTAIN:
        worst = int(found.inclusion_error.argmax())
        warn(
            [
                f"the chains of the search disagree: the probability of {space.terms[worst]} is "
                f"{found.inclusion[worst]:.2f} with a standard error of {found.inclusion_error[worst]:.2f}. Give "
                "select_terms fewer terms, or compare its results for several seeds."
            ],
            DiagnosticWarning,
        )
    return Averages(
        found.models,
        factors,
        errors,
        np.exp(log_joint - found.log_normaliser),
        np.full(len(factors), np.nan),
        found.inclusion,
        found.inclusion_error,
        found.visited_probability,
        *_coefficients(frame, sums, effects),
    )


def _check_fits(
    frame: Frame, sums: Sums, columns: Bool[ndarray, "models columns"], fits: Fits, scale: float | None
) -> None:
    """Refuse the smallest model that explains the response exactly, under JZS."""
    is_short = fits.ranks < sums.degrees_of_freedom
    if scale is None or not is_short.any():
        return
    least = fits.unexplained[is_short].min()
    worst = np.flatnonzero(is_short & (fits.unexplained <= max(least, PERFECT)))
    place = worst[columns[worst].sum(axis=1).argmin()]
    chosen = np.flatnonzero(columns[place])
    check_fit(frame, sums, least_squares(sums, chosen), chosen, FINITE)


def _rounding(sums: Sums, fits: Fits, scale: float | None) -> Float[ndarray, " models"]:
    """Errors of log Bayes factors by rounding, in nats; none under the g-prior with g = n."""
    errors = rounding(sums.degrees_of_freedom, fits.unexplained)
    return np.where((fits.ranks < sums.degrees_of_freedom) & (scale is not None), errors, 0.0)


def _owners(frame: Frame) -> ndarray:
    """The place of the term of each column."""
    owners = np.zeros(len(frame.names), int)
    for place, term in enumerate(frame.formula.terms):
        owners[frame.terms[term]] = place
    return owners


def _coefficients(
    frame: Frame, sums: Sums, effects: Float[ndarray, " columns"]
) -> tuple[dict[str, Any], Float[ndarray, "1 coefficients"]]:
    """Averaged effects in the units of the table, by name and with the intercept as one row."""
    averaged = effects * sums.deviations[-1] / frame.deviations
    intercept = float(sums.means[-1] - averaged @ frame.means) if frame.formula.has_intercept else 0.0
    coefficients = dict(zip(frame.names, averaged.tolist(), strict=True))
    if frame.formula.has_intercept:
        coefficients = {"Intercept": intercept, **coefficients}
    return coefficients, np.append(intercept, averaged)[None]


def _by_term(space: ModelSpace, values: ndarray) -> dict[str, float]:
    return dict(zip(space.terms, values.tolist(), strict=True))
