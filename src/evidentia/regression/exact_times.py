"""Times of events that lie exactly on a plane, where the evidence is infinite.

As in `perfect_fit.py`, the likelihood grows without end for a scale near 0 if the columns explain
the logarithms of all times of events exactly, with fewer columns than events. A censored time
above the plane excludes that, as its probability then vanishes; so times of events that are all
equal are usual where others are censored later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.optimize import linprog

from evidentia.errors import DataError
from evidentia.regression.censored import events_of
from evidentia.regression.frame import Frame

if TYPE_CHECKING:
    from pandas import DataFrame

EXACT = 1e-7  # a residual in units of the deviation of the logarithms


def check_times(frame: Frame, table: DataFrame, sets: tuple[ndarray, ...], hint: str) -> None:
    """Refuse models whose columns explain the times of all events exactly.

    Args:
        frame: of all columns.
        table: its rows.
        sets: places of the columns of each model.
        hint: for the message: what else can be done.

    Raises:
        DataError: they do, with fewer columns than events.
    """
    times, offset = frame.response.values(table).to_numpy(np.float64), frame.offset(table)
    log_times = np.log(times) - (0.0 if offset is None else offset)
    status = None if frame.second is None else frame.second.values(table).to_numpy()
    events = events_of(status, len(times)) > 0
    columns = (frame.design.columns(table) - frame.means) / frame.deviations
    constant = np.ones((len(times), int(frame.formula.has_intercept)))
    for chosen in sets:
        if are_exact(np.column_stack([constant, columns[:, chosen]]), log_times, events):
            names = ", ".join(repr(frame.names[place]) for place in chosen) or "a constant"
            raise DataError(
                f"{frame.formula.text}: the times of all events are explained exactly by {names}, and no time is censored later, "
                f"so that the evidence is infinite. Leave out what the times are computed from{hint}."
            )


def are_exact(
    columns: Float[ndarray, "rows columns"],
    log_times: Float[ndarray, " rows"],
    events: Bool[ndarray, " rows"],
) -> bool:
    """Whether some plane has all events on it, and no censored time above it.

    Example:
        >>> constant, events = np.ones((4, 1)), np.array([True, True, True, False])
        >>> are_exact(constant, np.array([2.0, 2.0, 2.0, 1.0]), events)
        True
        >>> are_exact(constant, np.array([2.0, 2.0, 2.0, 3.0]), events)
        False
    """
    on_plane = columns[events]
    if not len(on_plane):
        return False
    effects, _, rank, _ = np.linalg.lstsq(on_plane, log_times[events], rcond=None)
    size = EXACT * max(float(np.std(log_times)), EXACT)
    if rank >= len(on_plane) or np.abs(log_times[events] - on_plane @ effects).max() > size:
        return False
    censored, later = columns[~events], log_times[~events]
    if rank == columns.shape[1] or not len(later):
        return bool((censored @ effects >= later - size).all())
    found = linprog(
        np.zeros(columns.shape[1]),
        A_ub=-censored,
        b_ub=size - later,
        A_eq=on_plane,
        b_eq=on_plane @ effects,
        bounds=(None, None),
    )
    return found.status == 0
