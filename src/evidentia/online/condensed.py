"""Rows of groups in a stream, condensed to fewer weighted rows that tell the same.

Equal rows of a group become one that counts as often. If the log-likelihood of a row is of second
degree in some columns z (`model.local.moments`), rows of a group that are equal in the others
become nodes z_k with weights w_k that have the same moments,

    Σ_k w_k = n,    Σ_k w_k z_k = Σ_i z_i,    Σ_k w_k z_k z_kᵀ = Σ_i z_i z_iᵀ,

so that Σ_k w_k ℓ(z_k) = Σ_i ℓ(z_i) for each such ℓ. There are as many nodes as moments, the
corners of a simplex and the middles of its edges: rounded to float32, they need slightly other
weights, which solve these equations in float64. Condensing again what is condensed changes nothing
but rounding.

If rows differ by few steps of float32, rounded nodes may coincide, so that no weights have these
moments. Some of the rows themselves do, with weights above 0, and no more of them than moments.

Source: DuMouchel, Volinsky, Johnson, Cortes, Pregibon (1999), Squashing flat files flatter, KDD
(rows in place of others with the same moments); Tchakaloff (1957), Bulletin des Sciences
Mathématiques 81, 123 (some of the rows).
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

SMALLEST = 1e-6  # singular value of the nodes, relative to the largest, that is rounding
CLOSE = 1e-8  # of moments of weighted nodes to those of rows, in squared deviations
CONSTANT = 1e-13  # deviation of a column, relative to its mean, that is rounding of float64


class Condensed(NamedTuple):
    """Weighted rows, in order of their groups.

    Attributes:
        arrays: columns by name, float32 or int32.
        copies: how often each row counts.
    """

    arrays: dict[str, ndarray]
    copies: Float[ndarray, " rows"]

    def at(self, index: ndarray) -> "Condensed":
        """Some of the rows."""
        return Condensed({name: array[index] for name, array in self.arrays.items()}, self.copies[index])

    def beside(self, other: "Condensed") -> "Condensed":
        """These rows, and those of another."""
        arrays = {name: np.concatenate([array, other.arrays[name]]) for name, array in self.arrays.items()}
        return Condensed(arrays, np.concatenate([self.copies, other.copies]))


def condensed(rows: Condensed, group: str, moments: tuple[str, ...]) -> Condensed:
    """Rows that tell the same; the groups of more rows than moments of the columns of `moments`.

    Args:
        rows: in any order.
        group: the column of groups.
        moments: the columns whose moments tell all, in rows equal in the other columns.
    """
    keys = [
        rows.arrays[group],
        *(array for name, array in rows.arrays.items() if name not in (group, *moments)),
    ]
    cells = np.unique(_as_numbers(keys), axis=0, return_inverse=True)[1].ravel()
    if not moments:
        first, copies = np.unique(cells, return_index=True)[1], np.bincount(cells, rows.copies)
        return Condensed(rows.at(first).arrays, copies)
    rows = rows.at(order := np.argsort(cells, kind="stable"))
    cells = cells[order]
    z = np.concatenate([_flat(rows.arrays[name]) for name in moments], axis=1).astype(np.float64)
    sizes, most = np.bincount(cells), len(_simplex(z.shape[1]))
    # A cell with a missing value, NaN, has no moments.
    is_many = ((sizes > most) & (np.bincount(cells, np.isnan(z).any(axis=1)) == 0))[cells]
    if not is_many.any():
        return rows
    few, many, z = rows.at(~is_many), rows.at(is_many), z[is_many]
    number = np.unique(cells[is_many], return_inverse=True)[1]
    steps, spread = _standardised(z, many.copies, number)
    nodes, copies, is_close = _nodes(spread)
    first = np.unique(number, return_index=True)[1][is_close]
    made = many.at(np.repeat(first, most)).arrays | _split(
        nodes[is_close].reshape(-1, z.shape[1]), {name: many.arrays[name] for name in moments}
    )
    found = few.beside(Condensed(made, copies[is_close].ravel()))
    for cell in np.flatnonzero(~is_close):
        index = np.flatnonzero(number == cell)
        chosen, copies = _chosen(steps[index], many.copies[index])
        found = found.beside(Condensed(many.at(index[chosen]).arrays, copies))
    return found.at(np.argsort(found.arrays[group], kind="stable"))


class _Spread(NamedTuple):
    """Moments of each cell: its number of rows, and of z in units of `scale` about `mean`."""

    total: Float[ndarray, " cells"]
    mean: Float[ndarray, "cells size"]
    scale: Float[ndarray, "cells size"]
    second: Float[ndarray, "cells size size"]


def _standardised(
    z: Float[ndarray, "rows size"], copies: Float[ndarray, " rows"], number: Int[ndarray, " rows"]
) -> tuple[Float[ndarray, "rows size"], _Spread]:
    """Rows in deviations of their cells, and the moments of these."""
    total = np.bincount(number, copies)
    mean = _sums(copies[:, None] * z, number) / total[:, None]
    mean += _sums(copies[:, None] * (z - mean[number]), number) / total[:, None]  # what was rounded
    steps = z - mean[number]
    scale = np.sqrt(_sums(copies[:, None] * steps**2, number) / total[:, None])
    scale = np.where(scale > CONSTANT * np.abs(mean), scale, 0.0)
    steps = _divided(steps, scale[number])
    second = (
        _sums(copies[:, None, None] * steps[:, :, None] * steps[:, None, :], number) / total[:, None, None]
    )
    return steps, _Spread(total, mean, scale, second)


def _nodes(
    spread: _Spread,
) -> tuple[Float[ndarray, "cells nodes size"], Float[ndarray, "cells nodes"], Bool[ndarray, " cells"]]:
    """Nodes, float32, and weights of each cell; and whether they have the moments of its rows."""
    total, mean, scale, second = spread
    values, vectors = np.linalg.eigh(second)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    places = mean[:, None] + scale[:, None] * (_simplex(mean.shape[1]) @ np.swapaxes(root, 1, 2))
    nodes = places.astype(np.float32)
    # The weights that have the moments, nearest to equal ones.
    own = _monomials(_divided(nodes - mean[:, None], scale[:, None]))
    target = np.concatenate([np.ones((len(mean), 1)), np.zeros_like(mean), _upper(second)], axis=1)
    equal = np.full(own.shape[:2], 1 / own.shape[1])
    missing = target - np.einsum("ckm,ck->cm", own, equal)
    shares = equal + np.einsum("cmk,cm->ck", np.linalg.pinv(own, rcond=SMALLEST), missing)
    left = target - np.einsum("ckm,ck->cm", own, shares)
    return nodes, total[:, None] * shares, np.all(np.abs(left) < CLOSE, axis=1)


def _chosen(
    steps: Float[ndarray, "rows size"], copies: Float[ndarray, " rows"]
) -> tuple[Int[ndarray, " chosen"], Float[ndarray, " chosen"]]:
    """Some of the rows of a cell, and weights with which these have the moments of all."""
    from scipy.optimize import nnls  # slow to import

    own, total = _monomials(steps[None])[0].T, copies.sum()
    target = own @ copies / total
    shares = np.asarray(nnls(own, target)[0])
    chosen = np.flatnonzero(shares)
    if np.any(np.abs(target - own @ shares) >= CLOSE):  # not found: all rows
        return np.arange(len(copies)), copies
    return chosen, total * shares[chosen]


def _divided(steps: ndarray, scale: ndarray) -> ndarray:
    """Steps in units of a scale; 0 where that is 0."""
    return np.divide(
        steps, scale, out=np.zeros(np.broadcast_shapes(steps.shape, scale.shape)), where=scale > 0
    )


@cache
def _simplex(size: int) -> Float[ndarray, "nodes size"]:
    """Corners and middles of the edges of a simplex, with mean 0 and covariance 1."""
    # The corners, in the space orthogonal to (1, …, 1).
    corners = np.linalg.svd(np.eye(size + 1) - 1 / (size + 1))[0][:, :size]
    first, second = np.triu_indices(size + 1)
    places = (corners[first] + corners[second]) / 2
    return places / np.sqrt(np.mean(places[:, 0] ** 2))


def _monomials(z: Float[ndarray, "cells nodes size"]) -> Float[ndarray, "cells nodes moments"]:
    squares = z[..., :, None] * z[..., None, :]
    return np.concatenate([np.ones((*z.shape[:2], 1)), z, _upper(squares)], axis=2)


def _upper(matrices: ndarray) -> ndarray:
    """The entries on and above the diagonal, on one axis."""
    first, second = np.triu_indices(matrices.shape[-1])
    return matrices[..., first, second]


def _sums(values: ndarray, number: Int[ndarray, " rows"]) -> ndarray:
    """Sums over the rows of each cell, which are numbered in order."""
    return np.add.reduceat(values, np.searchsorted(number, np.arange(number[-1] + 1)), axis=0)


def _as_numbers(columns: list[ndarray]) -> Float[ndarray, "rows columns"]:
    """Columns side by side as float64, which holds float32 and int32."""
    return np.concatenate([_flat(column).astype(np.float64) for column in columns], axis=1)


def _flat(column: ndarray) -> ndarray:
    return column.reshape(len(column), -1)


def _split(nodes: Float[ndarray, "nodes size"], like: dict[str, ndarray]) -> dict[str, ndarray]:
    """Columns of some shapes that are side by side."""
    ends = np.cumsum([_flat(array).shape[1] for array in like.values()])[:-1]
    parts = np.split(nodes, ends, axis=1)
    return {
        name: part.reshape(len(nodes), *array.shape[1:]).astype(array.dtype)
        for (name, array), part in zip(like.items(), parts, strict=True)
    }
