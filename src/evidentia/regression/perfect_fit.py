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
from scipy.special import logit

from evidentia.errors import DataError, warn
from evidentia.regression import g_prior
from evidentia.regression.exact_rows import num_exact_rows
from evidentia.regression.exact_times import check_times
from evidentia.regression.families import Family
from evidentia.regression.frame import Frame, mapped
from evidentia.regression.group_fit import unexplained_shares
from evidentia.regression.moments import Moments, merged, moments_of
from evidentia.regression.refinement import Look, refined
from evidentia.regression.streamed import Streamed

if TYPE_CHECKING:
    from pandas import DataFrame

    from evidentia.regression.grouped import Grouped

PERFECT = 1e-13  # of 1 - R²: on 10 to 10⁶ rows, perfect fits in float64 leave 1e-16 to 1e-14
ROUNDING = 1e-14  # the error of 1 - R² from sums in float64, and of residuals in float32
NEGLIGIBLE = 1e-10  # of what is unexplained, as an error of it
INFLATED_SHARES = "half-open share", "closed share"  # kinds whose rows of 0 and 1 have no density
LEAST_ROUNDING, MOST_ROUNDING = 1e-6, 0.1  # nats
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
    over_rows: Callable[[Look], Iterable[Any]],
    hint: str | None,
) -> g_prior.Fit:
    """Fit the response by some columns, to all digits; refuse a perfect fit.

    Args:
        frame: of the columns.
        sums: of all columns and the response.
        chosen: places of the columns.
        over_rows: what a function of all columns and the response finds in each block of rows,
            called where sums lose digits.
        hint: for the message: what else can be done. None lets perfect fits pass.

    Raises:
        DataError: the fit is perfect, with fewer columns than rows.
    """
    fit = g_prior.least_squares(sums, chosen)
    if fit.rank >= sums.degrees_of_freedom:
        return fit
    if hidden(fit.unexplained, fit.effects) > NEGLIGIBLE:
        fit = refined(sums, fit, chosen, over_rows)
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


def over_rows(frame: Frame, table: DataFrame | Streamed, law: Family | None, look: Look) -> Iterator[Any]:
    """What a look finds in the columns and the response on the scale of the link less the offsets.

    Rows are in blocks, and on a cluster they stay there. Of shares, those between 0 and 1 count,
    which alone have a density.
    """
    return mapped(table, partial(_found, frame, law, look), len(frame.names))


def _found(frame: Frame, law: Family | None, look: Look, block: DataFrame) -> Any:
    if law is not None and law.kind in INFLATED_SHARES:
        values = frame.response.values(block).to_numpy(np.float64)
        block = block.iloc[np.flatnonzero((values > 0) & (values < 1))]
    return look(frame.design.columns(block), _on_link_scale(frame, block, law)) if len(block) else None


def check_model(
    frame: Frame,
    table: DataFrame | Streamed,
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
        table: its rows; without groups, these may be in files or on a cluster.
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
    known = table.sample if isinstance(table, Streamed) else table
    if law.kind == "time":
        if not groups:
            check_times(frame, known, sets, hint)
        return np.zeros(len(sets))
    if groups:
        _check_groups(frame, known, law, groups, hint)
        return np.zeros(len(sets))
    moments = _moments_of(frame, table, law)
    if moments is None:
        return np.zeros(len(sets))
    sums = g_prior.sums_of(moments, frame.formula.has_intercept)
    sums = sums._replace(deviations=np.where(sums.deviations > 0, sums.deviations, 1.0))  # of few rows
    rows = partial(over_rows, frame, table, law)
    fits = [checked_fit(frame, sums, chosen, rows, hint) for chosen in sets]
    if "degrees_of_freedom" in law.extra:
        _check_most_rows(frame, known, law, hint)
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


def _on_link_scale(frame: Frame, table: DataFrame, law: Family | None) -> Float[ndarray, " rows"]:
    values = frame.response.values(table).to_numpy(np.float64)
    offset = frame.offset(table)
    kind = "real" if law is None else law.kind
    values = {"real": np.asarray, "positive": np.log}.get(kind, logit)(values)
    return values if offset is None else values - offset


def _moments_of(frame: Frame, table: DataFrame | Streamed, law: Family) -> Moments | None:
    """Of the columns and, last, the response on the scale of the link less the offsets.

    None if fewer than two shares are between 0 and 1.
    """
    if law.kind == "real":
        return frame.moments
    found = [one for one in over_rows(frame, table, law, _moments) if one is not None]
    moments = reduce(merged, found) if found else None
    is_short = law.kind in INFLATED_SHARES and moments is not None and moments.num_rows < 2
    return None if is_short else moments


def _moments(columns: Float[ndarray, "rows columns"], response: Float[ndarray, " rows"]) -> Moments:
    return moments_of(np.column_stack([columns, response]))


def _check_most_rows(frame: Frame, table: DataFrame, law: Family, hint: str) -> None:
    """Refuse Student's t for a response that the columns explain exactly in most rows."""
    columns = _standardised(frame, table)
    count = num_exact_rows(columns, _on_link_scale(frame, table, law))
    if count - columns.shape[1] > len(columns) / 2:
        raise DataError(
            f"{frame.formula.text}: the response is explained exactly in {count:,} of {len(columns):,} rows, so that the "
            f"evidence of Student's t is infinite for few degrees of freedom. Leave out what the response is computed from{hint}."
        )


def _check_groups(
    frame: Frame, table: DataFrame, law: Family, groups: tuple[Grouped, ...], hint: str
) -> None:
    """As deviations may be 0, the columns of all groups count, those of each factor, and none."""
    columns, response = _standardised(frame, table), _on_link_scale(frame, table, law)
    response = response - response.mean() if frame.formula.has_intercept else response
    for some, share in unexplained_shares(columns, response, groups):
        if share <= max(PERFECT, frame.precision**2):
            listed = ", ".join([*map(repr, frame.names), *(f"the groups of {one.name!r}" for one in some)])
            raise DataError(INFINITE.format(frame.formula.text, listed or "nothing", share, hint))


def _standardised(frame: Frame, table: DataFrame) -> Float[ndarray, "rows columns"]:
    """The columns, after a constant if there is an intercept."""
    columns = (frame.design.columns(table) - frame.means) / frame.deviations
    return np.column_stack([np.ones(len(columns)), columns]) if frame.formula.has_intercept else columns


def _formula_of(frame: Frame, chosen: ndarray) -> str:
    if len(chosen) == len(frame.names):
        return frame.formula.text
    held = set(chosen.tolist())
    terms = tuple(term for term, place in frame.terms.items() if place.start in held)
    return frame.formula.with_terms(terms)
