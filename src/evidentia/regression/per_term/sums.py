"""The sums over the rows of a design, made once for all of its models.

With V = I + g Z Zᵀ for the block Z with most columns, if it is one of indicators, T = Wᵀ V⁻¹ W
costs one product per level:

    T = Σ_j 1 / (1 + g n_j) n_j m_j m_jᵀ + (W - m)ᵀ (W - m),    |V| = Π_j (1 + g n_j),

with n_j rows in level j and m_j their mean in W. As a function of log n, 1 / (1 + g n) is analytic
within π of the real line for every g: where the n_j differ, some twenty Chebyshev nodes stand for
any number of levels. Without such a block, models take the triangle of a QR factorisation of W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.per_term.blocks import COVARIATES, Block, Term
from evidentia.regression.per_term.likelihood import Likelihood
from evidentia.regression.per_term.root_likelihood import RootLikelihood, root_likelihood

RANK = 1e-10  # of the largest eigenvalue of the columns' products
DIGITS = 1e-15  # of an interpolated 1 / (1 + g n)


class Rotation(NamedTuple):
    """A term's columns, turned so that those without any variation can be left out."""

    kept: Float[ndarray, "p rank"]
    dropped: Float[ndarray, "p lost"]


class Sums(NamedTuple):
    """What all models of a design take from the rows.

    Attributes:
        terms: of the full model, without their rows.
        num_rows: N.
        unit: the largest response, by which it is divided.
        products: of W about the means of the levels of Z; the intercept is first, the response
            last.
        root: the triangle of a QR factorisation of W without the intercept if there is no Z.
        places: columns of W of each term, but for Z.
        rotations: of their columns.
        total: sum of squares of the response about its mean.
        eliminated: the term of the block Z; None if there is none.
        counts, repeats, nodes, between: of Z, as in `Likelihood`.
    """

    terms: Mapping[str, Term]
    num_rows: int
    unit: float
    products: Float[ndarray, "q q"]
    root: Float[ndarray, "r q1"]
    places: Mapping[str, ndarray]
    rotations: Mapping[str, Rotation]
    total: float
    eliminated: str | None
    counts: ndarray
    repeats: ndarray
    nodes: ndarray
    between: Float[ndarray, "nodes q q"]

    def blocks_of(self, names: Sequence[str], scale: float) -> list[Block]:
        """Blocks with a g each; covariates share one, as in BayesFactor."""
        own = [self._block(name) for name in names if not self.terms[name].is_covariate]
        shared = [name for name in names if self.terms[name].is_covariate]
        if not shared:
            return own
        places = np.concatenate([self.places[name] for name in shared])
        values, vectors = self._variances(places)
        kept = values > RANK * values.max(initial=0.0)  # effects of prior variance g σ² (XᵀX / N)⁻¹
        return [*own, Block(COVARIATES, scale, places, vectors[:, kept] / np.sqrt(values[kept]))]

    def likelihood_of(self, blocks: Sequence[Block]) -> Likelihood | RootLikelihood:
        """Of the model of some blocks; Z must be among them if there is one."""
        if self.eliminated is None:
            columns = [self.root[:, block.places - 1] @ block.turn for block in blocks]
            place = np.repeat(np.arange(len(blocks)), [one.shape[1] for one in columns])
            columns = np.column_stack([np.zeros((len(self.root), 0)), *columns])
            return root_likelihood(self.num_rows, columns, self.root[:, -1], place)
        free = [block for block in blocks if block.name != self.eliminated]
        last = len(self.products) - 1
        turn = np.zeros((last + 1, 2 + sum(block.turn.shape[1] for block in free)))
        turn[0, 0] = turn[last, -1] = 1
        start = 1
        for block in free:
            turn[block.places, start : start + block.turn.shape[1]] = block.turn
            start += block.turn.shape[1]
        place = [np.full(block.turn.shape[1], blocks.index(block)) for block in free]
        names = [block.name for block in blocks]
        return Likelihood(
            self.num_rows,
            turn.T @ self.products @ turn,
            np.concatenate([np.zeros(0, int), *place]),
            self.total,
            names.index(self.eliminated),
            self.counts,
            self.repeats,
            self.nodes,
            (turn.T @ self.between @ turn).reshape(len(self.nodes), turn.shape[1] ** 2),
        )

    @property
    def unexplained(self) -> float:
        """The share of the response's squares that all columns leave, and the groups."""
        inner = self.products[1:, 1:] if self.eliminated else self._centred[1:, 1:]
        values, vectors = np.linalg.eigh(inner[:-1, :-1])
        kept = values > RANK * values.max(initial=0.0)
        projected = vectors[:, kept].T @ inner[:-1, -1] / np.sqrt(values[kept])
        return float(max(inner[-1, -1] - projected @ projected, 0.0) / self.total)

    @property
    def _centred(self) -> ndarray:
        """Products of the columns about their means; those of W but for Z are centred."""
        return self.products + self.between.sum(0)

    def _variances(self, places: ndarray) -> tuple[ndarray, ndarray]:
        """Principal variances of columns, and their directions."""
        if self.eliminated is not None:
            return np.linalg.eigh(self._centred[np.ix_(places, places)] / self.num_rows)
        _, values, directions = np.linalg.svd(self.root[:, places - 1], full_matrices=False)
        return values**2 / self.num_rows, directions.T

    def _block(self, name: str) -> Block:
        scale = self.terms[name].scale
        if name == self.eliminated:
            return Block(name, scale, np.zeros(0, int), np.zeros((0, 0)))
        places = self.places[name]
        return Block(name, scale, places, np.eye(len(places)))


def sums_of(terms: Mapping[str, Term], response: Float[ndarray, " rows"]) -> Sums:
    """The sums of a design's columns and the response."""
    unit = float(np.abs(response).max())
    y = response / unit
    y = y - y.mean()
    free = [name for name, term in terms.items() if term.has_indicators]
    eliminated = max(free, key=lambda name: terms[name].columns.shape[1], default=None)
    others = [name for name in terms if name != eliminated]
    rotations = {name: _rotation(terms[name].columns) for name in others}
    columns = [_centred(terms[name].columns) @ rotations[name].kept for name in others]
    wide = np.column_stack([np.ones(len(y)), *columns, y])
    ends = np.cumsum([1, *(each.shape[1] for each in columns)])
    places = {
        name: np.arange(start, stop) for name, start, stop in zip(others, ends[:-1], ends[1:], strict=True)
    }
    size = wide.shape[1]
    counts, repeats, nodes, between = np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, size, size))
    if eliminated is not None:
        indicators = terms[eliminated].columns
        each = indicators.sum(0)
        means = indicators.T @ wide / each[:, None]
        counts, repeats = np.unique(each, return_counts=True)
        nodes, shares = _nodes(each, counts)
        between = np.stack([means.T @ (means * (share * each)[:, None]) for share in shares])
        wide = wide - indicators @ means
        wide[:, 0] = 0.0
    total = float(y @ y)
    return Sums(
        {name: term._replace(columns=term.columns[:0]) for name, term in terms.items()},
        len(y),
        unit,
        wide.T @ wide,
        np.asarray(np.linalg.qr(wide[:, 1:], mode="r")) if eliminated is None else np.zeros((0, size - 1)),
        places,
        rotations,
        total,
        eliminated,
        counts,
        repeats,
        nodes,
        between,
    )


def _centred(columns: ndarray) -> ndarray:
    return columns - columns.mean(0)


def _rotation(columns: Float[ndarray, "rows p"]) -> Rotation:
    """Directions with and without variation.

    The prior of the effects is the same in all directions, and the intercept is flat. Centred
    indicators sum to zero: at a large g, the rounding of that direction would be all there is.
    """
    centred = _centred(columns)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    kept = values > RANK * values.max(initial=0.0)
    return Rotation(vectors[:, kept], vectors[:, ~kept])


def _nodes(each: ndarray, counts: ndarray) -> tuple[ndarray, ndarray]:
    """Numbers of rows that stand for those of all levels, and the share of each level in them."""
    low, high = np.log(counts[0]), np.log(counts[-1])
    rate = np.arcsinh(2 * np.pi / max(high - low, 1e-3))  # of convergence: log of the ellipse's axes
    number = int(np.ceil(-np.log(DIGITS) / rate)) + 1
    if len(counts) <= number:
        return counts, (each == counts[:, None]).astype(float)
    angles = np.pi * (np.arange(number) + 0.5) / number
    nodes = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
    signs = (-1.0) ** np.arange(number) * np.sin(angles)  # of the barycentric formula
    distance = np.log(each) - nodes[:, None]
    close = np.abs(distance) < 1e-13
    terms = signs[:, None] / np.where(close, 1.0, distance)
    shares = terms / terms.sum(0)
    return np.exp(nodes), np.where(close.any(0), close.astype(float), shares)
