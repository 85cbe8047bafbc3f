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
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.g_prior import LEAST, Fit, Sums, kept_directions

MOST_PASSES = 3  # over the rows; each adds some seven digits for columns that are just not collinear
SETTLED = 1e-3  # a correction relative to the unexplained share, which is not worth another pass

Look = Callable[[Float[ndarray, "rows columns"], Float[ndarray, " rows"]], Any]  # at columns and response


def refined(sums: Sums, fit: Fit, chosen: ndarray, over_rows: Callable[[Look], Iterable[Any]]) -> Fit:
    """A fit of the response by the chosen columns, with what is unexplained to about ten digits.

    Args:
        sums: of all columns and, last, the response.
        fit: of the chosen columns, from the sums.
        chosen: their places.
        over_rows: what a function finds in each block of rows.
    """
    directions, values = kept_directions(sums, chosen)
    effects, share = fit.effects, fit.unexplained
    for _ in range(MOST_PASSES):
        gradient, squares = _residual_means(sums, effects, chosen, over_rows)
        step = directions @ ((directions.T @ gradient) / values)
        correction = float(gradient @ step)
        effects, share = effects + step, squares - correction
        if correction <= SETTLED * share:
            break
    return Fit(max(share, LEAST), effects, fit.rank)


def _residual_means(
    sums: Sums,
    effects: Float[ndarray, " chosen"],
    chosen: ndarray,
    over_rows: Callable[[Look], Iterable[Any]],
) -> tuple[Float[ndarray, " chosen"], float]:
    """Means over the rows of standardised columns times residuals, and of squared residuals."""
    found = over_rows(partial(_residual_sums, sums, effects, chosen))
    products, squares, totals = zip(*(one for one in found if one is not None), strict=True)
    mean = sum(totals) / sums.num_rows if sums.has_intercept else 0.0
    return np.sum(products, axis=0) / sums.num_rows, sum(squares) / sums.num_rows - mean**2


def _residual_sums(
    sums: Sums,
    effects: Float[ndarray, " chosen"],
    chosen: ndarray,
    columns: Float[ndarray, "rows columns"],
    response: Float[ndarray, " rows"],
) -> tuple[Float[ndarray, " chosen"], float, float]:
    """The same of a block, as sums, and that of residuals."""
    means, deviations = sums.means, sums.deviations
    standardised = (columns[:, chosen] - means[chosen]) / deviations[chosen]
    residuals = (response - means[-1]) / deviations[-1] - standardised @ effects
    return standardised.T @ residuals, float(residuals @ residuals), float(residuals.sum())
