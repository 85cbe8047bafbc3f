"""A response in the units of a model, in which float32 holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import ndarray

from evidentia.regression.families import Family

if TYPE_CHECKING:
    from pandas import Series


class Response(NamedTuple):
    """A response in the units of the model.

    Attributes:
        arrays: `y`, and what else the family's log density takes, float32 or int32; {} where the
            rows stay elsewhere.
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


class LeftSide(NamedTuple):
    """What some rows have left of "~".

    Attributes:
        column: the response as the table has it.
        second: what the formula has beside it: trials, events or errors.
        offset: a known part of the predictor of each row.
    """

    column: Series
    second: ndarray | None
    offset: ndarray


class Wanted(NamedTuple):
    """What a response is asked for.

    Attributes:
        family: the law of the response.
        name: for messages.
        has_intercept: whether the model has a parameter that takes up the response's location.
        largest_status: of all rows, which says how events are coded; None for that of those given.
    """

    family: Family
    name: str
    has_intercept: bool
    largest_status: float | None = None
