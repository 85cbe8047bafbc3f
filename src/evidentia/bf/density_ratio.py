"""The Savage-Dickey ratio: a parameter at a value, of draws of its prior and posterior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.bf.drawn import DrawnPosterior, Kernel, kernel_of
from evidentia.bf.draws import Draws, both_of
from evidentia.bf.result import BayesFactor
from evidentia.errors import ConfigurationError, EstimationError, as_number, check_seed

MOST_CHANGE = 0.2  # of a density with the kernel's width
REACH = 4.0  # bandwidths within which draws tell a density
LEAST_NEAR = 10.0  # effective draws within that reach


def savage_dickey(
    posterior: Any, parameter: str, value: float = 0.0, prior: Any = None, *, seed: int = 0
) -> BayesFactor:
    """The Bayes factor of a model against the same with one parameter fixed, from draws.

    BF₁₀ is the density of the parameter's prior at the value over that of its posterior, if the
    other parameters have, given the value, the same prior in both models. Densities are kernel
    estimates; their error is that of batches of draws and of the width of the kernel.

    Args:
        posterior: the `Evidence` of a model, or draws by name.
        parameter: a single number; an element of a vector as "slopes[2]".
        value: of the null hypothesis.
        prior: draws by name; those of an Evidence's model are made if not given.
        seed: of the draws from the prior.

    Raises:
        ConfigurationError: an unknown parameter, a vector, or no prior.
        EstimationError: the value lies outside of the draws of one side.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> prior = {"b": generator.normal(size=40_000)}
        >>> posterior = {"b": 0.5 * generator.normal(size=40_000)}
        >>> round(ev.bf.savage_dickey(posterior, "b", 0.0, prior).bf01, 1)
        2.0

    Source: Dickey and Lientz (1970); Wagenmakers et al. (2010).
    """
    check_seed(seed)
    if not math.isfinite(as_number(value)):
        raise ConfigurationError(f"value must be a finite number; got {value!r}.")
    after, before, count = both_of(posterior, prior, seed)
    kernels = [kernel_of(_column(draws, parameter), draws.shares) for draws in (before, after)]
    found = [
        _log_density(kernel, draws, float(value), side, parameter)
        for kernel, draws, side in zip(kernels, (before, after), ("prior", "posterior"), strict=True)
    ]
    (zero, zero_error), (one, one_error) = found
    return BayesFactor(
        test="Savage-Dickey ratio",
        log_bf10=zero - one,
        error=math.hypot(zero_error, one_error),
        claim=f"{parameter} is not {value:g}",
        null_claim=f"{parameter} is {value:g}",
        prior="the model's",
        num_observations=count,
        statistics={"log prior density": zero, "log posterior density": one},
        posterior=DrawnPosterior(str(parameter), float(value), *kernels),
    )


def _column(draws: Draws, parameter: Any) -> ndarray:
    name, _, rest = str(parameter).partition("[")
    index = [part.strip() for part in rest.rstrip("]").split(",")] if rest else []
    if name not in draws.values or not all(part.isdigit() for part in index):
        raise ConfigurationError(
            f"parameter must be one of {', '.join(draws.values)}, or an element as 'x[0]'; got {parameter!r}."
        )
    array = draws.values[name]
    if array.ndim - 1 != len(index) or any(
        int(part) >= size for part, size in zip(index, array.shape[1:], strict=True)
    ):
        raise ConfigurationError(
            f"parameter must be a single number; {name} has shape {array.shape[1:]}, got {parameter!r}."
        )
    return array[(slice(None), *map(int, index))]


def _log_density(
    kernel: Kernel, draws: Draws, place: float, side: str, parameter: str
) -> tuple[float, float]:
    """The log density at a place, and its error."""
    if not kernel.width > 0:
        raise EstimationError(f"the {side} of {parameter} does not vary in its draws.")
    near = kernel.shares @ (np.abs(kernel.values - place) < REACH * kernel.width)
    if near / np.sum(kernel.shares**2) < LEAST_NEAR:
        raise EstimationError(
            f"too few draws of the {side} of {parameter} lie near {place:g} to tell its density there. Give more draws, or "
            "estimate the evidence of the model with the parameter fixed, and compare."
        )
    terms = kernel.terms(place)
    density = terms.sum()
    change = abs(kernel.terms(place, math.sqrt(0.5)).sum() - density) / density
    if change > MOST_CHANGE:
        raise EstimationError(
            f"the density of the {side} of {parameter} at {place:g} depends on the kernel's width: it changes by {change:.0%} if that "
            "is 30% less, as for several modes. Estimate the evidence of the model with the parameter fixed, and compare."
        )
    noise = draws.error_of(terms / kernel.shares) / density
    return float(np.log(density)), float(math.hypot(noise, change))
