"""Rows that lie exactly on a plane: the spike of Student's t.

If m of n rows are explained exactly by k < m columns, then for a scale σ near 0 the likelihood
integrated over the coefficients grows as σ to the power ν (n - m) - (m - k), with ν degrees of
freedom: where ν is small enough, the evidence is infinite (Fernández and Steel 1999, Biometrika
86, 153). That is of weight if most rows are exact, as with outliers of a computed response, or
zeros in most rows.

The plane is that of least absolute residuals, on which most rows then lie; weighted least squares
find it, with weights 1/|residual|.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

MOST_ROWS = 20_000  # to find the plane on
NUM_STEPS = 40
SHRINKING = 0.5  # of the least residual that counts, at each step
EXACT = 1e-7  # of the mean deviation from the median


def num_exact_rows(columns: Float[ndarray, "rows columns"], response: Float[ndarray, " rows"]) -> int:
    """About how many rows least absolute residuals leave exact; of few columns, all that can be.

    Example:
        >>> num_exact_rows(np.ones((5, 1)), np.array([0.0, 0.0, 0.0, 2.0, -7.0]))
        3
    """
    step = -(-len(response) // MOST_ROWS)
    some, values = columns[::step], response[::step]
    size = float(np.mean(np.abs(response - np.median(response))))
    if size == 0:
        return len(response)
    least, weights = size, np.ones(len(values))
    effects = np.zeros(columns.shape[1])
    for _ in range(NUM_STEPS):
        roots = np.sqrt(weights)
        effects = np.linalg.lstsq(some * roots[:, None], values * roots, rcond=None)[0]
        least *= SHRINKING
        weights = 1 / np.maximum(np.abs(values - some @ effects), least)
        weights /= weights.max()
    return int(np.sum(np.abs(response - columns @ effects) <= EXACT * size))
