"""A formula and a table made into numbers: standardised columns, the response, the offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.errors import DataError
from evidentia.regression.formula import Design, Formula, evaluate, learn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CONSTANT = 1e-10  # a deviation relative to the mean, below which a column is constant
SAME = 1e-9  # an eigenvalue of the correlations, below which columns are collinear


class Frame(NamedTuple):
    """What a formula takes from a table.

    Attributes:
        formula: as it was parsed.
        design: makes the columns of any table; it has their names and terms.
        columns: standardised, without the intercept's.
        means, deviations: of the columns in the table; means are 0 and deviations about 0 if there
            is no intercept.
        response: the values left of "~".
        trials: the numbers of trials, if any.
        offset: the sum of the offsets, if any.
    """

    formula: Formula
    design: Design
    columns: Float[ndarray, "rows columns"]
    means: Float[ndarray, " columns"]
    deviations: Float[ndarray, " columns"]
    response: Series
    trials: ndarray | None
    offset: Float[ndarray, " rows"] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return self.design.names

    @property
    def terms(self) -> dict[str, slice]:
        """The places of the columns of each term."""
        return self.design.terms

    @property
    def num_rows(self) -> int:
        """Rows of the table that are used."""
        return len(self.columns)


def frame_of(formula: Formula, table: DataFrame) -> Frame:
    """Evaluate a formula on a table.

    Raises:
        ConfigurationError, DataError: as raised by `learn`; columns that are constant or
            collinear.
    """
    design = learn(formula, formula.terms, table)
    columns = design.columns(table)
    means = columns.mean(axis=0) if formula.has_intercept else np.zeros(columns.shape[1])
    columns = columns - means
    deviations = np.sqrt(np.einsum("ij,ij->j", columns, columns) / len(columns))
    flat = deviations <= CONSTANT * np.abs(means)
    if flat.any() and len(columns) > 1:
        names = ", ".join(repr(design.names[place]) for place in np.flatnonzero(flat))
        raise DataError(
            f"{names} has the same value in all {len(columns):,} rows used: leave it out of the formula."
        )
    deviations = np.where(flat, 1.0, deviations)
    columns /= deviations
    _check_collinear(columns, design.names, formula.has_intercept)
    offsets = [evaluate(f"I({one})", table, formula).to_numpy(np.float64) for one in formula.offsets]
    offset = np.sum(offsets, axis=0) if offsets else None
    trials = None if formula.trials is None else evaluate(formula.trials, table, formula).to_numpy()
    response = evaluate(formula.response, table, formula)
    return Frame(formula, design, columns, means, deviations, response, trials, offset)


def _check_collinear(
    columns: Float[ndarray, "rows columns"], names: tuple[str, ...], has_intercept: bool
) -> None:
    """Raise DataError if some columns are sums of others. More columns than rows always are."""
    count = columns.shape[1]
    if not count or count > len(columns) - int(has_intercept):
        return
    values, vectors = np.linalg.eigh(columns.T @ columns / len(columns))
    if values[0] > SAME * count:
        return
    involved = np.abs(vectors[:, values <= SAME * count]).max(axis=1) > 1e-3
    listed = ", ".join(repr(name) for name, one in zip(names, involved, strict=True) if one)
    raise DataError(
        f"the columns {listed} are collinear: some are sums of the others. Leave one out of the formula."
    )
