"""Prior probabilities of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import ConfigurationError, as_number

if TYPE_CHECKING:
    pass

SMALLEST_PRIOR = 1e-150  # relative to the largest


def prior_of(names: list[str], given: Mapping[str, float] | None, argument: str) -> Float[ndarray, " models"]:
    """Prior probabilities in the order of the names, summing to one; equal if not given.

    Raises:
        ConfigurationError: names that differ, or numbers that are not positive; the message names
            `argument`.
    """
    if given is None:
        return np.full(len(names), 1 / len(names))
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{argument} must map the models' names to numbers; got {given!r}.")
    if set(given) != set(names):
        raise ConfigurationError(
            f"{argument} must name the models {', '.join(sorted(names))}; "
            f"it names {', '.join(sorted(map(str, given))) or 'none'}."
        )
    prior = np.array([as_number(given[name]) for name in names])
    if not (np.isfinite(prior) & (prior > 0)).all():
        raise ConfigurationError(f"{argument} must be positive and finite; got {dict(given)}.")
    prior /= prior.max()  # a sum of large numbers could overflow
    if prior.min() < SMALLEST_PRIOR:
        raise ConfigurationError(
            f"{argument} must not differ by factors above {1 / SMALLEST_PRIOR:g}; got {dict(given)}. Leave out models that "
            "are ruled out."
        )
    return prior / prior.sum()
