"""The log Bayes factor of a model with a g for each term, with the posterior of its g's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.per_term.blocks import Block
from evidentia.regression.per_term.integral import Found, log_integral, log_prior
from evidentia.regression.per_term.likelihood import Likelihood
from evidentia.regression.per_term.root_likelihood import RootLikelihood
from evidentia.regression.per_term.sums import Sums


class Weighed(NamedTuple):
    """A model against that of the intercept alone.

    Attributes:
        sums: of the design.
        blocks: with a g each.
        likelihood: given the g's.
        log_bf: in nats.
        error: of it.
        log_g: of points.
        log_weights: of them under the posterior.
        is_sequence: whether they are those of a Sobol sequence.
    """

    sums: Sums
    blocks: list[Block]
    likelihood: Likelihood | RootLikelihood
    log_bf: float
    error: float
    log_g: Float[ndarray, "points blocks"]
    log_weights: Float[ndarray, " points"]
    is_sequence: bool


def weighed(sums: Sums, names: Sequence[str], covariate_scale: float) -> Weighed:
    """The model of some terms.

    Args:
        sums: of the design.
        names: of the terms; those of the block that the sums eliminate among them.
        covariate_scale: r of the covariates' g.
    """
    blocks = sums.blocks_of(names, covariate_scale)
    likelihood = sums.likelihood_of(blocks)
    found = integral_of(likelihood, np.array([block.scale for block in blocks]))
    return Weighed(sums, blocks, likelihood, *found)


def integral_of(likelihood: Likelihood | RootLikelihood, scales: Float[ndarray, " blocks"]) -> Found:
    """Over the g's of blocks with the scales r."""
    shift = 2 * np.log(scales)  # the prior of g / r² is the same for all

    def integrand(log_ratio: ndarray) -> ndarray:
        return likelihood.log_bayes_factor(log_ratio + shift) + log_prior(log_ratio, 1.0).sum(1)

    found = log_integral(integrand, len(scales))
    return found._replace(log_g=found.log_g + shift)
