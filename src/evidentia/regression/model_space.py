"""The sub-models of a formula: which are well formed, how many there are, and their prior.

A model with an interaction has the terms that are its parts as well (the principle of marginality;
Nelder 1977), so that its evidence does not depend on how columns are centred.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.sparse.csgraph import connected_components
from scipy.special import comb

from evidentia.errors import ConfigurationError, is_one_of
from evidentia.regression.quoting import factors_of

MOST_TERMS = 1000  # 2**1000 models are a number that a float holds
MOST_LISTED = 2**14
MODEL_PRIORS = "uniform", "beta-binomial"


class ModelSpace(NamedTuple):
    """The well-formed sub-models of a formula and their prior.

    Attributes:
        terms: of the formula.
        needs: whether the term of a row needs that of a column, as it is its part.
        num_models: well-formed sets of terms.
        log_prior: of one model, by its number of terms.
        prior_inclusion: the prior probability of each term.
    """

    terms: tuple[str, ...]
    needs: Bool[ndarray, "terms terms"]
    num_models: float
    log_prior: Float[ndarray, " sizes"]
    prior_inclusion: Float[ndarray, " terms"]


def model_space(terms: tuple[str, ...], prior_probabilities: str) -> ModelSpace:
    """The sub-models of some terms.

    Under `"uniform"` all models have the same probability; under `"beta-binomial"` all numbers of
    terms have, and all models with the same number (Scott and Berger 2010).

    Raises:
        ConfigurationError: an unknown prior, or too many terms.

    Example:
        >>> model_space(("a", "b", "a:b"), "uniform").prior_inclusion.tolist()  # of five
        [0.6, 0.6, 0.2]
    """
    if not is_one_of(prior_probabilities, MODEL_PRIORS):
        raise ConfigurationError(
            f"prior_probabilities must be one of {', '.join(MODEL_PRIORS)}; got {prior_probabilities!r}."
        )
    if len(terms) > MOST_TERMS:
        raise ConfigurationError(f"formula must have at most {MOST_TERMS:,} terms; it has {len(terms):,}.")
    parts = [frozenset(factors_of(term)) for term in terms]
    needs = np.array([[part < whole for part in parts] for whole in parts], bool)
    needs = needs.reshape(len(terms), len(terms))
    by_size, with_term = _counts(needs)
    if prior_probabilities == "uniform":
        log_prior = np.full(len(by_size), -np.log(by_size.sum()))
    else:
        log_prior = -np.log(by_size) - np.log(len(by_size))
    return ModelSpace(terms, needs, float(by_size.sum()), log_prior, with_term @ np.exp(log_prior))


def well_formed(needs: Bool[ndarray, "terms terms"], most: int) -> Bool[ndarray, "models terms"] | None:
    """All sets of terms that have what their terms need; None if there are more than `most`.

    What a term needs must come before it.

    Example:
        >>> a_b_and_ab = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 0]], bool)
        >>> well_formed(a_b_and_ab, 10).sum(axis=0).tolist()
        [3, 3, 1]
    """
    models = np.zeros((1, 0), bool)
    for place, needed in enumerate(needs):
        able = models[:, needed[:place]].all(axis=1)
        without = np.column_stack([models, np.zeros(len(models), bool)])
        models = np.concatenate([without, np.column_stack([models[able], np.ones(able.sum(), bool)])])
        if len(models) > most:
            return None
    return models


def _counts(
    needs: Bool[ndarray, "terms terms"],
) -> tuple[Float[ndarray, " sizes"], Float[ndarray, "terms sizes"]]:
    """The number of models by the number of their terms, of all and of those with each term.

    Terms fall into groups that need nothing of each other; those that are in no interaction are
    one group. The polynomial whose coefficients are the counts is the product of the groups'.
    """
    alone = ~(needs.any(axis=0) | needs.any(axis=1))
    _, labels = connected_components(needs)
    labels = np.where(alone, -1, labels)
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    counted = [_counts_of_group(needs[np.ix_(group, group)]) for group in groups]
    with_term = np.zeros((len(needs), len(needs) + 1))
    for one, group in enumerate(groups):
        others = _product([whole for other, (whole, _) in enumerate(counted) if other != one])
        for term, own in zip(group, counted[one][1], strict=True):
            with_term[term] = np.convolve(own, others)
    return _product([whole for whole, _ in counted]), with_term


def _counts_of_group(needs: Bool[ndarray, "terms terms"]) -> tuple[ndarray, ndarray]:
    """As `_counts`. Given which terms that are parts are in, each of the others is free or out."""
    is_part, size = needs.any(axis=0), len(needs)
    parts = well_formed(needs[np.ix_(is_part, is_part)], MOST_LISTED)
    if parts is None:
        raise ConfigurationError(
            f"formula has interactions that tie {is_part.sum()} terms together: their combinations are more than "
            f"{MOST_LISTED:,}. Give select_terms fewer of the interactions."
        )
    needed = needs[np.ix_(~is_part, is_part)].astype(np.float64)
    free = parts @ needed.T == needed.sum(axis=1)
    num_parts, num_free = parts.sum(axis=1), free.sum(axis=1)

    def by_size(chosen: ndarray, more: int) -> ndarray:
        counts = np.zeros(size + 1)
        pairs = np.stack([num_parts[chosen] + more, num_free[chosen] - more], axis=1)
        for (low, others), number in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
            counts[low : low + others + 1] += number * comb(others, np.arange(others + 1))
        return counts

    with_term = np.zeros((size, size + 1))
    for place, chosen in zip(np.flatnonzero(is_part), parts.T, strict=True):
        with_term[place] = by_size(chosen, 0)
    for place, chosen in zip(np.flatnonzero(~is_part), free.T, strict=True):
        with_term[place] = by_size(chosen, 1)
    return by_size(np.ones(len(parts), bool), 0), with_term


def _product(polynomials: list[ndarray]) -> ndarray:
    product = np.ones(1)
    for one in polynomials:
        product = np.convolve(product, one)
    return product
