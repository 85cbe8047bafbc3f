"""What an average reports, and what its checkpoint needs."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from numpy import ndarray

from evidentia.monitor.protocols import UpdateLike


class AverageUpdate(NamedTuple):
    """The result of one batch.

    Attributes:
        num_observations: rows seen, including this batch.
        batch_size: rows in this batch.
        log_predictive: log Σ πₖ pₖ(batch) of the average, with the probabilities πₖ from before
            the batch, in nats.
        log_evidence: of the average, in nats (`ModelAverage.log_evidence`).
        standard_error: of `log_evidence`, in nats.
        probabilities: probability of each model after the batch, by name.
        updates: the result of each model's `update`, by name.
    """

    num_observations: int
    batch_size: int
    log_predictive: float
    log_evidence: float
    standard_error: float
    probabilities: dict[str, float]
    updates: dict[str, UpdateLike]


class AverageState(NamedTuple):
    """The numbers of an average, for a checkpoint; the models are saved separately.

    Attributes:
        log_evidence: of the average, in nats.
        log_weights: float64, the models' log w, in nats.
        variances: float64, the Monte Carlo variances of `log_weights`, in nats².
        variance: that of `log_evidence`, in nats².
    """

    log_evidence: float
    log_weights: Float[ndarray, " models"]
    variances: Float[ndarray, " models"]
    variance: float = 0.0
