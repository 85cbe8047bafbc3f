"""The Bayes factor of a linear model given the g's, without differences of large numbers.

The same law as in `likelihood`, for designs without a block of indicators Z. With the model's
centred columns X = Q R, the response's z = Qᵀy, what no effects explain of its squares, rest, and
S = R D^½,

    m = (I + SᵀS)⁻¹ Sᵀz,    left = rest + |z - S m|² + |m|²,
    log BF = -½ log |I + SᵀS| - (N - 1)/2 log (left / total).

All summands are positive, and m is where they are least: an error of m enters squared. So nothing
cancels where the columns explain the response almost fully, and R has all digits of the columns,
of which their products have half. Elsewhere left is the last pivot of a Cholesky factorisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.per_term.likelihood import Effects, parts_of

ALMOST = 1e-4  # of the response's squares, below which the last pivot has lost digits
FEW = 12  # rows of a matrix, up to which elimination at all points together is as fast as LAPACK


class RootLikelihood(NamedTuple):
    """What the Bayes factor of one model takes from the rows.

    Attributes:
        num_rows: N.
        root: R.
        place: which g belongs to each column.
        explained: z.
        rest: the response's squares that no effects explain.
        total: sum of squares of the response about its mean.
    """

    num_rows: int
    root: Float[ndarray, "q p"]
    place: ndarray
    explained: Float[ndarray, " q"]
    rest: float
    total: float

    def log_bayes_factor(self, log_g: Float[ndarray, "points blocks"]) -> Float[ndarray, " points"]:
        """Against the intercept alone, in nats."""
        parts = parts_of(log_g, self.root.shape[1] ** 2)
        return np.concatenate([self._log_bayes_factor(part) for part in parts])

    def effects(self, log_g: Float[ndarray, "points blocks"]) -> Iterator[Effects]:
        """The effects given the g's of some points, in parts."""
        for part in parts_of(log_g, self.root.shape[1] ** 2):
            scale, inner = self._inner(part)
            mean, left = self._least(scale, inner)
            # rows of a root of the scale matrix D^½ (L Lᵀ)⁻¹ D^½
            inverse = np.linalg.inv(np.linalg.cholesky(inner))
            scale_root = np.swapaxes(inverse, 1, 2) * scale[:, :, None]
            yield Effects(scale * mean, scale_root, left, np.exp(part))

    def _log_bayes_factor(self, log_g: ndarray) -> ndarray:
        if self.rest < ALMOST * self.total:
            scale, inner = self._inner(log_g)
            _, left = self._least(scale, inner)
            volumes = pivots_of(np.moveaxis(inner, 0, -1).copy())
        else:
            *volumes, left = pivots_of(self._bordered(log_g))
        return -0.5 * (np.log(volumes).sum(0) + (self.num_rows - 1) * np.log(left / self.total))

    def _inner(self, log_g: ndarray) -> tuple[ndarray, ndarray]:
        """The diagonal of D^½, and I + SᵀS, at each point."""
        scale = np.exp(0.5 * log_g[:, self.place])
        inner = scale[:, :, None] * (self.root.T @ self.root) * scale[:, None, :]
        return scale, inner + np.eye(len(self.place))

    def _bordered(self, log_g: ndarray) -> Float[ndarray, "p1 p1 points"]:
        """I + SᵀS with Sᵀz and the response's squares as a further row and column."""
        wide = np.column_stack([self.root, self.explained])
        products = wide.T @ wide
        products[-1, -1] = self.total
        scale = np.concatenate([np.exp(0.5 * log_g.T)[self.place], np.ones((1, len(log_g)))])
        found = products[:, :, None] * scale
        found *= scale[:, None]
        effects = np.arange(len(self.place))
        found[effects, effects] += 1
        return found

    def _least(self, scale: ndarray, inner: ndarray) -> tuple[ndarray, ndarray]:
        """m and left at each point."""
        projected = scale * (self.explained @ self.root)
        mean = np.linalg.solve(inner, projected[:, :, None])[:, :, 0]
        unexplained = self.explained - (scale * mean) @ self.root.T
        return mean, self.rest + np.sum(unexplained**2, axis=1) + np.sum(mean**2, axis=1)


def pivots_of(matrices: Float[ndarray, "p p points"]) -> Float[ndarray, "p points"]:
    """Of symmetric elimination; their product is the determinant. Overwrites small matrices."""
    count = len(matrices)
    if count > FEW:
        triangles = np.linalg.cholesky(np.moveaxis(matrices, -1, 0))
        return np.diagonal(triangles, axis1=1, axis2=2).T ** 2
    for place in range(count - 1):
        row = matrices[place, place + 1 :]
        matrices[place + 1 :, place + 1 :] -= row[:, None] * (row / matrices[place, place])
    return matrices[np.arange(count), np.arange(count)]


def root_likelihood(
    num_rows: int, columns: Float[ndarray, "r p"], response: Float[ndarray, " r"], place: ndarray
) -> RootLikelihood:
    """That of columns and a response, in orthonormal coordinates of the centred rows.

    Args:
        num_rows: N.
        columns: of the model.
        response: about its mean.
        place: which g belongs to each column.
    """
    directions, root = np.linalg.qr(columns)
    explained = directions.T @ response
    left = response - directions @ explained
    return RootLikelihood(num_rows, root, place, explained, float(left @ left), float(response @ response))
