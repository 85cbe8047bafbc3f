"""The effects of several factors given all parameters: moments and draws, by elimination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import cho_solve, solve_triangular

from evidentia.regression.elimination import Eliminated
from evidentia.regression.grouped import Grouped

Moments = dict[str, tuple[Float[ndarray, " levels"], Float[ndarray, " levels"]]]
Factors = Sequence[Float[ndarray, "effects effects"]]


def moments_given(
    found: Eliminated, combined: Float[ndarray, " columns"], grouped: Sequence[Grouped], factors: Factors
) -> dict[str, Moments]:
    """Mean and variance of each level's effects of the table's columns, by factor and name.

    Args:
        found: the elimination.
        combined: what its columns are multiplied by to be the residuals, in units of σ.
        grouped: the factors, that with most levels first.
        factors: Λ of each.
    """
    inner, *outer = grouped
    others = _solved(found.rest, found.rest_rows @ combined)
    size, levels = inner.size, len(inner.levels)
    own = (found.own_rows @ combined - found.across @ others).reshape(levels, size)
    covariance = cho_solve((found.rest, True), np.eye(len(others)), check_finite=False)
    among = np.broadcast_to(np.eye(size), (levels, size, size)).copy()  # L_Dᵀ cov(a) L_D
    for column in range(size):
        spread = found.across[column::size] @ covariance
        for row in range(size):
            among[:, row, column] += found.across[row::size].multiply(spread).sum(axis=1)
    back = inner.at_zero @ factors[0] @ np.swapaxes(np.linalg.inv(found.own), 1, 2)
    means = np.einsum("gia,ga->gi", back, own)
    by_factor = {inner.name: _by_name(inner, means, np.einsum("gia,gab,gib->gi", back, among, back))}
    first = 0
    for one, factor in zip(outer, factors[1:], strict=True):
        place = first + np.arange(one.count).reshape(-1, one.size)
        back = one.at_zero @ factor
        variance = np.einsum("ia,gab,ib->gi", back, covariance[place[:, :, None], place[:, None]], back)
        by_factor[one.name] = _by_name(one, others[place] @ back.T, variance)
        first += one.count
    return by_factor


def drawn_given(
    found: Eliminated,
    combined: Float[ndarray, " columns"],
    grouped: Sequence[Grouped],
    noise: Mapping[str, ndarray],
) -> dict[str, Float[ndarray, "levels effects"]]:
    """Draws of u, in units of the deviations, by factor, from standard normal noise."""
    inner, *outer = grouped
    given = np.concatenate([noise[one.name].ravel() for one in outer])
    others = _solved(found.rest, found.rest_rows @ combined + given)
    own = (found.own_rows @ combined - found.across @ others).reshape(-1, inner.size) + noise[inner.name]
    by_factor = {inner.name: np.linalg.solve(np.swapaxes(found.own, 1, 2), own[:, :, None])[:, :, 0]}
    first = 0
    for one in outer:
        by_factor[one.name] = others[first : first + one.count].reshape(-1, one.size)
        first += one.count
    return by_factor


def _solved(
    lower: Float[ndarray, "others others"], right: Float[ndarray, " others"]
) -> Float[ndarray, " others"]:
    """L⁻ᵀ of a vector."""
    return solve_triangular(lower, right, lower=True, trans=1, check_finite=False)


def _by_name(grouped: Grouped, mean: ndarray, variance: ndarray) -> Moments:
    return {name: (mean[:, index], variance[:, index]) for index, name in enumerate(grouped.names)}
