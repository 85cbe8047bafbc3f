"""Contingency tables: independence of rows and columns (Gunel and Dickey 1974).

Cells have gamma priors of shape a (the concentration); given totals, they are Dirichlet. Under
independence rows and columns have Dirichlet priors of shapes a_i. - (C - 1) and a_.j - (R - 1), by
conditioning. What the design fixes is left out of both densities. With D(a) = Π Γ(aᵢ) / Γ(Σ aᵢ),

    joint multinomial        BF₀₁ = D(rows) D(columns) D(a) / D(a + y)
    independent multinomial  BF₀₁ = D(free margin) Π D(a) / D(a + y), over the fixed one
    Poisson                  that of the joint, times a ratio of gamma functions of the total

where D(rows) is short for D(y_i. + ξ_i.) / D(ξ_i.).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import gammaln, logsumexp

from evidentia.bf.categories import crossed
from evidentia.bf.log_odds import LEAST_SHAPE, LogOdds
from evidentia.bf.result import Again, BayesFactor
from evidentia.bf.samples import check_sum
from evidentia.errors import ConfigurationError, DataError, check_positive, is_one_of

SAMPLING = "joint multinomial", "independent multinomial", "poisson", "hypergeometric"
FIXED = "rows", "columns"
IN_R = {"jointMulti": SAMPLING[0], "indepMulti": SAMPLING[1], "hypergeom": SAMPLING[3], "cols": FIXED[1]}


def contingency(
    table: Any, sampling: str = "joint multinomial", fixed: str | None = None, concentration: float = 1.0
) -> BayesFactor:
    """The Bayes factor of dependence of rows and columns against independence, exact.

    For a 2 by 2 table, `posterior` is that of the log odds ratio under H₁, exact as well.

    Args:
        table: counts, of shape (R, C); a data frame, too. Or two columns of categories, with a row
            for each observation, as a mapping or a data frame: then `sequential` adds rows.
        sampling: what the design fixes: "poisson" nothing, "joint multinomial" the total,
            "independent multinomial" the totals of rows or columns, "hypergeometric" both margins
            (of 2 by 2 tables). R's "jointMulti", "indepMulti" and "hypergeom" mean the same.
        fixed: "rows" or "columns", for "independent multinomial".
        concentration: a, the shape of the cells' gamma priors.

    Raises:
        ConfigurationError: an argument of another kind.
        DataError: no table of whole, non-negative numbers, or a row or column of zeros.

    Example:
        >>> dolls = [[50, 48], [21, 41]]
        >>> ev.bf.contingency(dolls, "independent multinomial", fixed="columns")
        contingency table
          BF10 = 1.815: anecdotal evidence that rows and columns are dependent
          H1: cells ~ gamma of shape 1, independent multinomial, columns fixed
          rows = 2, columns = 2, n = 160
          log odds ratio: median 0.6956, 95% interval 0.0514 to 1.3582

    Source: Gunel, Dickey (1974); Jamil et al. (2017), whose default is b = R C a / n.
    """
    columns = crossed(table)
    counts = _table(table if columns is None else columns.first(columns.num_rows))
    sampling = IN_R[sampling] if is_one_of(sampling, IN_R) else sampling
    fixed = IN_R.get(fixed, fixed) if isinstance(fixed, str) else fixed
    check_positive("concentration", concentration)
    if not is_one_of(sampling, SAMPLING):
        raise ConfigurationError(
            f"sampling must be one of {', '.join(map(repr, SAMPLING))}; got {sampling!r}."
        )
    if is_one_of(fixed, FIXED) != (sampling == "independent multinomial") or not (
        fixed is None or is_one_of(fixed, FIXED)
    ):
        raise ConfigurationError(
            f"fixed must be 'rows' or 'columns' with sampling='independent multinomial', and left out otherwise; got {fixed!r}."
        )
    if sampling == "hypergeometric" and counts.shape != (2, 2):
        raise ConfigurationError(
            f"sampling='hypergeometric' is for tables of 2 by 2; got {counts.shape[0]} by {counts.shape[1]}."
        )
    shown = sampling if fixed is None else f"{sampling}, {fixed} fixed"
    sizes = counts.shape

    def log_bf10(counts: ndarray, concentration: float) -> float:
        return BY_SAMPLING[sampling](counts.T if fixed == "rows" else counts, concentration)

    has_odds = counts.shape == (2, 2) and concentration >= LEAST_SHAPE
    return BayesFactor(
        test="contingency table",
        log_bf10=log_bf10(counts, concentration),
        error=_rounding(counts),
        claim="rows and columns are dependent",
        null_claim="rows and columns are independent",
        prior=f"cells ~ gamma of shape {concentration:g}, {shown}",
        num_observations=int(counts.sum()),
        statistics={"rows": sizes[0], "columns": sizes[1]},
        posterior=LogOdds(counts, concentration) if has_odds else None,
        again=Again(
            "concentration",
            concentration,
            {"uniform": 1.0},
            lambda a: log_bf10(counts, a),
            of_first=None if columns is None else lambda n: log_bf10(columns.first(n), concentration),
            least=1,
            num_steps=int(counts.sum()),
            lowest=_lowest(counts) if sampling != "hypergeometric" else 0.0,
        ),
        notes=() if columns is None else columns.notes,
    )


def _rounding(counts: ndarray) -> float:
    """Of the logarithms of gamma functions, whose differences the Bayes factor is, in nats."""
    return float(np.finfo(float).eps * gammaln(counts.sum() + 1))


def _lowest(counts: ndarray) -> float:
    """The concentration above which both margins have a prior under independence."""
    return max((others - 1) / others for others in counts.shape)


def _log_dirichlet(shapes: ndarray) -> float:
    return float(gammaln(shapes).sum() - gammaln(shapes.sum()))


def _log_margin(counts: ndarray, axis: int, concentration: float) -> float:
    """log D(y + ξ) / D(ξ) of a margin: the counts summed over an axis."""
    others = counts.shape[axis]
    shape = np.full(counts.shape[1 - axis], concentration * others - (others - 1))
    if not shape[0] > 0:
        least = (others - 1) / others
        raise ConfigurationError(
            f"concentration must exceed {least:.4g} for a table of {counts.shape[0]} by {counts.shape[1]}: the prior under "
            f"independence has no density otherwise; got {concentration:g}."
        )
    return _log_dirichlet(counts.sum(axis) + shape) - _log_dirichlet(shape)


def _joint(counts: ndarray, concentration: float) -> float:
    cells = np.full(counts.size, concentration)
    one = _log_dirichlet(counts.ravel() + cells) - _log_dirichlet(cells)
    return one - sum(_log_margin(counts, axis, concentration) for axis in (0, 1))


def _independent(counts: ndarray, concentration: float) -> float:
    """Of fixed column totals."""
    cells = np.full(counts.shape[0], concentration)
    one = sum(_log_dirichlet(column + cells) - _log_dirichlet(cells) for column in counts.T)
    return one - _log_margin(counts, 1, concentration)


def _poisson(counts: ndarray, concentration: float) -> float:
    total, freedom = counts.sum(), (counts.shape[0] - 1) * (counts.shape[1] - 1)
    shape = concentration * counts.size
    rate = shape / total  # the prior mean of a cell is the table's

    def log_total(shape: float) -> float:  # of a gamma prior of this shape, without shared factors
        return gammaln(total + shape) - gammaln(shape) - shape * np.log1p(1 / rate)

    return _joint(counts, concentration) + float(log_total(shape) - log_total(shape - freedom))


def _hypergeometric(counts: ndarray, concentration: float) -> float:
    """Of the tables with these margins; uniform under H₁ if the concentration is one."""
    rows, columns, total = counts.sum(1), counts.sum(0), counts.sum()
    first = np.arange(max(0.0, rows[0] + columns[0] - total), min(rows[0], columns[0]) + 1)
    tables = np.stack([first, rows[0] - first, columns[0] - first, total - rows[0] - columns[0] + first])
    log_null = -gammaln(tables + 1).sum(0)
    log_one = log_null + gammaln(tables + concentration).sum(0)
    here = int(counts[0, 0] - first[0])
    return float((log_one[here] - logsumexp(log_one)) - (log_null[here] - logsumexp(log_null)))


BY_SAMPLING: dict[str, Callable[[ndarray, float], float]] = {
    "joint multinomial": _joint,
    "independent multinomial": _independent,
    "poisson": _poisson,
    "hypergeometric": _hypergeometric,
}


def _has_margins(table: Any, counts: ndarray) -> bool:
    """Whether the last row and column of a data frame have one label, and are sums."""
    if not (hasattr(table, "iloc") and min(counts.shape) > 2 and table.index[-1] == table.columns[-1]):
        return False
    inner = counts[:-1, :-1]
    return bool(
        np.array_equal(counts[-1, :-1], inner.sum(0)) and np.array_equal(counts[:-1, -1], inner.sum(1))
    )


def _table(table: Any) -> ndarray:
    try:
        counts = np.asarray(table, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"table must hold counts; got {table!r}.") from error
    if counts.ndim != 2 or min(counts.shape) < 2:
        raise DataError(f"table must have two rows and two columns or more; got shape {counts.shape}.")
    wrong = ~np.isfinite(counts) | (counts < 0) | (counts != np.floor(counts))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"table must hold whole numbers of at least 0; that in row {row}, column {column} is {counts[row, column]:g}."
        )
    check_sum("table", counts)
    if _has_margins(table, counts):
        raise DataError(
            f"table has its margins in it, as pandas.crosstab(margins=True) gives them: {table.index[-1]!r} holds sums. Leave "
            "them out: table.iloc[:-1, :-1]."
        )
    for name, axis in (("row", 1), ("column", 0)):
        empty = np.flatnonzero(counts.sum(axis) == 0)
        if len(empty):
            raise DataError(
                f"table has a {name} of zeros, number {empty[0]}: leave it out, as it says nothing."
            )
    return counts
