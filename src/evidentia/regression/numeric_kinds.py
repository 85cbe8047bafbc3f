"""Kinds of numeric responses: what each must hold, the means that it needs, and its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.special import expit, gammaln

from evidentia.errors import DataError
from evidentia.regression.censored import events_of
from evidentia.regression.scaled_response import Response, Wanted

LEAST_ERROR = 1e-5  # relative to the deviation: float32 then holds a hundredth of the error
LEAST_DEVIATION = 1e-4  # relative to the mean: float32 then holds a thousandth of the deviation

Averaged = dict[str, Float[ndarray, " rows"]]


class Spread(NamedTuple):
    """Of some numbers over all rows."""

    mean: float
    deviation: float


class Numbers(NamedTuple):
    """As `LeftSide`, with the response in float64."""

    y: Float[ndarray, " rows"]
    second: ndarray | None
    offset: Float[ndarray, " rows"]


class Kind(NamedTuple):
    """A kind of response.

    Attributes:
        averaged: numbers of some rows whose means over all rows are needed, after a check of the
            rows.
        learnt: the response without arrays, of the number of rows and these means.
        arrays: of some rows.
    """

    averaged: Callable[[Numbers, Wanted], Averaged]
    learnt: Callable[[int, dict[str, Spread], Wanted], Response]
    arrays: Callable[[Numbers, Wanted, Response], dict[str, ndarray]]


def _known(rows: Numbers, wanted: Wanted) -> Averaged:
    return {"known": rows.y - rows.offset}


def _real(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    mean, scale = means["known"]
    if not scale > 1e-12 * abs(mean):
        what = (
            "there is nothing to explain"
            if wanted.has_intercept
            else "priors in units of its deviation are undefined"
        )
        raise DataError(f"the response {wanted.name} is {mean:g} in all {num_rows:,} rows: {what}.")
    if not wanted.has_intercept and scale < LEAST_DEVIATION * abs(mean):
        raise DataError(
            f"the response {wanted.name} has the mean {mean:g} and the deviation {scale:g}: without an intercept, its values "
            "are rounded to about seven digits. Add an intercept, or subtract a constant from the response."
        )
    return Response({}, mean if wanted.has_intercept else 0.0, scale, -float(np.log(scale)), information=1.0)


def _standardised(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    return _float32(y=(rows.y - response.location) / response.scale)


def _positive(rows: Numbers, wanted: Wanted) -> Averaged:
    _check(rows.y > 0, rows.y, f"the response {wanted.name}", "positive numbers")
    return {"y": rows.y, "without effects": np.exp(rows.offset)}


def _of_positive(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    ratio = means["y"].mean / means["without effects"].mean
    location = float(np.log(ratio)) if wanted.has_intercept else 0.0
    return Response({}, location, log_jacobian=-location)


def _log(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    return _float32(log_y=np.log(rows.y) - response.location)


def _time(rows: Numbers, wanted: Wanted) -> Averaged:
    """The location is that of the total time per event."""
    _check(rows.y > 0, rows.y, f"the time {wanted.name}", "positive numbers")
    return {"event": _events(rows, wanted), "without effects": rows.y * np.exp(-rows.offset)}


def _events(rows: Numbers, wanted: Wanted) -> Float[ndarray, " rows"]:
    return events_of(rows.second, len(rows.y), wanted.largest_status)


def _of_time(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    share = means["event"].mean
    per_event = means["without effects"].mean / max(share, 0.5 / num_rows)
    location = float(np.log(per_event)) if wanted.has_intercept else 0.0
    information = None if wanted.family.extra else share
    return Response({}, location, log_jacobian=-location * share, information=information)


def _log_times(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    return {**_log(rows, wanted, response), **_float32(event=_events(rows, wanted))}


def _estimate(rows: Numbers, wanted: Wanted) -> Averaged:
    """Estimates with known standard errors, both in units of the deviation of the estimates."""
    return {**_known(rows, wanted), "precision": _errors(rows, wanted) ** -2}


def _errors(rows: Numbers, wanted: Wanted) -> Float[ndarray, " rows"]:
    errors = rows.second
    assert errors is not None  # as the formula has them
    if errors.dtype.kind not in "fiub":
        raise DataError(f"the standard errors of {wanted.name} must be numbers; got {errors[0]!r}.")
    known = errors.astype(np.float64)
    _check(known > 0, known, f"the standard errors of {wanted.name}", "positive numbers")
    return known


def _of_estimate(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    found = _real(num_rows, means, wanted)
    return found._replace(information=means["precision"].mean * found.scale**2)


def _with_errors(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    known, name, scale = _errors(rows, wanted), wanted.name, response.scale
    if known.min() < LEAST_ERROR * scale:
        raise DataError(
            f"the smallest standard error of {name} is {known.min():g}, and the deviation of {name} {scale:g}: values "
            "are rounded to about seven digits of this. Explain what is known to differ by an offset first."
        )
    return {**_standardised(rows, wanted, response), **_float32(error=known / scale)}


def _is_inside(rows: Numbers) -> Bool[ndarray, " rows"]:
    return (rows.y > 0) & (rows.y < 1)


def _share(rows: Numbers, wanted: Wanted) -> Averaged:
    y, is_inside = rows.y, _is_inside(rows)
    valid, needed = {
        "share": (is_inside, "numbers between 0 and 1, without these two"),
        "half-open share": (is_inside | (y == 0), "0 or numbers between 0 and 1"),
        "closed share": (is_inside | (y == 0) | (y == 1), "numbers from 0 to 1"),
    }[wanted.family.kind]
    hint = " For rows of 0 and 1 there is the family zero-one-inflated-beta."
    _check(valid, y, f"the response {wanted.name}", needed, hint if ((y >= 0) & (y <= 1)).all() else "")
    return {}


def _of_share(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    return Response({})


def _log_shares(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    """Logarithms of shares and of their rests; `end` is -1 where a share is 0, and 1 where 1."""
    y, is_inside = rows.y, _is_inside(rows)
    inside = np.where(is_inside, y, 0.5)
    found = _float32(log_y=np.log(inside), log_1y=np.log1p(-inside))
    if wanted.family.kind != "share":
        found["end"] = np.where(is_inside, 0, np.where(y > 0, 1, -1)).astype(np.int32)
    return found


def _count(rows: Numbers, wanted: Wanted) -> Averaged:
    y = rows.y
    valid = (y >= 0) & (y % 1 == 0) & (y < 2**24)
    _check(valid, y, f"the response {wanted.name}", "counts: whole numbers from 0 to 16,777,215")
    return {"y": y, "without effects": np.exp(rows.offset)}


def _of_count(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    without_effects = means["without effects"].mean
    mean = max(means["y"].mean, 0.5 / num_rows) if wanted.has_intercept else without_effects
    return Response({}, float(np.log(mean / without_effects)), information=mean)


def _counts(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    y = rows.y
    constant = y * np.log(np.maximum(y, 1)) - y - gammaln(y + 1)
    return _float32(y=y, log_y=np.log(np.maximum(y, 1)) - response.location, constant=constant)


def _successes(rows: Numbers, wanted: Wanted) -> Averaged:
    y, n = rows.y, _trials(rows, wanted)
    valid = (n >= 0) & (n % 1 == 0) & (n < 2**24)
    _check(valid, n, f"the trials of {wanted.name}", "whole numbers of at least 0")
    _check(
        (y >= 0) & (y % 1 == 0) & (y <= n),
        y,
        f"the response {wanted.name}",
        "whole numbers from 0 to the number of trials",
    )
    share = expit(rows.offset)
    return {"y": y, "trials": n, "without effects": n * share * (1 - share)}


def _trials(rows: Numbers, wanted: Wanted) -> Float[ndarray, " rows"]:
    trials = rows.second
    if trials is None:
        raise DataError("the family binomial needs the number of trials: write 'successes | trials ~ terms'.")
    if trials.dtype.kind not in "fiub":
        raise DataError(f"the trials of {wanted.name} must be whole numbers; got {trials[0]!r}.")
    return trials.astype(np.float64)


def _of_successes(num_rows: int, means: dict[str, Spread], wanted: Wanted) -> Response:
    trials = means["trials"].mean
    if not trials > 0:
        raise DataError(
            f"the trials of {wanted.name} are 0 in all {num_rows:,} rows used: there is nothing to explain."
        )
    share = (num_rows * means["y"].mean + 0.5) / (num_rows * trials + 1)
    in_all = trials * share * (1 - share)
    return Response({}, information=in_all if wanted.has_intercept else means["without effects"].mean)


def _of_trials(rows: Numbers, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    y, n = rows.y, _trials(rows, wanted)
    return _float32(y=y, trials=n, constant=gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1))


KINDS = {
    "real": Kind(_known, _real, _standardised),
    "positive": Kind(_positive, _of_positive, _log),
    **dict.fromkeys(("share", "half-open share", "closed share"), Kind(_share, _of_share, _log_shares)),
    "count": Kind(_count, _of_count, _counts),
    "trials": Kind(_successes, _of_successes, _of_trials),
    "time": Kind(_time, _of_time, _log_times),
    "estimate": Kind(_estimate, _of_estimate, _with_errors),
}


def _float32(**values: ndarray) -> dict[str, ndarray]:
    return {name: one.astype(np.float32) for name, one in values.items()}


def _check(valid: Bool[ndarray, " rows"], y: ndarray, what: str, needed: str, hint: str = "") -> None:
    if not valid.all():
        first = int((~valid).argmax())
        raise DataError(
            f"{what} must hold {needed} for this family; {(~valid).sum():,} of the {len(y):,} rows used do not: the first, "
            f"row {first} of these, has {y[first]:g}.{hint}"
        )
