"""The response: checked against what its family needs, and scaled so that float32 holds it."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from evidentia.regression import category_response, numeric_response
from evidentia.regression.families import CATEGORIES, Family
from evidentia.regression.frame import Frame, mapped
from evidentia.regression.scaled_response import LeftSide, Response, Wanted
from evidentia.regression.streamed import Streamed

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def response_of(frame: Frame, table: DataFrame | Streamed, law: Family) -> Response:
    """The response of a formula, learnt block by block; with arrays of a table in memory.

    Raises:
        DataError: values that the family cannot have, or a response that is constant where the
            family needs variation; the message has the values seen.
    """
    wanted, kind = wanted_of(frame, table, law), _kind_of(law)
    look = partial(_seen, frame, wanted)
    found = kind.learnt(reduce(kind.merged, mapped(table, look, len(frame.names))), wanted)
    if isinstance(table, Streamed):
        return found
    return found._replace(arrays=kind.arrays(_left_side(frame, table), wanted, found))


def arrays_of_response(
    frame: Frame, wanted: Wanted, response: Response, table: DataFrame
) -> dict[str, ndarray]:
    """The arrays of a block of rows, of a response that was learnt on all."""
    return _kind_of(wanted.family).arrays(_left_side(frame, table), wanted, response)


def respond(
    column: Series,
    second: ndarray | None,
    offset: ndarray,
    family: Family,
    name: str,
    has_intercept: bool,
) -> Response:
    """The response of rows at hand: `column` and what stands beside it, as in `LeftSide`.

    Raises:
        DataError: as `response_of`.
    """
    rows, wanted, kind = (
        LeftSide(column, second, offset),
        Wanted(family, name, has_intercept),
        _kind_of(family),
    )
    found = kind.learnt(kind.seen(rows, wanted), wanted)
    return found._replace(arrays=kind.arrays(rows, wanted, found))


def wanted_of(frame: Frame, table: DataFrame | Streamed, law: Family) -> Wanted:
    """What the response of a formula is asked for.

    The rows of `Streamed.sample` have the largest value of each column, and so of a status.
    """
    known = table.sample if isinstance(table, Streamed) else table
    largest = None
    if law.kind == "time" and frame.second is not None:
        status = frame.second.values(known).to_numpy()
        largest = float(status.max()) if status.dtype.kind in "fiub" else None
    return Wanted(law, frame.formula.response, frame.formula.has_intercept, largest)


def _kind_of(law: Family) -> Any:
    """How a kind of response is seen, learnt and made into arrays."""
    return category_response if law.kind in CATEGORIES else numeric_response


def _seen(frame: Frame, wanted: Wanted, table: DataFrame) -> Any:
    return _kind_of(wanted.family).seen(_left_side(frame, table), wanted)


def _left_side(frame: Frame, table: DataFrame) -> LeftSide:
    second = None if frame.second is None else frame.second.values(table).to_numpy()
    offset = frame.offset(table)
    return LeftSide(frame.response.values(table), second, np.zeros(len(table)) if offset is None else offset)
