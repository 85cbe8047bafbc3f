"""What all ways of weighing sub-models give: their probabilities, and averages over them."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from numpy import ndarray


class Averages(NamedTuple):
    """Models in any order, and averages over them; the attributes are those of `TermSelection`.

    Attributes:
        draws: of the intercept, the columns' coefficients and what else the mean depends on, from
            the mixture of the models, in the units of the table; one row with their means where
            the mean response is linear.
    """

    included: Bool[ndarray, "models terms"]
    log_bayes_factor: Float[ndarray, " models"]
    log_bayes_factor_error: Float[ndarray, " models"]
    probability: Float[ndarray, " models"]
    probability_error: Float[ndarray, " models"]
    inclusion: Float[ndarray, " terms"]
    inclusion_error: Float[ndarray, " terms"]
    visited_probability: float
    coefficients: dict[str, Any]
    draws: Float[ndarray, "draws coefficients"]
