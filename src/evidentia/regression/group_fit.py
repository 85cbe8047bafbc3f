"""Least squares of a response on columns and those of groups, by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse import csr_array, hstack
from scipy.sparse.linalg import lsmr

from evidentia.regression.grouped import Grouped

MOST_ITERATIONS = 1000  # each takes a pass over the columns of the groups
SAME = 1e-8  # of a column's size in a group, that is left by the others: none


def unexplained_shares(
    columns: Float[ndarray, "rows columns"], response: Float[ndarray, " rows"], groups: tuple[Grouped, ...]
) -> Iterator[tuple[tuple[Grouped, ...], float]]:
    """The share of the response's squares that columns and groups leave: of none, each, and all.

    Sets with as many columns as rows, which may explain anything, are left out.
    """
    fixed = csr_array(np.linalg.qr(columns)[0])
    for some in ((), *((one,) for one in groups), groups):
        if columns.shape[1] + sum(one.count for one in some) >= len(columns):
            continue
        matrix = hstack([fixed, *map(_sparse, some)], format="csr")
        residual = lsmr(matrix, response, atol=1e-9, btol=1e-9, maxiter=MOST_ITERATIONS)[3]
        yield some, float(residual / np.linalg.norm(response)) ** 2


def _sparse(grouped: Grouped) -> csr_array:
    """The columns of every level, orthogonal within it, so that the iteration is short."""
    columns = np.array(grouped.columns, np.float64)
    sums = partial(np.bincount, grouped.codes, minlength=len(grouped.levels))
    for place in range(grouped.size):
        for before in 2 * list(range(place)):  # twice, as one pass leaves rounding
            squares = sums(columns[:, before] ** 2)
            products = sums(columns[:, before] * columns[:, place])
            ratio = np.divide(products, squares, out=np.zeros_like(products), where=squares > 0)
            columns[:, place] -= ratio[grouped.codes] * columns[:, before]
        largest = np.sqrt(sums(columns[:, place] ** 2))
        has_some = largest > SAME * np.sqrt(sums(grouped.columns[:, place] ** 2))
        columns[:, place] *= np.divide(1, largest, out=np.zeros_like(largest), where=has_some)[grouped.codes]
    rows, size = columns.shape
    places = grouped.codes[:, None] * size + np.arange(size)
    starts = np.arange(0, rows * size + 1, size)
    return csr_array((columns.ravel(), places.ravel(), starts), shape=(rows, grouped.count))
