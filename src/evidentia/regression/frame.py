"""A formula and a table made into numbers: the design, and the moments of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.data.fingerprint import as_text
from evidentia.errors import DataError, warn
from evidentia.regression.collinear import Aliased, Columns, aliased_columns, note
from evidentia.regression.design import LARGEST, Design, Expression, checked, learn, learn_expression
from evidentia.regression.families import Family
from evidentia.regression.formula import Formula
from evidentia.regression.left_hand_side import check_numeric
from evidentia.regression.moments import Moments, merged, moments_of
from evidentia.regression.observations import hashes_of
from evidentia.regression.partitions import parts_of
from evidentia.regression.streamed import Streamed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CONSTANT = 1e-10  # a deviation relative to the mean, below which a column is constant
VALUES_AT_ONCE = 1 << 22  # of the columns of a block of rows: 32 MiB


class Frame(NamedTuple):
    """What a formula takes from a table; no rows.

    Attributes:
        formula: as it was parsed.
        design: makes the columns of any table; it has their names and terms.
        response, second, offsets: the expressions left of "~" and within `offset(...)`.
        num_rows: rows of the table that are used.
        means, deviations: of the columns in the table; means are 0 and deviations about 0 if there
            is no intercept.
        moments: of the columns and, if it holds numbers, last of the response less the offsets.
        precision: the relative rounding of the columns' types: about 1e-7 if one is float32.
        fingerprints: of the columns of the response, and of the response itself.
        aliased: columns that were left out, as others determine them.
    """

    formula: Formula
    design: Design
    response: Expression
    second: Expression | None
    offsets: tuple[Expression, ...]
    num_rows: int
    means: Float[ndarray, " columns"]
    deviations: Float[ndarray, " columns"]
    moments: Moments
    precision: float
    fingerprints: dict[str, str]
    aliased: dict[str, Aliased]

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


def frame_of(formula: Formula, table: DataFrame | Streamed, law: Family | None = None) -> Frame:
    """Learn a formula on a table, and accumulate the moments of its columns block by block.

    Columns that those before them determine are left out, with a warning; before this, a response
    that cannot have the law is refused, if one is given.

    Raises:
        ConfigurationError, DataError: as raised by `learn`, `Design.columns` and
            `Streamed.blocks`; a term that is one constant column; text for a law of numbers.
    """
    known = table.sample if isinstance(table, Streamed) else table
    design = learn(formula, formula.terms, table)
    response = learn_expression(formula.response, table, formula)
    if law is not None:
        check_numeric(response.values(known.iloc[:1000]), formula.response, law)
    second = None if formula.left.second is None else learn_expression(formula.left.second, table, formula)
    offsets = tuple(learn_expression(f"offset({one})", table, formula) for one in formula.offsets)
    summary = partial(_summary, formula, design, response, offsets)
    parts, sizes, hashes = [], [], Counter[str]()
    for moments, size, own in mapped(table, summary, len(design.names)):
        parts.append(moments)
        sizes.append(size)
        hashes.update(own)
    _check_sizes(np.max(sizes, axis=0), (*design.names, formula.response))
    moments = reduce(merged, parts)
    aliased = _aliased(formula, design, moments)
    if aliased:
        moments = moments.without([design.names.index(name) for name in aliased])
        design = design.without(aliased)
    used = moments if formula.has_intercept else moments.about_zero
    means, deviations = used.means[: len(design.names)], used.deviations[: len(design.names)]
    deviations = np.where(_is_flat(means, deviations), 1.0, deviations)  # in a single row
    return Frame(
        formula,
        design,
        response,
        second,
        offsets,
        moments.num_rows,
        means,
        deviations,
        moments,
        _precision(known, formula.variables),
        {name: as_text(total) for name, total in hashes.items()},
        aliased,
    )


def _aliased(formula: Formula, design: Design, moments: Moments) -> dict[str, Aliased]:
    """Columns that others determine, with a warning that has their sums.

    Raises:
        DataError: the only column of a term is constant.
    """
    if moments.num_rows == 1:
        return {}
    used, count = moments if formula.has_intercept else moments.about_zero, len(design.names)
    means, deviations, correlations = used.means[:count], used.deviations[:count], used.correlations
    flat = _is_flat(means, deviations)
    _check_flat(design, flat, moments.num_rows)
    known = np.outer(~flat, ~flat) * correlations[:count, :count]
    columns = Columns(design.names, means, np.where(flat, 1.0, deviations), known)
    aliased = aliased_columns(columns, moments.num_rows - int(formula.has_intercept))
    if aliased:
        those = "it" if len(aliased) == 1 else "them"
        warn([f"left out of {formula.text}, as other columns determine {those}: {note(aliased)}."])
    return aliased


def _is_flat(
    means: Float[ndarray, " columns"], deviations: Float[ndarray, " columns"]
) -> Bool[ndarray, " columns"]:
    return deviations <= CONSTANT * np.abs(means)


def _check_flat(design: Design, flat: Bool[ndarray, " columns"], num_rows: int) -> None:
    """Raise DataError for constant columns which are all that a term has."""
    alone = [place.start for place in design.terms.values() if place.stop - place.start == 1]
    if names := ", ".join(repr(design.names[place]) for place in alone if flat[place]):
        raise DataError(
            f"{names} has the same value in all {num_rows:,} rows used: leave it out of the formula."
        )


def _summary(
    formula: Formula, design: Design, response: Expression, offsets: tuple[Expression, ...], block: DataFrame
) -> tuple[Moments, Float[ndarray, " columns"], dict[str, int]]:
    """The moments of a block of rows, the sizes of its values, and the hashes of its response."""
    values = response.values(block)
    rows = _rows(design, values, offsets, block)
    return moments_of(rows), np.abs(rows).max(axis=0), hashes_of(formula, block, values)


def mapped(
    table: DataFrame | Streamed, function: Callable[[DataFrame], Any], num_columns: int
) -> Iterator[Any]:
    """What a function makes of the rows, in blocks of which `num_columns` numbers fit memory.

    Rows on a cluster stay there.
    """
    size = block_size(num_columns)
    if isinstance(table, Streamed):
        return table.mapped(function, size)
    return map(function, parts_of(table, size))


def block_size(num_columns: int) -> int:
    """The number of rows of which so many numbers each are held at once."""
    return max(1024, VALUES_AT_ONCE // (num_columns + 1))


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
    known = numbers if offset is None else numbers - offset
    return np.column_stack([columns, checked(known[:, None], (str(response.name),), table)])


def _check_sizes(sizes: Float[ndarray, " columns"], names: tuple[str, ...]) -> None:
    """Raise DataError for columns whose squares a float64 does not hold."""
    if small := [name for name, size in zip(names, sizes, strict=False) if 0 < size < 1 / LARGEST]:
        raise DataError(
            f"{small[0]} is within {1 / LARGEST:g} of zero in all rows. Multiply it by a large number."
        )


def _sum_of(offsets: tuple[Expression, ...], table: DataFrame) -> Float[ndarray, " rows"] | None:
    return np.sum([one.values(table).to_numpy(np.float64) for one in offsets], axis=0) if offsets else None
