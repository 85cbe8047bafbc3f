"""Least squares to all digits, where sums of products lose them.

If columns leave a small share of the response's variation, or nearly determine each other, what is
left is a small difference of large sums: these have relative errors of about 1e-16, so that the
share has one of about 1e-16 (1 + Σ |effect|)², for effects in units of the deviations. Residuals
of the rows have no such differences. With r the residuals at effects β, and C the correlations of
the columns, the effects are β + C⁻¹ Σ x r / n, and the unexplained share is

    Σ r² / n - (Σ x r / n)ᵀ C⁻¹ (Σ x r / n),

in which the second term is a correction of rounding (iterative refinement).

Source: Björck (1996), Numerical Methods for Least Squares Problems, section 2.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.g_prior import LEAST, Fit, Sums, kept_directions

MOST_PASSES = 3  # over the rows; each adds some seven digits for columns that are just not collinear
SETTLED = 1e-3  # a correction relative to the unexplained share, which is not worth another pass

Rows = tuple[Float[ndarray, "rows columns"], Float[ndarray, " rows"]]  # columns, and the response


def refined(sums: Sums, fit: Fit, chosen: ndarray, rows: Callable[[], Iterable[Rows]]) -> Fit:
    """A fit of the response by the chosen columns, with what is unexplained to about ten digits.

    Args:
        sums: of all columns and, last, the response.
        fit: of the chosen columns, from the sums.
        chosen: their places.
        rows: blocks of rows, anew at each call.
    """
    directions, values = kept_directions(sums, chosen)
    effects, share = fit.effects, fit.unexplained
    for _ in range(MOST_PASSES):
        gradient, squares = _residual_sums(sums, effects, chosen, rows())
        step = directions @ ((directions.T @ gradient) / values)
        correction = float(gradient @ step)
        effects, share = effects + step, squares - correction
        if correction <= SETTLED * share:
            break
    return Fit(max(share, LEAST), effects, fit.rank)


def _residual_sums(
    sums: Sums, effects: Float[ndarray, " columns"], chosen: ndarray, rows: Iterable[Rows]
) -> tuple[Float[ndarray, " columns"], float]:
    """Means over the rows of standardised columns times residuals, and of squared residuals."""
    means, deviations = sums.means, sums.deviations
    products, squares, total = np.zeros(len(chosen)), 0.0, 0.0
    for columns, response in rows:
        standardised = (columns[:, chosen] - means[chosen]) / deviations[chosen]
        residuals = (response - means[-1]) / deviations[-1] - standardised @ effects
        products += standardised.T @ residuals
        squares += float(residuals @ residuals)
        total += float(residuals.sum())
    mean = total / sums.num_rows if sums.has_intercept else 0.0
    return products / sums.num_rows, squares / sums.num_rows - mean**2
