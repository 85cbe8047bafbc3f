"""The Bayes factor of a linear model with a variance for each block of effects, given the g's.

y = μ + Σ X_k β_k + ε, ε ~ N(0, σ²), β_k ~ N(0, g_k σ² I), with p(μ, σ²) ∝ 1/σ² (Rouder, Morey,
Speckman and Province 2012). With W = [1, X, y] and V = I + g Z Zᵀ for a block Z of indicators,
everything follows from T = Wᵀ V⁻¹ W (see `sums`). Without the intercept's row and column (which is
flat) and with D the other blocks' g's, against the model of the intercept alone,

    log BF = -½ log |V| - ½ log (T₁₁ / N) - ½ log |I + D^½ T D^½| - (N - 1)/2 log (left / total),

and given the g's, effects are Student t with N - 1 degrees of freedom, of the scale matrix
left / (N - 1) · D^½ (I + D^½ T D^½)⁻¹ D^½.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

SMALLEST_SHARE = 1e-14  # of the response's squares, that rounding leaves
MOST_VALUES = 2**17  # of stacked matrices, held at once: what a cache has room for


class Likelihood(NamedTuple):
    """What the Bayes factor of one model takes from the rows.

    Attributes:
        num_rows: N.
        products: of W about the means of the levels of Z, (q, q), with the intercept first and the
            response last; of W itself if there is no block Z.
        place: which g belongs to each of the columns between them.
        total: sum of squares of the response about its mean.
        eliminated: which g is that of the block Z; None if there is none.
        counts, repeats: rows of the levels of Z, and how many levels have as many.
        nodes: counts that stand for all of them.
        between: the products of the levels' means at each node, (nodes, q q).
    """

    num_rows: int
    products: Float[ndarray, "q q"]
    place: ndarray
    total: float
    eliminated: int | None
    counts: ndarray
    repeats: ndarray
    nodes: ndarray
    between: Float[ndarray, "nodes q2"]

    def log_bayes_factor(self, log_g: Float[ndarray, "points blocks"]) -> Float[ndarray, " points"]:
        """Against the intercept alone, in nats."""
        parts = [self._log_bayes_factor(part) for part in parts_of(log_g, self.products.size)]
        return np.concatenate(parts)

    def effects(self, log_g: Float[ndarray, "points blocks"]) -> Iterator[Effects]:
        """The effects given the g's of some points, in parts."""
        for part in parts_of(log_g, self.products.size):
            root, inner, _ = self._inner(part)
            pivots = np.linalg.cholesky(inner)
            count = len(self.place)
            triangle, projected = pivots[:, :count, :count], pivots[:, -1, :count]
            # rows of a root R of the scale matrix: R Rᵀ = D^½ (L Lᵀ)⁻¹ D^½
            inverse = np.linalg.inv(triangle) if count else triangle
            scale_root = np.swapaxes(inverse, 1, 2) * root[:, :count, None]
            mean = np.einsum("sij,sj->si", scale_root, projected)
            left = pivots[:, -1, -1] ** 2
            yield Effects(mean, scale_root, left, np.exp(part))

    def _log_bayes_factor(self, log_g: ndarray) -> ndarray:
        _, inner, log_volume = self._inner(log_g)
        # The last pivot is what the effects leave of the response's squares.
        pivots = np.diagonal(np.linalg.cholesky(inner), axis1=1, axis2=2)
        log_volume = log_volume + 2 * np.log(pivots[:, :-1]).sum(1)
        return -0.5 * log_volume - 0.5 * (self.num_rows - 1) * np.log(pivots[:, -1] ** 2 / self.total)

    def _inner(self, log_g: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """D^½, with one for the response; I + D^½ T D^½ with the response; log |V| T₁₁ / N."""
        g = np.exp(log_g)
        products, log_volume = self._without_block(g)
        first = products[:, 0, 0]
        log_volume = log_volume + np.log(first / self.num_rows)
        row = products[:, 0, 1:] / np.sqrt(first)[:, None]
        inner = products[:, 1:, 1:] - row[:, :, None] * row[:, None, :]
        root = np.concatenate([np.sqrt(g[:, self.place]), np.ones((len(g), 1))], axis=1)
        inner *= root[:, :, None]
        inner *= root[:, None, :]
        inner[:, range(len(self.place)), range(len(self.place))] += 1
        inner[:, -1, -1] += SMALLEST_SHARE * self.total  # below which rounding could make it negative
        return root, inner, log_volume

    def _without_block(self, g: ndarray) -> tuple[ndarray, ndarray]:
        """T and log |V| at each point."""
        if self.eliminated is None:
            return np.broadcast_to(self.products, (len(g), *self.products.shape)), np.zeros(len(g))
        own = g[:, self.eliminated, None]
        products = ((1 / (1 + own * self.nodes)) @ self.between).reshape(-1, *self.products.shape)
        products += self.products
        return products, np.log1p(own * self.counts) @ self.repeats


class Effects(NamedTuple):
    """Columns' effects given the g's, in units of the scaled response.

    Attributes:
        mean: of the Student t law of N - 1 degrees of freedom.
        scale_root: R, with the scale matrix left / (N - 1) R Rᵀ.
        left: the sum of squares that the effects leave.
        g: of the blocks.
    """

    mean: Float[ndarray, "points columns"]
    scale_root: Float[ndarray, "points columns columns"]
    left: Float[ndarray, " points"]
    g: Float[ndarray, "points blocks"]


def parts_of(log_g: ndarray, size: int) -> list[ndarray]:
    """Points in parts whose stacked matrices, of `size` values each, a cache holds."""
    return np.array_split(log_g, max(1, -(-len(log_g) * size // MOST_VALUES))) if len(log_g) else [log_g]
