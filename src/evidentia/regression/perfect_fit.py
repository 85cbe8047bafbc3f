"""Columns that explain the response exactly, where the evidence is infinite.

If n rows lie in the span of k < n columns, the likelihood integrated over the coefficients grows
as σ to the power k - n for a scale σ near 0, and the evidence is infinite unless the prior of σ
vanishes there at least as fast as σ to the power n - k. Under the JZS prior the Bayes factor is
infinite at R² = 1, too: the integral over g diverges (Liang et al. 2008). Of the families, this
concerns gaussian and student-t, and on the scale of the link gamma and beta, whose dispersion goes
to 0. Under the unit-information prior of `g_prior`, whose g is n, the evidence of a perfect fit is
finite.

In floating point a perfect fit leaves a share of the variation that is rounding: what would be
found is a large number made of rounding errors, or no end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse import csr_array, hstack
from scipy.sparse.linalg import lsmr
from scipy.special import logit

from evidentia.errors import DataError, warn
from evidentia.regression import g_prior
from evidentia.regression.exact_rows import num_exact_rows
from evidentia.regression.exact_times import check_times
from evidentia.regression.families import Family
from evidentia.regression.frame import Frame, blocks_of
from evidentia.regression.moments import Moments, merged, moments_of
from evidentia.regression.refinement import Rows, refined
from evidentia.regression.streamed import Streamed

if TYPE_CHECKING:
    from pandas import DataFrame

    from evidentia.regression.grouped import Grouped

PERFECT = 1e-13  # of 1 - R²: on 10 to 10⁶ rows, perfect fits in float64 leave 1e-16 to 1e-14
ROUNDING = 1e-14  # the error of 1 - R² from sums in float64, and of residuals in float32
NEGLIGIBLE = 1e-10  # of what is unexplained, as an error of it
INFLATED_SHARES = "half-open share", "closed share"  # kinds whose rows of 0 and 1 have no density
LEAST_ROUNDING, MOST_ROUNDING = 1e-6, 0.1  # nats
MOST_ITERATIONS = 1000  # of least squares with groups; each takes a pass over their columns
SAME = 1e-8  # of a column's size in a group, that is left by the others: none
TINY = 1e-7  # a scale, in units of the response's deviation, that rounding hides
INFINITE = (
    "{}: the response is explained exactly by {} (but for a share of {:.1g} of its variation, which is rounding), so "
    "that the evidence is infinite, and Bayes factors for these columns are unbounded. Leave out what the response is computed from{}."
)
ROUNDED = (
    "{}: the columns leave a share of only {:.1g} of the response's variation unexplained; rounding makes the log "
    "evidence uncertain by about {:.2g} nats."
)


def checked_fit(
    frame: Frame,
    sums: g_prior.Sums,
    chosen: ndarray,
    rows: Callable[[], Iterable[Rows]],
    hint: str | None,
) -> g_prior.Fit:
    """Fit the response by some columns, to all digits; refuse a perfect fit.

    Args:
        frame: of the columns.
        sums: of all columns and the response.
        chosen: places of the columns.
        rows: all columns and the response, in blocks, which are read where sums lose digits.
        hint: for the message: what else can be done. None lets perfect fits pass.

    Raises:
        DataError: the fit is perfect, with fewer columns than rows.
    """
    fit = g_prior.least_squares(sums, chosen)
    if fit.rank >= sums.degrees_of_freedom:
        return fit
    if hidden(fit.unexplained, fit.effects) > NEGLIGIBLE:
        fit = refined(sums, fit, chosen, rows)
    relative = 1 + (sums.means / sums.deviations) ** 2  # mean squares in units of the variance
    values = relative[-1] + float(fit.effects**2 @ relative[chosen])
    if hint is not None and fit.unexplained <= max(PERFECT, frame.precision**2 * values):
        needed = [
            frame.names[place]
            for place, effect in zip(chosen, fit.effects, strict=True)
            if abs(effect) > 1e-6
        ]
        listed = ", ".join(map(repr, needed)) or "a constant"
        formula = _formula_of(frame, chosen)
        raise DataError(INFINITE.format(formula, listed, fit.unexplained, hint))
    return fit


def check_rounding(frame: Frame, sums: g_prior.Sums, fit: g_prior.Fit, chosen: ndarray) -> float:
    """The error of the log evidence by rounding in nats, for its standard error.

    A share δ of the variation that is rounding moves it by n/2 · δ / (1 - R²). It is 0 below 10⁻⁶;
    above `MOST_ROUNDING`, a warning says so.
    """
    if fit.rank >= sums.degrees_of_freedom:
        return 0.0
    nats = float(rounding(sums.degrees_of_freedom, np.array(fit.unexplained), fit.effects))
    if nats > MOST_ROUNDING:
        warn([ROUNDED.format(_formula_of(frame, chosen), fit.unexplained, nats)])
    return nats


def hidden(
    unexplained: Float[ndarray, " *models"] | float, effects: Float[ndarray, " *models columns"]
) -> Any:
    """The share of the variation that rounding hides, relative to that which models leave.

    Sums of products in float64, and residuals in float32, have a relative error each; the terms of
    the sums are as large as the effects, in units of the deviations.
    """
    size = (1 + np.abs(effects).sum(axis=-1)) / 2
    return ROUNDING * np.maximum(size, 1) ** 2 / np.maximum(unexplained, np.finfo(float).tiny)


def rounding(
    degrees_of_freedom: int,
    unexplained: Float[ndarray, " *models"],
    effects: Float[ndarray, " *models columns"],
) -> Float[ndarray, " *models"]:
    """Errors of log evidences by rounding, in nats, for shares that models leave unexplained."""
    nats = degrees_of_freedom / 2 * hidden(unexplained, effects)
    return np.where(nats > LEAST_ROUNDING, nats, 0.0)


def rows_of(frame: Frame, table: DataFrame | Streamed, law: Family | None = None) -> Iterator[Rows]:
    """The columns and the response on the scale of the link less the offsets, in blocks."""
    for block in blocks_of(table, len(frame.names)):
        yield frame.design.columns(block), _on_link_scale(frame, block, law)


def check_model(
    frame: Frame,
    table: DataFrame,
    law: Family,
    priors: Mapping[str, Any],
    groups: tuple[Grouped, ...] = (),
    sets: tuple[ndarray, ...] | None = None,
) -> Float[ndarray, " models"]:
    """Refuse a model of a family with a scale or dispersion if its columns explain the response.

    Returns:
        For each set, the error by rounding, as from `check_rounding`; with groups 0.

    Args:
        frame: of the columns.
        table: its rows.
        law: the family.
        priors: in units of the model, with that of the scale or dispersion.
        groups: effects that vary by group, whose columns explain, too.
        sets: places of the columns of each model; by default one with all.

    Raises:
        DataError: the columns explain the response exactly, with a prior that does not exclude it.
    """
    sets = (np.arange(len(frame.names)),) if sets is None else sets
    if not _allows_zero(law, priors, frame.num_rows):
        return np.zeros(len(sets))
    hint = f", or give the {_scale_of(law)} a prior that excludes 0"
    if law.kind == "time":
        if not groups:
            check_times(frame, table, sets, hint)
        return np.zeros(len(sets))
    if law.kind in INFLATED_SHARES:
        frame, table = _between_ends(frame, table)
        if len(table) < 2:
            return np.zeros(len(sets))
    if groups:
        _check_groups(frame, table, law, groups, hint)
        return np.zeros(len(sets))
    sums = g_prior.sums_of(_moments_of(frame, table, law), frame.formula.has_intercept)
    sums = sums._replace(deviations=np.where(sums.deviations > 0, sums.deviations, 1.0))  # of few rows
    rows = partial(rows_of, frame, table, law)
    fits = [checked_fit(frame, sums, chosen, rows, hint) for chosen in sets]
    if "degrees_of_freedom" in law.extra:
        _check_most_rows(frame, table, law, hint)
    return np.array(
        [check_rounding(frame, sums, fit, chosen) for fit, chosen in zip(fits, sets, strict=True)]
    )


def _allows_zero(law: Family, priors: Mapping[str, Any], num_rows: int) -> bool:
    """Whether the prior of the scale or dispersion has some mass where rounding hides the rows.

    A prior that vanishes as fast as the likelihood of all rows grows makes the evidence finite.
    """
    name = _scale_of(law)
    if law.kind not in ("real", "positive", "share", "time", *INFLATED_SHARES) or name not in law.extra:
        return False
    prior: dist.Distribution = priors[name]
    if not bool(np.all(prior.support(TINY))):  # pyright: ignore[reportOptionalCall]
        return False
    return float(np.asarray(prior.log_prob(TINY))) > num_rows * np.log(TINY)


def _scale_of(law: Family) -> str:
    """The parameter that goes to 0."""
    return "scale" if law.kind in ("real", "time") else "dispersion"


def _between_ends(frame: Frame, table: DataFrame) -> tuple[Frame, DataFrame]:
    """The rows of shares between 0 and 1, which alone have a density."""
    values = frame.response.values(table).to_numpy(np.float64)
    inside = table.iloc[np.flatnonzero((values > 0) & (values < 1))]
    return frame._replace(num_rows=len(inside)), inside


def _on_link_scale(frame: Frame, table: DataFrame, law: Family | None) -> Float[ndarray, " rows"]:
    values = frame.response.values(table).to_numpy(np.float64)
    offset = frame.offset(table)
    kind = "real" if law is None else law.kind
    values = {"real": np.asarray, "positive": np.log}.get(kind, logit)(values)
    return values if offset is None else values - offset


def _moments_of(frame: Frame, table: DataFrame, law: Family) -> Moments:
    """Of the columns and, last, the response on the scale of the link less the offsets."""
    if law.kind == "real":
        return frame.moments
    return reduce(merged, (moments_of(np.column_stack(rows)) for rows in rows_of(frame, table, law)))


def _check_most_rows(frame: Frame, table: DataFrame, law: Family, hint: str) -> None:
    """Refuse Student's t for a response that the columns explain exactly in most rows."""
    columns = (frame.design.columns(table) - frame.means) / frame.deviations
    if frame.formula.has_intercept:
        columns = np.column_stack([np.ones(len(columns)), columns])
    count = num_exact_rows(columns, _on_link_scale(frame, table, law))
    if count - columns.shape[1] > frame.num_rows / 2:
        raise DataError(
            f"{frame.formula.text}: the response is explained exactly in {count:,} of {frame.num_rows:,} rows, so that the "
            f"evidence of Student's t is infinite for few degrees of freedom. Leave out what the response is computed from{hint}."
        )


def _check_groups(
    frame: Frame, table: DataFrame, law: Family, groups: tuple[Grouped, ...], hint: str
) -> None:
    """Least squares of the response on the columns and those of groups, by iteration.

    As deviations may be 0, all groups count, those of each factor, and none.
    """
    columns = (frame.design.columns(table) - frame.means) / frame.deviations
    if frame.formula.has_intercept:
        columns = np.column_stack([np.ones(len(columns)), columns])
    response = _on_link_scale(frame, table, law)
    response = response - response.mean() if frame.formula.has_intercept else response
    fixed = csr_array(np.linalg.qr(columns)[0])
    for some in ((), *((one,) for one in groups), groups):
        if columns.shape[1] + sum(one.count for one in some) >= frame.num_rows:
            continue  # perhaps as many directions as rows, which explain anything
        matrix = hstack([fixed, *map(_sparse, some)], format="csr")
        residual = lsmr(matrix, response, atol=1e-9, btol=1e-9, maxiter=MOST_ITERATIONS)[3]
        share = float(residual / np.linalg.norm(response)) ** 2
        if share <= max(PERFECT, frame.precision**2):
            listed = ", ".join([*map(repr, frame.names), *(f"the groups of {one.name!r}" for one in some)])
            raise DataError(INFINITE.format(frame.formula.text, listed or "nothing", share, hint))


def _sparse(grouped: Grouped) -> csr_array:
    """The columns of every level, orthogonal within it, so that the iteration is short."""
    columns = np.array(grouped.columns, np.float64)
    sums = partial(np.bincount, grouped.codes, minlength=len(grouped.levels))
    for place in range(grouped.size):
        for before in 2 * list(range(place)):  # twice, as one pass leaves rounding
            squares = sums(columns[:, before] ** 2)
            products = sums(columns[:, before] * columns[:, place])
            ratio = np.divide(products, squares, out=np.zeros_like(products), where=squares > 0)
            columns[:, place] -= ratio[grouped.codes] * columns[:, before]
        largest = np.sqrt(sums(columns[:, place] ** 2))
        has_some = largest > SAME * np.sqrt(sums(grouped.columns[:, place] ** 2))
        columns[:, place] *= np.divide(1, largest, out=np.zeros_like(largest), where=has_some)[grouped.codes]
    rows, size = columns.shape
    places = grouped.codes[:, None] * size + np.arange(size)
    starts = np.arange(0, rows * size + 1, size)
    return csr_array((columns.ravel(), places.ravel(), starts), shape=(rows, grouped.count))


def _formula_of(frame: Frame, chosen: ndarray) -> str:
    if len(chosen) == len(frame.names):
        return frame.formula.text
    held = set(chosen.tolist())
    terms = tuple(term for term, place in frame.terms.items() if place.start in held)
    return frame.formula.with_terms(terms)
