"""The sub-models of a formula with a g for each term."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evidentia.errors import ConfigurationError
from evidentia.regression.averages import Averages
from evidentia.regression.exact import FINITE, sums_of
from evidentia.regression.frame import Frame
from evidentia.regression.model_space import ModelSpace, well_formed
from evidentia.regression.per_term.answer import (
    ROUNDING,
    coefficients_of,
    design_of,
    per_term_sums,
    translation,
)
from evidentia.regression.per_term.blocks import Scales
from evidentia.regression.per_term.evidence import weighed
from evidentia.regression.per_term.level_effects import mean_effects
from evidentia.regression.perfect_fit import checked_fit, over_rows
from evidentia.weights import model_probabilities

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_LISTED = 512  # of some 20 ms each
NUM_POINTS = 256  # of the g's, for the mean effects of a model


def listed_per_term(frame: Frame, table: DataFrame, space: ModelSpace) -> Averages:
    """All models, each by its integral over the g's.

    Raises:
        ConfigurationError: more than `MOST_LISTED` models.
        DataError: the terms explain the response exactly.
    """
    included = well_formed(space.needs, MOST_LISTED)
    if included is None:
        raise ConfigurationError(
            f"formula has {space.num_models:,.6g} sub-models; with g='per-term' at most {MOST_LISTED} are computed. Give "
            "select_terms fewer terms, or leave g= out."
        )
    moments = sums_of(frame)
    checked_fit(frame, moments, np.arange(len(frame.names)), partial(over_rows, frame, table, None), FINITE)
    design = design_of(frame.formula, space.terms, table)
    sums, translated = per_term_sums(frame, table, design), translation(frame, table, design)
    factors, errors, effects = np.zeros(len(included)), np.zeros(len(included)), []
    for place, chosen in enumerate(included):
        names = [term for term, is_in in zip(space.terms, chosen, strict=True) if is_in]
        model = weighed(sums, names, Scales().covariate)
        factors[place], errors[place] = model.log_bf, model.error if model.error > ROUNDING else 0.0
        effects.append(coefficients_of(frame, model, translated) @ mean_effects(model, NUM_POINTS))
    prior = np.exp(space.log_prior[included.sum(axis=1)])
    probability, probability_error = model_probabilities(factors, errors, prior)
    inclusion = probability @ included
    # to first order, ∂P(term) / ∂log Zᵢ = pᵢ ([term in i] - P(term))
    inclusion_error = np.sqrt(np.square(probability * errors) @ np.square(included - inclusion))
    averaged = probability @ np.array(effects)
    intercept = float(moments.means[-1] - averaged @ frame.means)
    return Averages(
        included,
        factors,
        errors,
        probability,
        probability_error,
        inclusion,
        inclusion_error,
        1.0,
        {"Intercept": intercept, **dict(zip(frame.names, averaged.tolist(), strict=True))},
        np.append(intercept, averaged)[None],
    )
