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

from collections.abc import Mapping
from functools import reduce
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
from evidentia.regression.families import Family
from evidentia.regression.frame import Frame, blocks_of
from evidentia.regression.moments import Moments, merged, moments_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from evidentia.regression.grouped import Grouped

PERFECT = 1e-13  # of 1 - R²: on 10 to 10⁶ rows, perfect fits in float64 leave 1e-16 to 1e-14
ROUNDING = 1e-14  # the error of 1 - R² from sums in float64, and of residuals in float32
LEAST_ROUNDING, MOST_ROUNDING = 1e-6, 0.1  # nats
TINY = 1e-7  # a scale, in units of the response's deviation, that rounding hides
INFINITE = (
    "{}: the response is explained exactly by {} (but for a share of {:.1g} of its variation, which is rounding), so "
    "that the evidence is infinite. Leave out what the response is computed from{}."
)
ROUNDED = (
    "{}: the columns leave a share of only {:.1g} of the response's variation unexplained; rounding makes the log "
    "evidence uncertain by about {:.2g} nats."
)


def check_fit(frame: Frame, sums: g_prior.Sums, fit: g_prior.Fit, chosen: ndarray, hint: str) -> float:
    """Refuse a perfect fit of the response by some columns; of others, the error by rounding.

    Returns:
        An estimate of the error of the log evidence in nats, for its standard error: a share δ of
        the variation that is rounding moves it by n/2 · δ / (1 - R²). 0 below 10⁻⁶; above
        `MOST_ROUNDING`, a warning says so.

    Args:
        frame: of the columns.
        sums: of all columns and the response.
        fit: of the chosen columns.
        chosen: their places.
        hint: for the message: what else can be done.

    Raises:
        DataError: the fit is perfect, with fewer columns than rows.
    """
    if fit.rank >= sums.degrees_of_freedom:
        return 0.0
    relative = 1 + (sums.means / sums.deviations) ** 2  # mean squares in units of the variance
    values = relative[-1] + float(fit.effects**2 @ relative[chosen])
    formula = _formula_of(frame, chosen)
    if fit.unexplained <= max(PERFECT, frame.precision**2 * values):
        needed = [
            frame.names[place]
            for place, effect in zip(chosen, fit.effects, strict=True)
            if abs(effect) > 1e-6
        ]
        listed = ", ".join(map(repr, needed)) or "a constant"
        raise DataError(INFINITE.format(formula, listed, fit.unexplained, hint))
    nats = float(rounding(sums.degrees_of_freedom, np.array(fit.unexplained)))
    if nats > MOST_ROUNDING:
        warn([ROUNDED.format(formula, fit.unexplained, nats)])
    return nats


def rounding(degrees_of_freedom: int, unexplained: Float[ndarray, " *models"]) -> Float[ndarray, " *models"]:
    """Errors of log evidences by rounding, in nats, for shares that models leave unexplained."""
    nats = degrees_of_freedom / 2 * ROUNDING / np.maximum(unexplained, np.finfo(float).tiny)
    return np.where(nats > LEAST_ROUNDING, nats, 0.0)


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
        For each set, the error by rounding, as from `check_fit`; with groups 0.

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
    hint = ", or give the {} a prior that excludes 0".format("scale" if law.kind == "real" else "dispersion")
    if groups:
        _check_groups(frame, table, law, groups, hint)
        return np.zeros(len(sets))
    sums = g_prior.sums_of(_moments_of(frame, table, law), frame.formula.has_intercept)
    return np.array(
        [check_fit(frame, sums, g_prior.least_squares(sums, chosen), chosen, hint) for chosen in sets]
    )


def _allows_zero(law: Family, priors: Mapping[str, Any], num_rows: int) -> bool:
    """Whether the prior of the scale or dispersion has some mass where rounding hides the rows.

    A prior that vanishes as fast as the likelihood of all rows grows makes the evidence finite.
    """
    name = "scale" if law.kind == "real" else "dispersion"
    if law.kind not in ("real", "positive", "share"):
        return False
    prior: dist.Distribution = priors[name]
    if not bool(np.all(prior.support(TINY))):  # pyright: ignore[reportOptionalCall]
        return False
    return float(np.asarray(prior.log_prob(TINY))) > num_rows * np.log(TINY)


def _on_link_scale(frame: Frame, table: DataFrame, law: Family) -> Float[ndarray, " rows"]:
    values = frame.response.values(table).to_numpy(np.float64)
    offset = frame.offset(table)
    values = {"real": np.asarray, "positive": np.log, "share": logit}[law.kind](values)
    return values if offset is None else values - offset


def _moments_of(frame: Frame, table: DataFrame, law: Family) -> Moments:
    """Of the columns and, last, the response on the scale of the link less the offsets."""
    if law.kind == "real":
        return frame.moments
    blocks = blocks_of(table, len(frame.names))
    parts = (
        moments_of(np.column_stack([frame.design.columns(block), _on_link_scale(frame, block, law)]))
        for block in blocks
    )
    return reduce(merged, parts)


def _check_groups(
    frame: Frame, table: DataFrame, law: Family, groups: tuple[Grouped, ...], hint: str
) -> None:
    """Least squares of the response on the columns and those of every group, by iteration."""
    num_columns = len(frame.names) + int(frame.formula.has_intercept) + sum(one.count for one in groups)
    if num_columns >= frame.num_rows:  # perhaps as many directions as rows, which explain anything
        return
    columns = (frame.design.columns(table) - frame.means) / frame.deviations
    if frame.formula.has_intercept:
        columns = np.column_stack([np.ones(len(columns)), columns])
    parts = [csr_array(columns), *map(_sparse, groups)]
    response = _on_link_scale(frame, table, law)
    response = response - response.mean() if frame.formula.has_intercept else response
    residual = lsmr(hstack(parts, format="csr"), response, atol=1e-9, btol=1e-9, maxiter=200)[3]
    share = float(residual / np.linalg.norm(response)) ** 2
    if share <= max(PERFECT, frame.precision**2):
        listed = ", ".join([*map(repr, frame.names), *(f"the groups of {one.name!r}" for one in groups)])
        raise DataError(INFINITE.format(frame.formula.text, listed, share, hint))


def _sparse(grouped: Grouped) -> csr_array:
    rows, size = grouped.columns.shape
    places = grouped.codes[:, None] * size + np.arange(size)
    starts = np.arange(0, rows * size + 1, size)
    return csr_array((grouped.columns.ravel(), places.ravel(), starts), shape=(rows, grouped.count))


def _formula_of(frame: Frame, chosen: ndarray) -> str:
    if len(chosen) == len(frame.names):
        return frame.formula.text
    held = set(chosen.tolist())
    terms = tuple(term for term, place in frame.terms.items() if place.start in held)
    return frame.formula.with_terms(terms)
