"""A problem drawn at random, with its exact log evidence and a second way to it.

A family is a function of a random generator. Shapes and hyperparameters of priors come from
a short palette, so that problems share compiled programs; everything else
(noise, scales, exposures, directions, conflict between prior and data) is drawn from continuous
laws and enters through the data.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from gauntlet_problems.problem import log_integral, single
from scipy.special import logsumexp

import evidentia as ev

LOG_TWO_PI = float(np.log(2 * np.pi))


class Candidate(NamedTuple):
    """log Z = log p(θ) + log p(D | θ) - log p(θ | D) at one point θ (Chib 1995).

    Attributes:
        params: θ, constrained values by name.
        log_posterior: log p(θ | D), by code that shares nothing with the truth.
    """

    params: Mapping[str, Any]
    log_posterior: float


class Drawn(NamedTuple):
    """A problem of a family.

    Attributes:
        model: shared by all problems of a variant.
        data: arrays by name, floats in float32.
        truth: the log evidence in nats.
        drawn: what was drawn, for people.
        second: how tests compute the evidence again: by Chib's identity with the densities of
            the model itself; by a function; or, if None, by quadrature of the model's own joint
            density of one or two parameters.
    """

    model: Any
    data: dict[str, np.ndarray]
    truth: float
    drawn: dict[str, Any]
    second: Candidate | Callable[[], float] | None = None


Family = Callable[[np.random.Generator], Drawn]


def pick(generator: np.random.Generator, options: Any) -> Any:
    """One of the options."""
    return options[int(generator.integers(len(options)))]


def log_uniform(generator: np.random.Generator, low: float, high: float, size: Any = None) -> Any:
    """Ten to a uniform power between `low` and `high`."""
    return 10.0 ** generator.uniform(low, high, size)


def density(prior: Mapping[str, Any], log_likelihood: Callable[..., Any]) -> ev.Model:
    """A model whose data are one observation, with constants of any shape in the data."""
    return ev.Model(prior, log_likelihood, pointwise=False)


def wide(values: Any) -> np.ndarray:
    """The float64 values of data in float32, which the truth must use."""
    return np.asarray(values, np.float64)


def log_integral_of(log_density: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> float:
    """log ∫ exp(log_density(x)) dx over an interval, by Gauss-Legendre panels in float64."""
    return log_integral(lambda points: log_density(points[:, 0]), (low, high))


def log_trapezoid(log_values: np.ndarray, step: float) -> float:
    """log ∫ of values on an even grid that reaches to where they are negligible."""
    return float(logsumexp(log_values) + np.log(step))


__all__ = [
    "LOG_TWO_PI",
    "Candidate",
    "Drawn",
    "Family",
    "density",
    "log_integral",
    "log_integral_of",
    "log_trapezoid",
    "log_uniform",
    "pick",
    "single",
    "wide",
]
