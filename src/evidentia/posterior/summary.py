"""Means, standard deviations and quantiles of weighted particles, for each scalar parameter."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray


class ParameterSummary(NamedTuple):
    """One scalar parameter: indexed name, posterior mean, standard deviation and quantiles.

    `mcse` is the Monte Carlo standard error of the mean, √(Σ Wᵢ² (xᵢ - mean)²).
    """

    name: str
    mean: float
    standard_deviation: float
    quantiles: tuple[float, ...]
    mcse: float


def summarise(
    posterior: Mapping[str, ndarray],
    log_weights: Float[ndarray, " particles"],
    probabilities: Sequence[float] = (0.05, 0.5, 0.95),
) -> list[ParameterSummary]:
    """Summarise every scalar of a weighted posterior.

    Args:
        posterior: arrays (particles, ...) by parameter name.
        log_weights: normalised log weights.
        probabilities: the probabilities of the quantiles.

    Returns:
        One summary per scalar, in the order of the arrays; `weights[2, 0]` names an entry of an
        array.

    Example:
        >>> summarise({"mean": np.array([1.0, 3.0])}, np.log([0.5, 0.5]))[0].mean
        2.0
    """
    weights = np.exp(np.asarray(log_weights, np.float64))
    summaries = []
    for name, array in posterior.items():
        values = np.asarray(array, np.float64).reshape(len(weights), -1)
        means = weights @ values
        squares = (values - means) ** 2
        deviations, errors = np.sqrt(weights @ squares), np.sqrt(weights**2 @ squares)
        columns = zip(means, deviations, errors, quantiles(values, weights, probabilities).T, strict=True)
        for index, (mean, deviation, error, cuts) in zip(np.ndindex(array.shape[1:]), columns, strict=True):
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            summaries.append(
                ParameterSummary(label, float(mean), float(deviation), tuple(map(float, cuts)), float(error))
            )
    return summaries


def quantiles(
    values: Float[ndarray, "particles columns"],
    weights: Float[ndarray, " particles"],
    probabilities: Sequence[float],
) -> Float[ndarray, "probabilities columns"]:
    """Quantiles of weighted values, by column: the inverse of the weighted distribution function.

    It is linear between two particles; with equal weights it is Hazen's rule (`np.quantile(...,
    method="hazen")`).
    """
    order = np.argsort(values, axis=0)
    result = np.empty((len(probabilities), values.shape[1]))
    for column in range(values.shape[1]):
        rank = order[:, column]
        ordered = weights[rank]
        middles = np.cumsum(ordered) - 0.5 * ordered
        result[:, column] = np.interp(probabilities, middles, values[rank, column])
    return result
