"""A formula and a table made into numbers: the design, and the moments of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.data.fingerprint import as_text
from evidentia.errors import DataError
from evidentia.regression.design import Design, Expression, learn, learn_expression
from evidentia.regression.formula import Formula
from evidentia.regression.moments import Moments, merged, moments_of
from evidentia.regression.observations import hashes_of
from evidentia.regression.streamed import Streamed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CONSTANT = 1e-10  # a deviation relative to the mean, below which a column is constant
SAME = 1e-9  # an eigenvalue of the correlations, below which columns are collinear
VALUES_AT_ONCE = 1 << 22  # of the columns of a block of rows: 32 MiB


class Frame(NamedTuple):
    """What a formula takes from a table; no rows.

    Attributes:
        formula: as it was parsed.
        design: makes the columns of any table; it has their names and terms.
        response, trials, offsets: the expressions left of "~" and within `offset(...)`.
        num_rows: rows of the table that are used.
        means, deviations: of the columns in the table; means are 0 and deviations about 0 if there
            is no intercept.
        moments: of the columns and, if it holds numbers, last of the response less the offsets.
        precision: the relative rounding of the columns' types: about 1e-7 if one is float32.
        seen: some values of the response.
        fingerprints: of the columns of the response, and of the response itself.
    """

    formula: Formula
    design: Design
    response: Expression
    trials: Expression | None
    offsets: tuple[Expression, ...]
    num_rows: int
    means: Float[ndarray, " columns"]
    deviations: Float[ndarray, " columns"]
    moments: Moments
    precision: float
    seen: tuple[Any, ...]
    fingerprints: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return self.design.names

    @property
    def terms(self) -> dict[str, slice]:
        """The places of the columns of each term."""
        return self.design.terms

    @property
    def correlations(self) -> Float[ndarray, "columns columns"]:
        """Of the columns: Σ x xᵀ / n, standardised."""
        count, moments = len(self.names), self.moments
        used = moments if self.formula.has_intercept else moments.about_zero
        return used.correlations[:count, :count]

    def check_names(self, *parameters: str) -> None:
        """Raise DataError if a column of the terms is called as one of the parameters."""
        if taken := [name for name in self.names if name in ("Intercept", *parameters)]:
            raise DataError(
                f"the formula has a column {taken[0]!r}, which is also the name of a parameter of the model. Rename the column."
            )

    def offset(self, table: DataFrame) -> Float[ndarray, " rows"] | None:
        """The sum of the offsets for the rows of a table; None without any."""
        return _sum_of(self.offsets, table)


def frame_of(formula: Formula, table: DataFrame | Streamed) -> Frame:
    """Learn a formula on a table, and accumulate the moments of its columns block by block.

    Raises:
        ConfigurationError, DataError: as raised by `learn`, `Design.columns` and
            `Streamed.blocks`; columns that are constant or collinear.
    """
    known = table.sample if isinstance(table, Streamed) else table
    design = learn(formula, formula.terms, known)
    response = learn_expression(formula.response, known, formula)
    trials = None if formula.trials is None else learn_expression(formula.trials, known, formula)
    offsets = tuple(learn_expression(f"I({one})", known, formula) for one in formula.offsets)
    parts, hashes = [], Counter[str]()
    for block in blocks_of(table, len(design.names)):
        values = response.values(block)
        parts.append(moments_of(_rows(design, values, offsets, block)))
        hashes.update(hashes_of(formula, block, values))
    moments = reduce(merged, parts)
    used = moments if formula.has_intercept else moments.about_zero
    means, deviations = used.means[: len(design.names)], used.deviations[: len(design.names)]
    flat = deviations <= CONSTANT * np.abs(means)
    if flat.any() and moments.num_rows > 1:
        names = ", ".join(repr(design.names[place]) for place in np.flatnonzero(flat))
        raise DataError(
            f"{names} has the same value in all {moments.num_rows:,} rows used: leave it out of the formula."
        )
    deviations = np.where(flat, 1.0, deviations)
    seen = tuple(response.values(known.iloc[:1000]).unique().tolist()[:3])
    frame = Frame(
        formula,
        design,
        response,
        trials,
        offsets,
        moments.num_rows,
        means,
        deviations,
        moments,
        _precision(known, formula.variables),
        seen,
        {name: as_text(total) for name, total in hashes.items()},
    )
    _check_collinear(frame)
    return frame


def blocks_of(table: DataFrame | Streamed, num_columns: int) -> Iterator[DataFrame]:
    """The rows of a table in blocks of which `num_columns` numbers a row fit memory."""
    size = max(1024, VALUES_AT_ONCE // (num_columns + 1))
    for block in table.blocks() if isinstance(table, Streamed) else [table]:
        for start in range(0, len(block), size):
            yield block.iloc[start : start + size]


def _precision(table: DataFrame, variables: list[str]) -> float:
    """The coarsest relative rounding of the types of some columns; at least that of float64."""
    held = [str(table[name].dtype).lower() for name in variables]  # of NumPy, pandas or Arrow
    coarse = [
        np.finfo(name).eps for name in ("float16", "float32") if any(one.startswith(name) for one in held)
    ]
    return float(max(coarse, default=np.finfo("float64").eps))


def _rows(
    design: Design, response: Series, offsets: tuple[Expression, ...], table: DataFrame
) -> Float[ndarray, "rows columns"]:
    """The columns and, if it holds numbers, the response less the offsets."""
    from pandas.api import types

    columns = design.columns(table)
    if not types.is_numeric_dtype(response) or types.is_bool_dtype(response):
        return columns
    offset = _sum_of(offsets, table)
    numbers = response.to_numpy(np.float64)
    return np.column_stack([columns, numbers if offset is None else numbers - offset])


def _sum_of(offsets: tuple[Expression, ...], table: DataFrame) -> Float[ndarray, " rows"] | None:
    return np.sum([one.values(table).to_numpy(np.float64) for one in offsets], axis=0) if offsets else None


def _check_collinear(frame: Frame) -> None:
    """Raise DataError if some columns are sums of others. More columns than rows always are."""
    count = len(frame.names)
    if not count or count > frame.num_rows - int(frame.formula.has_intercept):
        return
    values, vectors = np.linalg.eigh(frame.correlations)
    if values[0] > SAME * count:
        return
    involved = np.abs(vectors[:, values <= SAME * count]).max(axis=1) > 1e-3
    listed = ", ".join(repr(name) for name, one in zip(frame.names, involved, strict=True) if one)
    raise DataError(
        f"the columns {listed} are collinear: some are sums of the others. Leave one out of the formula."
    )
