"""What a change detector reports, and what its checkpoint needs."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Int
from numpy import ndarray

from evidentia.monitor.e_detector import Change, EDetectorState
from evidentia.monitor.protocols import UpdateLike


class ChangeReport(NamedTuple):
    """The result of one batch.

    Attributes:
        update: the result of `online.update`.
        alarm: the detected change, or None.
        num_observations: rows of the whole stream, including this batch.
        log_e_value: log Mₙ, the evidence for a change; -inf before there is a candidate. An alarm
            is raised at log(1 / rate).
        num_candidates: number of candidate models beside the current one.
        annealing_ratio: annealing steps of the batch over the median of earlier batches in the
            segment; NaN while there are fewer than five of them.
        annealing_spike: whether they exceed that median by more than five times their scatter
            (median absolute deviation, scaled to a standard deviation, at least one step). A
            second sign of a change, without a guarantee.
    """

    update: UpdateLike
    alarm: Change | None
    num_observations: int
    log_e_value: float
    num_candidates: int
    annealing_ratio: float
    annealing_spike: bool


class ChangeState(NamedTuple):
    """The numbers of a detector, for a checkpoint; the models are saved separately.

    Attributes:
        detector: state of the e-detector.
        annealing_steps: int64, of up to a hundred batches of the segment, excluding its first.
        num_started: candidates started so far, which determines the seed of the next.
    """

    detector: EDetectorState
    annealing_steps: Int[ndarray, " batches"]
    num_started: int
