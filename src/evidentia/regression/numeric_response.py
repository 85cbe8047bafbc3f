"""Responses that are numbers: what their family needs, means over all rows, float32 arrays.

Means and deviations add up over blocks of rows, so that a table need not be in one place.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from evidentia.regression import moments
from evidentia.regression.left_hand_side import check_numeric
from evidentia.regression.moments import Moments
from evidentia.regression.numeric_kinds import KINDS, Kind, Numbers, Spread
from evidentia.regression.scaled_response import LeftSide, Response, Wanted

Means = tuple[tuple[str, ...], Moments]  # of averaged numbers, by name


def seen(rows: LeftSide, wanted: Wanted) -> Means:
    """The means of some rows.

    Raises:
        DataError: values that the family cannot have.
    """
    numbers = {
        "rows": np.zeros(len(rows.column)),
        **_kind_of(wanted).averaged(_numbers(rows, wanted), wanted),
    }
    return tuple(numbers), moments.moments_of(np.column_stack(list(numbers.values())))


def merged(first: Means, second: Means) -> Means:
    """Of two blocks of rows together."""
    return first[0], moments.merged(first[1], second[1])


def learnt(found: Means, wanted: Wanted) -> Response:
    """The response without arrays, of the means of all rows.

    Raises:
        DataError: a response that is constant where the family needs variation.
    """
    names, known = found
    means = dict(zip(names, map(Spread, known.means.tolist(), known.deviations.tolist()), strict=True))
    return _kind_of(wanted).learnt(known.num_rows, means, wanted)


def arrays(rows: LeftSide, wanted: Wanted, response: Response) -> dict[str, ndarray]:
    """What the log density of the family takes of some rows."""
    return _kind_of(wanted).arrays(_numbers(rows, wanted), wanted, response)


def _kind_of(wanted: Wanted) -> Kind:
    return KINDS[wanted.family.kind]


def _numbers(rows: LeftSide, wanted: Wanted) -> Numbers:
    check_numeric(rows.column, wanted.name, wanted.family)
    return Numbers(rows.column.to_numpy().astype(np.float64), rows.second, rows.offset)
