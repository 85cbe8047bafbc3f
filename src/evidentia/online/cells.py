"""Cells of a k-d tree over the columns of rows, and a few weighted nodes in the place of each.

In a cell with n rows of mean m and covariance C = Σ_k a_k a_kᵀ (axes from its eigenvectors), of
rank r, the nodes

    m ± √r a_k,    each n/2r times,    k = 1 … r,

have the moments of its rows up to the second, with positive weights. They are exact for functions
of second degree in the columns, and for cells of one or two rows. Let q be the quadratic that
agrees with ℓ at the mean, at the nodes, and at m ± a_k ± a_l on average. Its sum over the rows is
that of ℓ over the nodes, so that the residuals of the rows,

    Σ_i [ℓ(y_i) - q(y_i)] = Σ_i ℓ(y_i) - Σ_nodes w ℓ(node),

add up to what the nodes get wrong. A cell is cut at its mean where the squared residuals, averaged
over some particles and summed over rows, exceed `LARGEST`, before the rows of a chunk enter it.
What it held stays in it, in the place of rows that are gone: their moments stay exact.

Source: DuMouchel, Volinsky, Johnson, Cortes, Pregibon (1999), Squashing flat files flatter, KDD;
Julier and Uhlmann (1997), Proceedings of SPIE 3068 (the nodes).
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

# Squared residuals of a cell, in nats², above which it is cut, while nodes are few. On 10⁵ rows of
# a mixture with a component too many, 1e-8, 1e-9 and 1e-10 left standard errors of 0.05, 0.03 and
# 0.01 nats with 3,600, 4,900 and 7,500 nodes.
LARGEST = 1e-9
# Power of the nodes left with which that grows. Rows that come sorted need cells to the end: in a
# test with `LARGEST` 1e-8, 2, 4, 6 and 8 left errors of 17, 4, 0.8 and 2 nats.
SPARING = 6
FLAT = 1e-10  # variance along an axis, relative to the largest, that is rounding

Points = Float[ndarray, "points columns"]
Values = Callable[[Points], Float[ndarray, "points particles"]]  # log-likelihoods of rows


class Moments(NamedTuple):
    """The number of rows of each cell, their mean, and sums of outer products about it."""

    count: Float[ndarray, " cells"]
    mean: Float[ndarray, "cells columns"]
    scatter: Float[ndarray, "cells columns columns"]

    def at(self, index: ndarray) -> "Moments":
        """Those of some cells."""
        return Moments(*(part[index] for part in self))

    def plus(self, other: "Moments") -> "Moments":
        """Those of the rows of both, cell by cell (Chan, Golub, LeVeque 1979)."""
        count = self.count + other.count
        step, share = other.mean - self.mean, other.count / np.maximum(count, 1)
        between = (self.count * share)[:, None, None] * step[:, :, None] * step[:, None, :]
        return Moments(count, self.mean + share[:, None] * step, self.scatter + other.scatter + between)

    def beside(self, other: "Moments") -> "Moments":
        """The cells of both."""
        return Moments(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Cells(NamedTuple):
    """A tree: the cell k was cut at `cut[k]` of a column into `child[k]` and the one after it.

    A leaf has the child 0. The `residual` of a cell is the sum of squares of its rows, in nats².
    """

    column: Int[ndarray, " cells"]
    cut: Float[ndarray, " cells"]
    child: Int[ndarray, " cells"]
    moments: Moments
    residual: Float[ndarray, " cells"]

    def find(self, points: Points) -> Int[ndarray, " points"]:
        """The leaf of each point."""
        cell = np.zeros(len(points), int)
        live = np.flatnonzero(self.child[cell])
        while len(live):
            at = cell[live]
            cell[live] = self.child[at] + (points[live, self.column[at]] > self.cut[at])
            live = live[self.child[cell[live]] > 0]
        return cell

    def divided(self, which: ndarray, column: ndarray, cut: ndarray) -> "Cells":
        """With some leaves cut; the new ones are empty."""
        size, more = len(self.child), 2 * len(which)
        child, columns, cuts, residual = (
            np.concatenate([part, np.zeros(more, part.dtype)])
            for part in (self.child, self.column, self.cut, self.residual)
        )
        child[which], columns[which], cuts[which] = size + 2 * np.arange(len(which)), column, cut
        moments = self.moments.beside(_nothing(more, self.moments.mean.shape[1]))
        return Cells(columns, cuts, child, moments, residual)


def empty(columns: int) -> Cells:
    """One cell without rows."""
    return Cells(np.zeros(1, int), np.zeros(1), np.zeros(1, int), _nothing(1, columns), np.zeros(1))


class Nodes(NamedTuple):
    """Weighted points, and the cell of each."""

    points: Float[ndarray, "nodes columns"]
    copies: Float[ndarray, " nodes"]
    cell: Int[ndarray, " nodes"]


def nodes(moments: Moments) -> Nodes:
    """The nodes of cells; at most as many as `most_nodes`."""
    axes, rank = _axes(moments)
    steps = np.sqrt(rank)[:, None, None] * axes
    centre = moments.mean[:, None]
    points = np.concatenate([centre + steps, centre - steps, centre], axis=1)
    is_used = axes.any(axis=2)
    is_node = np.concatenate([is_used, is_used, (rank == 0)[:, None]], axis=1)
    copies = is_node * (moments.count / np.maximum(2 * rank, 1))[:, None]
    cell, place = np.nonzero(copies)
    return Nodes(points[cell, place], copies[cell, place], cell)


def most_nodes(count: Float[ndarray, " cells"], columns: int) -> int:
    """The number of nodes of cells with so many rows, at most."""
    return int(np.where(count > 1, 2 * np.minimum(count - 1, columns), count).sum())


class Quadratics:
    """For each cell and particle, the quadratic in the columns that agrees with the nodes.

    Attributes:
        total: its sum over the rows of the cell, that of the nodes.
    """

    total: Float[ndarray, "cells particles"]

    def __init__(self, moments: Moments, values: Values):
        axes, rank = _axes(moments)
        (cells, columns), size = moments.mean.shape, np.sqrt(np.maximum(rank, 1))[:, None, None]
        self._mean, self._pairs = moments.mean, list(itertools.combinations(range(columns), 2))
        signs = (1, 1), (1, -1), (-1, 1), (-1, -1)
        corners = [a * axes[:, j] + b * axes[:, k] for j, k in self._pairs for a, b in signs]
        steps = [np.zeros((cells, 1, columns)), size * axes, -size * axes, *(one[:, None] for one in corners)]
        places = moments.mean[:, None] + np.concatenate(steps, axis=1)
        found = values(places.reshape(-1, columns)).reshape(*places.shape[:2], -1)
        middle, up, down, corner = np.split(found, [1, 1 + columns, 1 + 2 * columns], axis=1)
        slope, curve = (up - down) / (2 * size), (up + down - 2 * middle) / (2 * size**2)
        cross = (corner[:, 0::4] - corner[:, 1::4] - corner[:, 2::4] + corner[:, 3::4]) / 4
        self._coefficients = np.concatenate([middle, slope, curve, cross], axis=1)
        self.total = moments.count[:, None] * (middle[:, 0] + curve.sum(axis=1))
        lengths = (axes**2).sum(axis=2, keepdims=True)
        self._inverse = np.divide(axes, lengths, out=np.zeros_like(axes), where=lengths > 0)

    def __call__(self, points: Points, cell: Int[ndarray, " points"]) -> Float[ndarray, "points particles"]:
        """Their values at points of cells."""
        u = np.einsum("pka,pa->kp", self._inverse[cell], points - self._mean[cell])
        terms = [np.ones(len(points)), *u, *u**2, *(u[j] * u[k] for j, k in self._pairs)]
        found = np.zeros((len(points), self._coefficients.shape[2]))
        for number, term in enumerate(terms):
            found += term[:, None] * self._coefficients[cell, number]
        return found


class Entered(NamedTuple):
    """Cells with some rows more.

    Attributes:
        cell: of each row.
        error: the growth of the log-likelihood of the nodes minus that of the rows, in nats.
    """

    cells: Cells
    cell: Int[ndarray, " points"]
    error: Float[ndarray, " particles"]


def entered(cells: Cells, points: Points, values: Values, most: int) -> Entered:
    """Cut cells as needed, with at most `most` nodes, and let rows enter.

    As nodes run out, the residuals that a cell may have grow.
    """
    found, cell, columns = values(points), cells.find(points), points.shape[1]
    rise, error = np.zeros(len(cells.child)), np.zeros((len(cells.child), found.shape[1]))
    is_alike = np.zeros(len(cells.child), bool)  # cannot be cut, as rows are equal
    active = np.arange(len(points))  # rows whose cells have changed
    while len(active):
        ids, local = np.unique(cell[active], return_inverse=True)
        seen = _beside(cells.moments.at(ids), points[active], found[active], local, values)
        after = _moments(seen.points, seen.copies, seen.cell, len(ids))
        fits = Quadratics(after, values)
        squares = seen.copies * np.mean((seen.values - fits(seen.points, seen.cell)) ** 2, axis=1)
        squares = np.where(np.isfinite(squares), squares, np.inf)
        rise[ids] = _sums(squares[:, None], seen.cell, len(ids))[:, 0]
        error[ids] = fits.total - _sums(seen.copies[:, None] * seen.values, seen.cell, len(ids))
        total = cells.moments.count + np.bincount(cell, minlength=len(cells.child))
        left = (most - most_nodes(total, columns)) // (2 * columns)
        if left <= 0:
            break
        limit = LARGEST * (most / (2 * columns * left)) ** SPARING
        here = np.where(is_alike[ids] | (total[ids] < 2), 0.0, cells.residual[ids] + rise[ids])
        worst = np.argsort(-here)[: min(left, np.count_nonzero(here > limit))]
        if not len(worst):
            break
        column, can_be_cut = _columns(after, seen, squares, worst)
        is_alike[ids[worst[~can_be_cut]]] = True
        worst, column = worst[can_be_cut], column[can_be_cut]
        which = ids[worst]
        cells = cells.divided(which, column, after.mean[worst, column])
        more = 2 * len(which)
        rise[which], error[which] = 0.0, 0.0
        rise, is_alike = np.append(rise, np.zeros(more)), np.append(is_alike, np.zeros(more, bool))
        error = np.concatenate([error, np.zeros((more, error.shape[1]))])
        active = active[np.isin(cell[active], which)]
        cell[active] = cells.find(points[active])
    entering = _moments(points, np.ones(len(points)), cell, len(cells.child))
    cells = cells._replace(moments=cells.moments.plus(entering), residual=cells.residual + rise)
    return Entered(cells, cell, error.sum(axis=0))


class _Seen(NamedTuple):
    """Weighted points of cells, with the values of the log-likelihood there."""

    points: Points
    copies: Float[ndarray, " points"]
    cell: Int[ndarray, " points"]
    values: Float[ndarray, "points particles"]


def _beside(before: Moments, points: Points, found: ndarray, local: ndarray, values: Values) -> _Seen:
    """Rows, and nodes in the place of those that cells had before."""
    old = nodes(before)
    if not len(old.copies):
        return _Seen(points, np.ones(len(points)), local, found)
    return _Seen(
        np.concatenate([points, old.points]),
        np.concatenate([np.ones(len(points)), old.copies]),
        np.concatenate([local, old.cell]),
        np.concatenate([found, values(old.points)]),
    )


def _columns(
    moments: Moments, seen: _Seen, squares: Float[ndarray, " points"], which: Int[ndarray, " cut"]
) -> tuple[Int[ndarray, " cut"], Bool[ndarray, " cut"]]:
    """The column of each cell in which points with large residuals lie far from its mean.

    Also whether there is one in which its points differ.
    """
    place = np.full(len(moments.count), -1)
    place[which] = np.arange(len(which))
    chosen = place[seen.cell] >= 0
    at, means = place[seen.cell[chosen]], moments.mean[which]
    variance = np.diagonal(moments.scatter[which], axis1=1, axis2=2)
    steps = (seen.points[chosen] - means[at]) ** 2
    distance = np.divide(steps, variance[at], out=np.zeros_like(steps), where=variance[at] > 0)
    weights = np.minimum(squares[chosen], np.finfo(float).max ** 0.5)
    pull = np.where(variance > 0, _sums(weights[:, None] * distance, at, len(which)), -1.0)
    return pull.argmax(axis=1), np.any(variance > 0, axis=1)


def _axes(moments: Moments) -> tuple[Float[ndarray, "cells axes columns"], Int[ndarray, " cells"]]:
    """The axes of each cell's covariance, zero where it has no extent, and their number."""
    covariance = moments.scatter / np.maximum(moments.count, 1)[:, None, None]
    variances, directions = np.linalg.eigh(covariance)
    is_flat = variances <= FLAT * variances[:, -1:]
    lengths = np.sqrt(np.where(is_flat, 0.0, variances))
    return lengths[:, :, None] * np.swapaxes(directions, 1, 2), np.sum(~is_flat, axis=1)


def _moments(points: Points, copies: ndarray, cell: ndarray, cells: int) -> Moments:
    """The moments of weighted points, cell by cell."""
    count = np.bincount(cell, copies, cells)
    mean = _sums(copies[:, None] * points, cell, cells) / np.where(count > 0, count, 1.0)[:, None]
    steps = points - mean[cell]
    products = copies[:, None, None] * steps[:, :, None] * steps[:, None, :]
    size = points.shape[1]
    scatter = _sums(products.reshape(len(points), size * size), cell, cells)
    return Moments(count, mean, scatter.reshape(cells, size, size))


def _nothing(cells: int, columns: int) -> Moments:
    return Moments(np.zeros(cells), np.zeros((cells, columns)), np.zeros((cells, columns, columns)))


def _sums(values: Float[ndarray, "points numbers"], cell: ndarray, cells: int) -> ndarray:
    """Sums over the points of each cell."""
    return np.stack([np.bincount(cell, column, cells) for column in values.T], axis=1)
