"""Columns that are sums of others: found one by one in their order, and left out.

As in R's `lm`, a column that those before it determine is aliased: its effect cannot be told from
theirs. The columns before it stand for it, whatever the prior, so that Bayes factors do not depend
on how often a column is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import solve_triangular

SAME = 1e-9  # an eigenvalue of the correlations, below which columns are collinear
ROUNDED = 1e-12  # a share of a column's variation that sums over the rows leave by rounding
NONE = 1e-6  # a coefficient of standardised columns that is rounding
MOST_COLUMNS, MOST_SUMMANDS = 8, 5  # in a message


class Columns(NamedTuple):
    """Columns of a design by their names and moments; means are 0 if there is no intercept.

    Those that are constant have the deviation 1, and no correlations.
    """

    names: tuple[str, ...]
    means: Float[ndarray, " columns"]
    deviations: Float[ndarray, " columns"]
    correlations: Float[ndarray, "columns columns"]


class Aliased(NamedTuple):
    """A column that others determine: its sum in words, and the names of the summands."""

    total: str
    summands: tuple[str, ...]


def aliased_columns(columns: Columns, num_rows: int) -> dict[str, Aliased]:
    """The columns that those before them determine, by name; constant ones have no correlations.

    More columns than `num_rows`, less one for an intercept, are all kept: which of them to leave
    out would be arbitrary.
    """
    correlations, tolerance = columns.correlations, SAME * len(columns.names)
    varying = correlations.diagonal() > 0
    found = {place: np.zeros(len(varying)) for place in np.flatnonzero(~varying).tolist()}
    kept = np.flatnonzero(varying)
    while 0 < len(kept) <= num_rows and np.linalg.eigvalsh(correlations[np.ix_(kept, kept)])[0] <= tolerance:
        some = aliased(correlations[np.ix_(kept, kept)], tolerance)
        for place, effects in some.items():
            found[int(kept[place])] = every = np.zeros(len(varying))
            every[kept] = effects
        kept = np.delete(kept, list(some))
    return {
        columns.names[place]: Aliased(_equal(columns, place, found[place]), _summands(columns, found[place]))
        for place in sorted(found)
    }


def note(aliased: Mapping[str, Aliased]) -> str:
    """What was left out, with the sum that each column is equal to.

    Example:
        >>> note({"twice": Aliased("2 'x' + 1", ("x",))})
        "'twice' is 2 'x' + 1"
    """
    listed = [f"{name!r} is {one.total}" for name, one in aliased.items()]
    more = f"; and {len(listed) - MOST_COLUMNS} more" if len(listed) > MOST_COLUMNS else ""
    return "; ".join(listed[:MOST_COLUMNS]) + more


def aliased(
    correlations: Float[ndarray, "columns columns"], tolerance: float
) -> dict[int, Float[ndarray, " columns"]]:
    """Columns that those before them determine, by place, each with the coefficients of these.

    Cholesky's factorisation row by row: what is left of a column's variation is the square of its
    element on the diagonal. If the matrix is singular and no single column is below the tolerance,
    it is the column of which least is left.

    Args:
        correlations: of the columns, with an eigenvalue of at most about `tolerance`.
        tolerance: the share of a column's variation that may be left.
    """
    found: dict[int, ndarray] = {}
    rests: dict[int, tuple[float, ndarray]] = {}
    lower, kept = np.zeros_like(correlations), np.zeros(0, int)
    for place in range(len(correlations)):
        size = len(kept)
        triangle = lower[:size, :size]
        row = solve_triangular(triangle, correlations[kept, place], lower=True) if size else np.zeros(0)
        rest, effects = float(correlations[place, place] - row @ row), np.zeros(len(correlations))
        effects[kept] = solve_triangular(triangle.T, row) if size else row
        rests[place] = rest, effects
        if rest <= tolerance:
            found[place] = effects
        else:
            lower[size, :size], lower[size, size] = row, np.sqrt(rest)
            kept = np.append(kept, place)
    if not found:
        least = min(rests, key=lambda place: rests[place][0])
        found[least] = rests[least][1]
    return found


def _equal(columns: Columns, place: int, effects: Float[ndarray, " columns"]) -> str:
    """The sum that a column is equal to, or nearly, with the deviation of what is left."""
    correlations, total = columns.correlations, _sum(columns, place, effects)
    rest = correlations[place, place] - effects @ (2 * correlations[place] - correlations @ effects)
    if rest <= ROUNDED * len(effects):
        return total
    return f"{total}, but for {np.sqrt(rest):.1g} of its deviation (write their difference if it matters)"


def _sum(columns: Columns, place: int, effects: Float[ndarray, " columns"]) -> str:
    """A column as a sum of others, in the units of the table."""
    units = effects * columns.deviations[place] / columns.deviations
    used = np.flatnonzero(np.abs(effects) > NONE)
    constant = columns.means[place] - units @ columns.means
    parts = [(units[one], repr(columns.names[one])) for one in used[:MOST_SUMMANDS]]
    if len(used) > MOST_SUMMANDS:
        return f"{_added(parts)} + … ({len(used)} columns)"
    if abs(constant) > NONE * columns.deviations[place]:
        parts.append((constant, ""))
    return _added(parts) or "0"


def _summands(columns: Columns, effects: Float[ndarray, " columns"]) -> tuple[str, ...]:
    return tuple(columns.names[place] for place in np.flatnonzero(np.abs(effects) > NONE))


def _added(parts: list[tuple[float, str]]) -> str:
    """Coefficients and names as a sum.

    Example:
        >>> _added([(2.0, "'x'"), (-1.0, "'z'"), (0.5, "")])
        "2 'x' - 'z' + 0.5"
    """
    text = ""
    for value, name in parts:
        sign = (" - " if value < 0 else " + ") if text else ("-" if value < 0 else "")
        size = f"{abs(value):.5g}"
        text += sign + " ".join(one for one in ("" if size == "1" and name else size, name) if one)
    return text
