"""`select_terms`: the sub-models of a formula, and how probable each term is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, DiagnosticWarning, check_seed, warn
from evidentia.regression.averages import Averages
from evidentia.regression.design import Design, learn
from evidentia.regression.estimated_models import estimated
from evidentia.regression.exact import FINITE, sums_of
from evidentia.regression.formula import parse
from evidentia.regression.frame import Frame, frame_of
from evidentia.regression.g_prior import Sums
from evidentia.regression.g_prior_models import Fits, fits_of, log_bayes_factors
from evidentia.regression.model_search import search
from evidentia.regression.model_space import MOST_LISTED, ModelSpace, model_space, well_formed
from evidentia.regression.neighbours import Neighbours
from evidentia.regression.per_term.selected import listed_per_term
from evidentia.regression.perfect_fit import checked_fit, over_rows, rounding
from evidentia.regression.priors import JZS_SCALE
from evidentia.regression.quoting import factors_of
from evidentia.regression.regression import PER_TERM, SHARED, Regression
from evidentia.regression.streamed import Streamed
from evidentia.regression.term_selection import TermSelection
from evidentia.system.sharing import check_not_forked

if TYPE_CHECKING:
    from pandas import DataFrame

TOO_UNCERTAIN = 0.05  # standard error of a term's probability, above which chains disagree
BLOCK = 2**22  # numbers in the effects of some models
REFINED_FROM = 1e-3  # nats: the error of a log Bayes factor by rounding
MOST_REFINED = 64  # models, each with some passes over the rows; the others have more columns


def select_terms(
    formula: str,
    table: Any,
    *,
    family: str = "gaussian",
    link: str | None = None,
    prior: str | None = None,
    prior_scale: float | None = None,
    prior_probabilities: str = "uniform",
    missing: str = "drop",
    weights: str | None = None,
    seed: int = 0,
    g: str = SHARED,
) -> TermSelection:
    """The probabilities of the sub-models of a regression, and of its terms.

    A model with an interaction has its parts as well. Terms all of whose columns others determine
    are left out, with a warning: they count in no model. For the family gaussian under `"jzs"` and
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
        prior_probabilities: `"uniform"` over the models, or `"beta-binomial"`: uniform over the
            number of terms, and over the models with this number (Scott and Berger 2010).
        missing: as for `Regression`; all models have the same rows.
        weights: frequencies, as for `Regression`.
        seed: of a search and of estimates.
        g: as for `Regression`; under `"per-term"` of at most 512 sub-models.

    Raises:
        ConfigurationError: an invalid argument; more than 256 models to estimate.
        DataError: a table that cannot be used; a response that some terms explain exactly.

    Example:
        >>> ev.select_terms("rating ~ complaints + learning", table)  # doctest: +SKIP

    Source: Zanella and Roberts (2019), Journal of the Royal Statistical Society B 81, 489.
    """
    regression = Regression(formula, family, link, prior, prior_scale, missing=missing, weights=weights, g=g)
    check_not_forked()
    check_seed(seed)
    parsed = parse(formula)
    if parsed.varying:
        raise ConfigurationError(
            f"select_terms takes no effects that vary by group, as in {formula!r}; compare Regressions with and without them."
        )
    rows = regression.rows_of(table)
    frame = frame_of(parsed, rows, regression.law)
    frame.check_names()
    space = model_space(tuple(frame.terms), prior_probabilities)
    _check_coding(frame, space, rows)
    found = _averages(regression, frame, rows, space, int(seed))
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
        _family=regression.law,
        _draws=found.draws,
    )


def _averages(
    regression: Regression, frame: Frame, table: DataFrame | Streamed, space: ModelSpace, seed: int
) -> Averages:
    """Over sub-models: estimated if need be, else all listed, or searched if they are too many."""
    if not regression.is_exact or regression.g == PER_TERM:
        held = table.in_memory() if isinstance(table, Streamed) else table
        if regression.is_exact:
            return listed_per_term(frame, held, space)
        return estimated(regression, frame, held, space, seed)
    scale = None if regression.prior == "unit-information" else regression.prior_scale or JZS_SCALE
    if space.num_models <= MOST_LISTED:
        return _listed(frame, table, space, scale)
    return _searched(frame, table, space, scale, seed)


def _check_coding(frame: Frame, space: ModelSpace, table: DataFrame | Streamed) -> None:
    """Refuse terms whose columns depend on which other terms are in the model.

    Without an intercept, the first of several factors has a column for each category, and the
    others have one fewer: a sub-model without the first would not be the formula's own.
    """
    whole = learn(frame.formula, frame.formula.terms, table)
    if frame.aliased:
        _check_aliased(frame, whole)
    if frame.formula.has_intercept:
        return
    for term, needs in zip(space.terms, space.needs, strict=True):
        own = tuple(
            one for one, is_needed in zip(space.terms, needs, strict=True) if is_needed or one == term
        )
        alone = learn(frame.formula, own, table)
        if alone.names[alone.terms[term]] != whole.names[whole.terms[term]]:
            raise ConfigurationError(
                f"select_terms needs an intercept for {frame.formula.text!r}: without it, the categories of {term!r} are coded "
                "in another way in models that lack the terms before it."
            )


def _check_aliased(frame: Frame, whole: Design) -> None:
    """Refuse columns that were left out where a sub-model would need them.

    A term without columns counts in no model: others stand for it. What is left of a term must be
    the same wherever it occurs, so that sums may be of its own columns and those of its parts.
    """
    owners = {name: term for term, place in whole.terms.items() for name in whole.names[place]}
    parts = {term: frozenset(factors_of(term)) for term in whole.terms}
    for name, one in frame.aliased.items():
        term, total = owners[name], f"{name!r} is {one.total}"
        others = [owners[other] for other in one.summands if not parts[owners[other]] <= parts[term]]
        if term in frame.terms and others:
            raise ConfigurationError(
                f"select_terms cannot leave out columns of {term!r} ({total}): models without {others[0]!r} need them. "
                "Compare Regressions, or leave one of the two terms out of the formula."
            )
        needing = [other for other in frame.terms if parts[term] < parts[other]]
        if term not in frame.terms and needing:
            raise ConfigurationError(
                f"select_terms leaves {term!r} out, as {total}, and {needing[0]!r} needs it. Write the interaction with the "
                "columns of the sum."
            )


def _listed(frame: Frame, table: DataFrame | Streamed, space: ModelSpace, scale: float | None) -> Averages:
    """All models, each with its exact Bayes factor."""
    sums = sums_of(frame)
    included = well_formed(space.needs, MOST_LISTED)
    assert included is not None
    columns = included[:, _owners(frame)]
    fits, errors = _checked(frame, table, sums, columns, scale)
    factors, shrinkages = log_bayes_factors(sums, fits, scale)
    log_joint = factors + space.log_prior[included.sum(axis=1)]
    probability = np.exp(log_joint - log_joint.max())
    probability /= probability.sum()
    coefficients = _coefficients(frame, sums, (probability * shrinkages) @ fits.effects)
    none, inclusion = np.zeros(len(included)), probability @ included
    return Averages(
        included, factors, errors, probability, none, inclusion, 0 * inclusion, 1.0, *coefficients
    )


def _searched(
    frame: Frame, table: DataFrame | Streamed, space: ModelSpace, scale: float | None, seed: int
) -> Averages:
    """The models that a search visits, with their exact Bayes factors."""
    sums, owners = sums_of(frame), _owners(frame)
    largest = np.ones((1, len(owners)), bool)
    _checked(frame, table, sums, largest, scale)
    found = search(Neighbours(sums, scale, space, owners), space.needs, seed)
    factors, errors, effects = np.zeros(len(found.models)), np.zeros(len(found.models)), np.zeros(len(owners))
    size = max(BLOCK // max(len(owners), 1), 1)
    for block in np.array_split(np.arange(len(factors)), -(-len(factors) // size)):
        columns = found.models[block][:, owners]
        fits, errors[block] = _checked(frame, table, sums, columns, scale)
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


def _checked(
    frame: Frame,
    table: DataFrame | Streamed,
    sums: Sums,
    columns: Bool[ndarray, "models columns"],
    scale: float | None,
) -> tuple[Fits, Float[ndarray, " models"]]:
    """Fits of models, and the errors of their log Bayes factors by rounding, in nats.

    Where these are large, the fits of the smallest such models are refined.

    Raises:
        DataError: under JZS, a model explains the response exactly.
    """
    fits = fits_of(sums, columns)
    errors = rounding(sums.degrees_of_freedom, fits.unexplained, fits.effects)
    errors = np.where(fits.ranks < sums.degrees_of_freedom, errors, 0.0)
    unsure = np.flatnonzero(errors > REFINED_FROM)
    hint, rows = None if scale is None else FINITE, partial(over_rows, frame, table, None)
    for place in unsure[np.argsort(columns[unsure].sum(axis=1), kind="stable")][:MOST_REFINED]:
        chosen = np.flatnonzero(columns[place])
        fit = checked_fit(frame, sums, chosen, rows, hint)
        fits.unexplained[place], fits.effects[place, chosen], errors[place] = (
            fit.unexplained,
            fit.effects,
            0.0,
        )
    return fits, errors


def _owners(frame: Frame) -> ndarray:
    """The place of the term of each column."""
    owners = np.zeros(len(frame.names), int)
    for owner, place in enumerate(frame.terms.values()):
        owners[place] = owner
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
