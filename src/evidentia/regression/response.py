"""The response: checked against what its family needs, and scaled so that float32 holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import expit, gammaln

from evidentia.errors import DataError
from evidentia.regression.censored import events_of
from evidentia.regression.families import CATEGORIES, MEANS, Family
from evidentia.regression.left_hand_side import check_numeric

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from evidentia.regression.frame import Frame

MOST_LEVELS = 1000
LEAST_ERROR = 1e-5  # relative to the deviation: float32 then holds a hundredth of the error
LEAST_DEVIATION = 1e-4  # relative to the mean: float32 then holds a thousandth of the deviation


class Response(NamedTuple):
    """A response in the units of the model.

    Attributes:
        arrays: `y`, and what else the family's log density takes, float32 or int32.
        location, scale: the predictor in units of the table is location + scale · that of the
            model; the intercept's prior is centred at the location, which is 0 without an
            intercept, as nothing else could take it up.
        log_jacobian: of a row; added to the model's log evidence it gives that of the table's
            values.
        levels: the categories, in the order of `y`.
        information: of one row about the predictor, where all effects are zero; None if unknown.
    """

    arrays: dict[str, ndarray]
    location: float = 0.0
    scale: float = 1.0
    log_jacobian: float = 0.0
    levels: tuple[Any, ...] = ()
    information: float | None = None


def response_of(frame: Frame, table: DataFrame, law: Family) -> Response:
    """The response of a formula for the rows of a table, as `respond` prepares it."""
    second = None if frame.second is None else frame.second.values(table).to_numpy()
    offset = frame.offset(table)
    offset = np.zeros(frame.num_rows) if offset is None else offset
    name, has_intercept = frame.formula.response, frame.formula.has_intercept
    return respond(frame.response.values(table), second, offset, law, name, has_intercept)


def respond(
    column: Series,
    second: ndarray | None,
    offset: ndarray,
    family: Family,
    name: str,
    has_intercept: bool,
) -> Response:
    """Check a response for a family and prepare it.

    Args:
        column: of the table.
        second: of the rows, what the formula has beside the response: trials, events or errors.
        offset: a known part of the predictor of each row.
        family: the law of the response.
        name: for messages.
        has_intercept: whether the model has a parameter that takes up the response's location.

    Raises:
        DataError: values that the family cannot have, or a response that is constant where the
            family needs variation; the message has the values seen.
    """
    if family.kind in CATEGORIES:
        return _categories(column, offset, family, name, has_intercept)
    check_numeric(column, name, family)
    numbers = column.to_numpy().astype(np.float64)
    return {
        "real": lambda: _real(numbers, offset, name, has_intercept),
        "positive": lambda: _positive(numbers, offset, name, has_intercept),
        **dict.fromkeys(
            ("share", "half-open share", "closed share"), lambda: _share(numbers, name, family.kind)
        ),
        "count": lambda: _count(numbers, offset, name, has_intercept),
        "trials": lambda: _successes(numbers, second, offset, name, has_intercept),
        "time": lambda: _time(numbers, second, offset, family, name, has_intercept),
        "estimate": lambda: _estimate(numbers, second, offset, name, has_intercept),
    }[family.kind]()


def _real(y: ndarray, offset: ndarray, name: str, has_intercept: bool) -> Response:
    known = y - offset
    mean, scale = float(known.mean()), float(known.std())
    if not scale > 1e-12 * abs(mean):
        what = (
            "there is nothing to explain"
            if has_intercept
            else "priors in units of its deviation are undefined"
        )
        raise DataError(f"the response {name} is {y[0]:g} in all {len(y):,} rows: {what}.")
    if not has_intercept and scale < LEAST_DEVIATION * abs(mean):
        raise DataError(
            f"the response {name} has the mean {mean:g} and the deviation {scale:g}: without an intercept, its values "
            "are rounded to about seven digits. Add an intercept, or subtract a constant from the response."
        )
    location = mean if has_intercept else 0.0
    arrays = {"y": ((y - location) / scale).astype(np.float32)}
    return Response(arrays, location, scale, -float(np.log(scale)), information=1.0)


def _positive(y: ndarray, offset: ndarray, name: str, has_intercept: bool) -> Response:
    _check(y > 0, y, f"the response {name}", "positive numbers")
    location = float(np.log(y.mean() / np.mean(np.exp(offset)))) if has_intercept else 0.0
    log_y = (np.log(y) - location).astype(np.float32)
    return Response({"log_y": log_y}, location, log_jacobian=-location)


def _time(
    y: ndarray, events: ndarray | None, offset: ndarray, family: Family, name: str, has_intercept: bool
) -> Response:
    """Logarithms of times; the location is that of the total time per event."""
    _check(y > 0, y, f"the time {name}", "positive numbers")
    event = events_of(events, len(y))
    share = float(event.mean())
    per_event = np.mean(y * np.exp(-offset)) / max(share, 0.5 / len(y))
    location = float(np.log(per_event)) if has_intercept else 0.0
    arrays = _float32(log_y=np.log(y) - location, event=event)
    information = None if family.extra else share
    return Response(arrays, location, log_jacobian=-location * share, information=information)


def _estimate(
    y: ndarray, errors: ndarray | None, offset: ndarray, name: str, has_intercept: bool
) -> Response:
    """Estimates with known standard errors, both in units of the deviation of the estimates."""
    assert errors is not None  # as the formula has them
    if errors.dtype.kind not in "fiub":
        raise DataError(f"the standard errors of {name} must be numbers; got {errors[0]!r}.")
    known = errors.astype(np.float64)
    _check(known > 0, known, f"the standard errors of {name}", "positive numbers")
    found = _real(y, offset, name, has_intercept)
    if known.min() < LEAST_ERROR * found.scale:
        raise DataError(
            f"the smallest standard error of {name} is {known.min():g}, and the deviation of {name} {found.scale:g}: values "
            "are rounded to about seven digits of this. Explain what is known to differ by an offset first."
        )
    error = known / found.scale
    return found._replace(
        arrays={**found.arrays, **_float32(error=error)}, information=float(np.mean(error**-2))
    )


def _share(y: ndarray, name: str, kind: str) -> Response:
    """Logarithms of shares and of their rests; `end` is -1 where a share is 0, and 1 where 1."""
    is_inside = (y > 0) & (y < 1)
    valid, needed = {
        "share": (is_inside, "numbers between 0 and 1, without these two"),
        "half-open share": (is_inside | (y == 0), "0 or numbers between 0 and 1"),
        "closed share": (is_inside | (y == 0) | (y == 1), "numbers from 0 to 1"),
    }[kind]
    hint = " For rows of 0 and 1 there is the family zero-one-inflated-beta."
    _check(valid, y, f"the response {name}", needed, hint if ((y >= 0) & (y <= 1)).all() else "")
    inside = np.where(is_inside, y, 0.5)
    arrays = _float32(log_y=np.log(inside), log_1y=np.log1p(-inside))
    ends = {} if kind == "share" else {"end": np.where(is_inside, 0, np.where(y > 0, 1, -1)).astype(np.int32)}
    return Response({**arrays, **ends})


def _count(y: ndarray, offset: ndarray, name: str, has_intercept: bool) -> Response:
    _check(
        (y >= 0) & (y % 1 == 0) & (y < 2**24),
        y,
        f"the response {name}",
        "counts: whole numbers from 0 to 16,777,215",
    )
    constant = y * np.log(np.maximum(y, 1)) - y - gammaln(y + 1)
    without_effects = float(np.mean(np.exp(offset)))
    mean = max(float(y.mean()), 0.5 / len(y)) if has_intercept else without_effects
    location = float(np.log(mean / without_effects))
    log_y = np.log(np.maximum(y, 1)) - location
    return Response(_float32(y=y, log_y=log_y, constant=constant), location, information=mean)


def _successes(
    y: ndarray, trials: ndarray | None, offset: ndarray, name: str, has_intercept: bool
) -> Response:
    if trials is None:
        raise DataError("the family binomial needs the number of trials: write 'successes | trials ~ terms'.")
    if trials.dtype.kind not in "fiub":
        raise DataError(f"the trials of {name} must be whole numbers; got {trials[0]!r}.")
    n = trials.astype(np.float64)
    _check((n >= 0) & (n % 1 == 0) & (n < 2**24), n, f"the trials of {name}", "whole numbers of at least 0")
    if not n.any():
        raise DataError(
            f"the trials of {name} are 0 in all {len(n):,} rows used: there is nothing to explain."
        )
    _check(
        (y >= 0) & (y % 1 == 0) & (y <= n),
        y,
        f"the response {name}",
        "whole numbers from 0 to the number of trials",
    )
    constant = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    share = (y.sum() + 0.5) / (n.sum() + 1) if has_intercept else expit(offset)
    arrays = _float32(y=y, trials=n, constant=constant)
    return Response(arrays, information=float(np.mean(n * share * (1 - share))))


def _float32(**arrays: ndarray) -> dict[str, ndarray]:
    return {name: values.astype(np.float32) for name, values in arrays.items()}


def _categories(column: Series, offset: ndarray, family: Family, name: str, has_intercept: bool) -> Response:
    levels, codes = _levels_of(column, family, name)
    if family.kind == "binary":
        if len(levels) != 2:
            raise DataError(
                f"the response {name} must have two values for this family; it has {len(levels)}: {_listed(levels)}."
            )
        share = codes.mean() if has_intercept else MEANS[family.link](offset)
        information = float(np.mean(share * (1 - share)))
        return Response({"y": codes.astype(np.float32)}, levels=levels, information=information)
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise DataError(
            f"the response {name} must have 2 to {MOST_LEVELS:,} categories; it has {len(levels):,}: {_listed(levels)}."
        )
    return Response({"y": codes.astype(np.int32)}, levels=levels)


def _levels_of(column: Series, family: Family, name: str) -> tuple[tuple[Any, ...], ndarray]:
    """Levels in their order, and the place of each value; 0 and 1 are levels if one is absent."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()
        is_ordered = bool(used.cat.ordered)
        levels, codes = tuple(used.cat.categories), used.cat.codes.to_numpy()
    else:
        distinct, codes = np.unique(column.to_numpy(), return_inverse=True)
        levels, is_ordered = tuple(distinct.tolist()), distinct.dtype.kind in "fiub"
        if family.kind == "binary" and set(levels) < {0, 1}:
            levels, codes = (0, 1), column.to_numpy(np.int64)
    if family.kind == "ordered" and not is_ordered:
        raise DataError(
            f"the response {name} has categories without an order ({_listed(levels)}). Make it an ordered pandas "
            "Categorical, or numbers."
        )
    return levels, codes


def _listed(levels: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, levels[:5])) + (", …" if len(levels) > 5 else "")


def _check(valid: ndarray, y: ndarray, what: str, needed: str, hint: str = "") -> None:
    if not valid.all():
        first = int((~valid).argmax())
        raise DataError(
            f"{what} must hold {needed} for this family; {(~valid).sum():,} of the {len(y):,} rows used do not: the first, "
            f"row {first} of these, has {y[first]:g}.{hint}"
        )
