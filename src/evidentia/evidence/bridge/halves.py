"""Bridge sampling with halves of the draws in turn, and what the two say of each other.

A density fitted to the very draws that enter the bridge is too good for them, and the log evidence
would be too low. So a density fitted to one half of each chain is bridged to the other half, then
the halves change places. The two estimates are nearly independent; their mean is the result.

Source: Overstall and Forster (2010), Computational Statistics and Data Analysis 54, 3269 (the
halves); Wong, Forster and Smith (2020), Statistics and Computing 30, 799 (both in turn).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.errors import ConfigurationError
from evidentia.evidence.bridge.iteration import Bridged, bridge, effective_draws
from evidentia.evidence.bridge.warp import Chains, Target, fit

LEAST_DRAWS = 10  # of each chain
ALLOWED = 2.0  # standard errors by which the halves may differ before it adds to the error


class Half(NamedTuple):
    """The bridge of one half, and the log weights of its draws of the fitted density."""

    bridged: Bridged
    log_weights: Float[np.ndarray, " draws"]


def check_enough(chains: Chains, field: str) -> None:
    """Raise ConfigurationError, which names the field, unless there are enough draws to fit."""
    num_chains, num_draws, size = chains.shape
    least = 4 * (size + 1)
    if num_draws < LEAST_DRAWS or num_chains * num_draws < least:
        raise ConfigurationError(
            f"{field} must give at least {LEAST_DRAWS} draws in each chain and {least:,} in all for the "
            f"{size} parameters, since half of them fit a density; got {num_chains} of {num_draws:,}."
        )


def bridge_halves(
    target: Target, chains: Chains, generator: np.random.Generator, count: int
) -> Iterator[Half]:
    """Yield the bridge of each half; `count` draws of the fitted densities in all.

    Raises:
        EstimationError: an iteration does not converge, or the draws' covariance is singular.
    """
    folded = target.folded(chains)
    middle = chains.shape[1] // 2
    halves = np.arange(middle), np.arange(middle, chains.shape[1])
    for fitted, bridged in (halves, halves[::-1]):
        yield _bridge_half(target, folded[:, fitted], folded[:, bridged], generator, -(-count // 2))


def _bridge_half(
    target: Target, fitted: Chains, bridged: Chains, generator: np.random.Generator, count: int
) -> Half:
    size = fitted.shape[-1]
    density = fit(fitted.reshape(-1, size))
    near = density.near(target, bridged.reshape(-1, size), generator)
    at_draws = density.log_ratios(target, near).reshape(bridged.shape[:2])
    at_proposals = density.log_ratios(target, density.draw(generator, count))
    ess = float(np.median([effective_draws(bridged[..., index]) for index in range(size)]))
    return Half(bridge(at_draws, at_proposals, ess), at_proposals)


def combined(halves: list[Half]) -> tuple[float, float]:
    """The log evidence, the mean of the halves', and its variance.

    The variance is that of the halves as they report it. If these differ by more than `ALLOWED`
    joint standard errors, the excess is part of it.
    """
    estimates = [half.bridged.log_evidence for half in halves]
    variances = [half.bridged.variance for half in halves]
    variance = sum(variances) / len(halves) ** 2
    excess = max(0.0, np.ptp(estimates) - ALLOWED * math.sqrt(sum(variances)))
    return float(np.mean(estimates)), variance + 0.25 * float(excess) ** 2


def importance_sampling(halves: list[Half]) -> tuple[float, float, float]:
    """The log evidence by importance sampling from the fits, its variance, and a Pareto shape."""
    log_weights = np.concatenate([half.log_weights for half in halves])
    shape = weights.pareto_shape(log_weights)
    return weights.log_mean(log_weights), weights.relative_variance(log_weights), shape
