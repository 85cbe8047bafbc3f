"""What run lengths report, and what a checkpoint of those of any model needs."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from numpy import ndarray

from evidentia.monitor.run_changes import RunChange
from evidentia.monitor.run_weights import RunWeights


class RunLengthUpdate(NamedTuple):
    """The result of a batch; log evidences in nats.

    Attributes:
        num_observations: rows seen, including this batch.
        batch_size: rows in this batch.
        log_predictive: log p(batch | rows before).
        log_evidence: of all rows seen.
        pruning_error: width of the bounds of `log_evidence`; 0 if no run was left out.
        change_probability: of a change since the last alarm, after the last row.
        alarms: the changes that became probable in this batch, row by row.
        log_predictive_standard_error, standard_error, num_annealing_steps: 0, as nothing is
            estimated by Monte Carlo; for `evidentia.ModelAverage`.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: float
    pruning_error: float
    change_probability: float
    alarms: tuple[RunChange, ...]
    log_predictive_standard_error: float = 0.0
    standard_error: float = 0.0
    num_annealing_steps: int = 0


class OnlineRunLengthUpdate(NamedTuple):
    """The result of a batch; log evidences in nats.

    Attributes:
        num_observations: rows seen, including this batch.
        batch_size: rows in this batch.
        log_predictive: log p(batch | rows before).
        log_evidence: of all rows seen, under the change-point model.
        standard_error: of `log_evidence`, an upper bound to first order.
        left_out: probability of the runs left out so far, each when it was.
        change_probability: of a change since the last alarm.
        alarm: the change that became probable with this batch, or None.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: float
    standard_error: float
    left_out: float
    change_probability: float
    alarm: RunChange | None


class OnlineRunState(NamedTuple):
    """The numbers of `OnlineRunLengths`, for a checkpoint; the models are saved separately.

    Attributes:
        weights: of the runs.
        variances_before: float64, nats²: of the log evidence of all rows before each run.
        num_started: runs started so far, which determines the seed of the next.
        since: a current run that began with this row or later raises an alarm.
        kept: probability of the runs that were never left out.
        num_observations: rows seen.
        standard_error: of the log evidence, in nats.
    """

    weights: RunWeights
    variances_before: Float[ndarray, " runs"]
    num_started: int = 0
    since: int = 1
    kept: float = 1.0
    num_observations: int = 0
    standard_error: float = 0.0
