"""The hazard of a change: a constant, or a constant to be learnt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import betaln, expit, logit
from scipy.stats import beta

from evidentia.errors import ConfigurationError, as_number, check_count, check_positive, kind_of

TAIL = 1e-6  # prior probability beyond either end of the grid


class Hazards(NamedTuple):
    """One or several constant hazards, one after another in the arrays.

    Attributes:
        values: float64, the probability of a change after each row.
        log_prior: float64, log prior probability of each, in nats.
    """

    values: Float[ndarray, " hazards"]
    log_prior: Float[ndarray, " hazards"]

    @property
    def log_change(self) -> Float[ndarray, " hazards"]:
        """log h."""
        return np.log(self.values)

    @property
    def log_survival(self) -> Float[ndarray, " hazards"]:
        """log(1 - h)."""
        return np.log1p(-self.values)


@dataclass(frozen=True)
class BetaHazard:
    """A constant hazard with a Beta(alpha, beta) prior, which the changes found update.

    The integral over the hazard is a sum over a grid, equally spaced in log h/(1-h): the
    trapezoid rule, whose error falls exponentially with the number of nodes. The model then has
    as many hazards, each with its own weight for each run, all averaged by evidence. The more
    changes, the narrower is the posterior of the hazard, and the more nodes are needed.

    Attributes:
        alpha: first parameter; the mean is alpha / (alpha + beta).
        beta: second parameter.
        num_nodes: size of the grid.

    Raises:
        ConfigurationError: a field is not positive, or fewer than two nodes.

    Example:
        >>> hazards = ev.monitor.BetaHazard(alpha=1, beta=99).nodes()
        >>> float(np.exp(hazards.log_prior) @ hazards.values).__round__(4)
        0.01
    """

    alpha: float = 1.0
    beta: float = 1.0
    num_nodes: int = 64

    def __post_init__(self):
        check_positive("alpha", self.alpha)
        check_positive("beta", self.beta)
        check_count("num_nodes", self.num_nodes, 2)

    def nodes(self) -> Hazards:
        """The grid, with probabilities proportional to the density of log h/(1-h)."""
        low, high = beta.ppf(TAIL, self.alpha, self.beta), beta.isf(TAIL, self.alpha, self.beta)
        values = expit(np.linspace(logit(low), logit(high), self.num_nodes))
        log_density = (
            self.alpha * np.log(values) + self.beta * np.log1p(-values) - betaln(self.alpha, self.beta)
        )
        return Hazards(values, log_density - np.logaddexp.reduce(log_density))


def hazards_of(hazard: float | BetaHazard) -> Hazards:
    """The hazards of an argument.

    Raises ConfigurationError unless it is a `BetaHazard` or a number between 0 and 1.
    """
    if isinstance(hazard, BetaHazard):
        return hazard.nodes()
    if math.isnan(as_number(hazard)):
        raise ConfigurationError(
            f"hazard must be a number between 0 and 1, or a BetaHazard; got {kind_of(hazard)}."
        )
    if not 0 < as_number(hazard) < 1:
        raise ConfigurationError(
            f"hazard is the probability of a change after each row, between 0 and 1; got {hazard}."
        )
    return Hazards(np.array([hazard], np.float64), np.zeros(1))
