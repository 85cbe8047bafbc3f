"""The most probable segmentation of a stream: Viterbi's recursion over run lengths.

Let bₜ(s) be the highest joint probability of the rows up to t and a segmentation whose last
segment began with row s. Then

    bₜ₊₁(s) = (1-h) bₜ(s) p(yₜ₊₁ | yₛ … yₜ),        bₜ₊₁(t+1) = h maxₛ bₜ(s) p(yₜ₊₁),

and the s of the maximum is the start before t+1. Starts that lead to no current run are forgotten,
so that memory grows by the changes, not by the rows.

Source: Viterbi (1967); for run lengths Fearnhead and Liu (2007), "On-line inference for multiple
changepoint problems", section 3.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from evidentia.monitor.hazards import Hazards

FIRST = -1  # the start before the first segment


class BestPaths(NamedTuple):
    """The most probable segmentation that ends in each run.

    Attributes:
        log_weights: float64, nats: log b of each run and hazard, relative to the evidence.
        starts: int64, ascending: rows that began a segment in one of the segmentations.
        before: int64, the start before each of these, for each hazard; -1 before the first.
        room: number of starts at which the useless ones are forgotten next.
    """

    log_weights: Float[ndarray, "runs hazards"]
    starts: Int[ndarray, " starts"]
    before: Int[ndarray, "starts hazards"]
    room: int


def init(hazards: Hazards) -> BestPaths:
    """Before any row."""
    none = np.empty((0, len(hazards.values)))
    return BestPaths(none, np.empty(0, np.int64), none.astype(np.int64), 256)


def step(
    best: BestPaths,
    hazards: Hazards,
    runs: Int[ndarray, " runs"],
    row: int,
    log_predictives: Float[ndarray, " runs_and_new"],
    total: float,
) -> BestPaths:
    """After row number `row`.

    `runs` are the starts of the runs before it, `log_predictives` as in `run_weights.step`, and
    `total` the log predictive density of the row.
    """
    if len(runs):
        likely = best.log_weights.argmax(0)
        new, before = best.log_weights.max(0) + hazards.log_change, runs[likely]
    else:
        new, before = hazards.log_prior, np.full(len(hazards.values), FIRST)
    grown = np.concatenate([best.log_weights + hazards.log_survival, new[None]])
    grown += log_predictives[:, None] - total
    starts = np.append(best.starts, np.int64(row))
    after = BestPaths(grown, starts, np.concatenate([best.before, before[None]]), best.room)
    return after if len(starts) < best.room else _without_useless(after, np.append(runs, row))


def changes(best: BestPaths, runs: Int[ndarray, " runs"]) -> Int[ndarray, " changes"]:
    """First rows of the segments after the first, in the most probable segmentation."""
    if not len(runs):
        return np.empty(0, np.int64)
    last, hazard = np.unravel_index(best.log_weights.argmax(), best.log_weights.shape)
    found, start = [], int(runs[last])
    while start > 0:
        found.append(start)
        start = int(best.before[np.searchsorted(best.starts, start), hazard])
    return np.array(found[::-1], np.int64)


def _without_useless(best: BestPaths, runs: Int[ndarray, " runs"]) -> BestPaths:
    useful = np.isin(best.starts, runs)
    for i in range(len(useful) - 1, -1, -1):  # the starts before a start are earlier
        if useful[i]:
            before = best.before[i]
            useful[np.searchsorted(best.starts, before[before != FIRST])] = True
    kept = best._replace(starts=best.starts[useful], before=best.before[useful])
    return kept._replace(room=2 * len(kept.starts) + 256)
