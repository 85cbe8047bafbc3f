"""Means and products of columns about them, accumulated in float64 over blocks of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray


class Moments(NamedTuple):
    """What least squares need of rows.

    Attributes:
        num_rows: n.
        means: of the columns.
        products: Σ (x - mean)(x - mean)ᵀ over the rows.
    """

    num_rows: int
    means: Float[ndarray, " columns"]
    products: Float[ndarray, "columns columns"]

    @property
    def about_zero(self) -> Moments:
        """The same with Σ x xᵀ as products, for a model without intercept."""
        products = self.products + self.num_rows * np.outer(self.means, self.means)
        return Moments(self.num_rows, np.zeros_like(self.means), products)

    def without(self, places: list[int]) -> Moments:
        """The same without some columns."""
        products = np.delete(np.delete(self.products, places, axis=0), places, axis=1)
        return Moments(self.num_rows, np.delete(self.means, places), products)

    @property
    def deviations(self) -> Float[ndarray, " columns"]:
        """Root mean squares about the means."""
        return np.sqrt(np.diagonal(self.products) / self.num_rows)

    @property
    def correlations(self) -> Float[ndarray, "columns columns"]:
        """Of the columns; 0 with a constant column."""
        deviations = self.deviations
        scales = np.where(deviations > 0, deviations, 1)
        return self.products / self.num_rows / np.outer(scales, scales)


def moments_of(rows: Float[ndarray, "rows columns"]) -> Moments:
    """The moments of a block of at least one row.

    Example:
        >>> moments_of(np.array([[1.0], [3.0]])).products
        array([[2.]])
    """
    means = rows.mean(axis=0)
    centred = rows - means
    return Moments(len(rows), means, centred.T @ centred)


def merged(first: Moments, second: Moments) -> Moments:
    """The moments of two blocks together (Chan, Golub and LeVeque 1979, Eq. 2.1).

    With d the difference of the means, n d dᵀ n₁ n₂ / n² is added to the products.
    """
    num_rows = first.num_rows + second.num_rows
    difference = second.means - first.means
    share = second.num_rows / num_rows
    return Moments(
        num_rows,
        first.means + share * difference,
        first.products + second.products + first.num_rows * share * np.outer(difference, difference),
    )
