"""The terms of a formula as columns: factors with effects that sum to zero, and covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import DataError

COVARIATES = "covariates"  # the block of all continuous columns, which share a g


class Scales(NamedTuple):
    """r of the priors: of fixed factors, random ones and continuous covariates."""

    fixed: float = 0.5
    random: float = 1.0
    covariate: float = float(np.sqrt(2) / 4)


class Term(NamedTuple):
    """The columns of a term.

    Attributes:
        columns: of the rows, (N, p).
        scale: r of the prior: g ~ InverseGamma(1/2, r²/2), so that effects are Cauchy.
        has_indicators: whether each row has a single one in its columns.
        is_covariate: whether it is continuous and not random.
        levels: names of the effects, such as "a, b"; "" for that of a covariate.
        loadings: the effects as combinations of those of the columns, in units of the table.
    """

    columns: Float[ndarray, "rows p"]
    scale: float
    has_indicators: bool = False
    is_covariate: bool = False
    levels: tuple[str, ...] = ()
    loadings: Float[ndarray, "levels p"] | None = None


class Block(NamedTuple):
    """Effects of a model that share a g.

    Attributes:
        name: of the term.
        scale: r of the prior.
        places: the columns of the sums that it is made of.
        turn: its columns as combinations of these.
    """

    name: str
    scale: float
    places: ndarray
    turn: Float[ndarray, "columns p"]


class Coded(NamedTuple):
    """One variable as columns, and its effects as combinations of those of the columns."""

    columns: Float[ndarray, "rows p"]
    levels: tuple[str, ...]
    loadings: Float[ndarray, "levels p"]
    is_factor: bool


class Design(NamedTuple):
    """The terms of the full model.

    Attributes:
        terms: with the columns of each.
        fixed: terms that models have or have not.
        random: terms that all models have, besides that of the intercept alone.
    """

    terms: dict[str, Term]
    fixed: tuple[str, ...]
    random: tuple[str, ...]


def design_of(
    parts: Mapping[str, Sequence[str]], coded: Mapping[str, Coded], random: Sequence[str], scales: Scales
) -> Design:
    """The columns of terms, which are products of those of their variables.

    Args:
        parts: the variables of each term.
        coded: the variables.
        random: variables whose effects are random.
        scales: of the priors.

    Raises:
        DataError: a random term with one row in each level.
    """
    terms = {}
    for name, variables in parts.items():
        own = [coded[one] for one in variables]
        columns, loadings = (
            reduce(_products, (one.columns for one in own)),
            reduce(np.kron, (one.loadings for one in own)),
        )
        has_rows = np.abs(columns).max(0) > 0  # of the cells
        columns, loadings = columns[:, has_rows], loadings[:, has_rows]
        is_random = any(one in random for one in variables)
        if is_random and columns.shape[1] >= len(columns):
            raise DataError(
                f"the random term {name} has one row in each level: its variance cannot be told from that of the residuals. Leave it "
                "out."
            )
        terms[name] = Term(
            columns,
            scales.random if is_random else scales.fixed,
            has_indicators=all(one in random for one in variables),
            is_covariate=not (is_random or all(one.is_factor for one in own)),
            levels=tuple(", ".join(filter(None, levels)) for levels in product(*(one.levels for one in own))),
            loadings=loadings,
        )
    at_random = tuple(name for name, variables in parts.items() if set(variables) & set(random))
    return Design(terms, tuple(name for name in parts if name not in at_random), at_random)


def coded_factor(name: str, column: Any, *, is_random: bool = False) -> Coded:
    """A factor's columns: contrasts that sum to zero, or indicators of the levels of a random one.

    Raises:
        DataError: a single level.
    """
    from pandas import Categorical

    codes = Categorical(column).remove_unused_categories()
    count = len(codes.categories)
    if count < 2:
        raise DataError(
            f"the factor {name} has one level in the rows used, {codes.categories[0]!r}; it needs two or more."
        )
    loadings = np.eye(count) if is_random else contrasts(count)
    return Coded(loadings[codes.codes], tuple(map(str, codes.categories)), loadings, is_factor=True)


def coded_covariate(name: str, values: ndarray, levels: tuple[str, ...] = ("",)) -> Coded:
    """Standardised columns of numbers, with effects for one unit of each.

    Raises:
        DataError: a column that does not vary.
    """
    columns = np.asarray(values, float).reshape(len(values), -1)
    deviations = columns.std(0)
    flat = np.ptp(columns, axis=0) == 0
    if flat.any():
        raise DataError(
            f"the covariate {name} does not vary: all its values are {columns[0, flat.argmax()]:g}."
        )
    return Coded((columns - columns.mean(0)) / deviations, levels, np.diag(1 / deviations), is_factor=False)


def contrasts(count: int) -> ndarray:
    """Orthonormal columns that sum to zero, (levels, levels - 1); any such are as good."""
    return np.linalg.eigh(np.eye(count) - 1 / count)[1][:, 1:]


def _products(one: ndarray, other: ndarray) -> ndarray:
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
