"""The log evidence under priors of other widths, from the draws of one run.

With p(θ) the prior of the run and q(θ) another, log evidences differ by

    log Z_q - log Z_p = log E[q(θ) / p(θ)],        θ from the posterior under p,

the mean of importance weights. It is safe only where the posterior under q is not wider than that
under p by far, which the Pareto shape of the weights tells (Vehtari et al. 2024); elsewhere the
model is run anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError
from evidentia.model.bound import BoundModel
from evidentia.model.width import Change, log_prior_ratios, parameters_with_width
from evidentia.weights import MAX_PARETO_SHAPE, log_mean, normalise, pareto_shape

NewRun = Callable[[float, tuple[str, ...]], Change]


@dataclass(frozen=True, eq=False)
class ModelWidths:
    """The widths of a model's priors, and posterior draws to reweight.

    Attributes:
        model: the model bound to its data.
        draws: constrained parameters by name.
        log_weights: of the draws, normalised.
        new_run: estimates the model with wider priors; None if its data are gone.
        chosen: the parameters that are widened if no others are named; all if None.
    """

    model: BoundModel
    draws: dict[str, ndarray]
    log_weights: Float[ndarray, " draws"]
    new_run: NewRun | None = None
    chosen: tuple[str, ...] | None = None

    @cached_property
    def with_width(self) -> tuple[str, ...]:
        """All parameters whose priors have a width of their own."""
        return parameters_with_width(self.model.densities)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that are widened if no others are named."""
        return tuple(name for name in self.with_width if self.chosen is None or name in self.chosen)

    def change(self, factor: float, parameters: tuple[str, ...]) -> Change:
        """Reweight the draws; run the model anew if the weights are too uneven.

        Raises:
            ConfigurationError: a parameter without a width, or uneven weights and no data.
        """
        if unknown := [name for name in parameters if name not in self.with_width]:
            raise ConfigurationError(
                f"parameters must be among those whose priors have a width of their own "
                f"({', '.join(self.with_width) or 'none'}); got {', '.join(unknown)}."
            )
        if self.model.is_constant:  # no prior matters
            return Change(0.0, 0.0)
        log_ratios = log_prior_ratios(self.model.densities, self.draws, factor, parameters)
        found = reweighted(self.log_weights, log_ratios)
        if found.pareto_shape <= MAX_PARETO_SHAPE:
            return found
        if self.new_run is None:
            raise ConfigurationError(
                f"factors: the draws do not reach priors {factor:g} times as wide (Pareto shape {found.pareto_shape:.2f}, "
                f"above {MAX_PARETO_SHAPE:g}), and the data are not at hand for a new run. Use factors nearer to 1."
            )
        return self.new_run(factor, parameters)


def reweighted(log_weights: Float[ndarray, " draws"], log_ratios: Float[ndarray, " draws"]) -> Change:
    """log Σ Wᵢ rᵢ with its standard error by the delta method: √(Σ Wᵢ² (rᵢ/r̄ - 1)²)."""
    shares = np.exp(normalise(log_weights))
    joint = log_weights + log_ratios
    difference = log_mean(joint) + math.log(len(joint))
    error = float(np.sqrt(np.sum((shares * (np.exp(log_ratios - difference) - 1)) ** 2)))
    is_even = np.ptp(log_ratios) < 1e-6  # nothing to fit
    return Change(difference, error, -math.inf if is_even else pareto_shape(joint))
