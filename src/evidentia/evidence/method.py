"""What every method shares: it is an iterator over snapshots, which hold raw estimates.

A method is a frozen configuration with `num_particles` and

    run(model, rows, key) -> iterator of Snapshot,

which owns no data and no clock. `estimate` draws from the iterator, and so shows progress, keeps
the last snapshot when it is interrupted, and makes the result. Methods that take rows in chunk by
chunk share one loop (`chunks`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window


class Estimate(NamedTuple):
    """log Ẑ, the logarithm of an estimate of the evidence, as it was computed, and its variance.

    If Ẑ itself is unbiased, log Ẑ is too low by half its variance on average (Jensen's inequality,
    to second order). Estimates are added up and passed on raw; the correction is made here, once,
    where a person reads the result.

    Attributes:
        raw: log Ẑ in nats.
        variance: of log Ẑ, in nats²; NaN if it is not known.
        is_unbiased: whether Ẑ is unbiased and `variance` is reliable enough to correct by it.

    Example:
        >>> Estimate(-10.0, variance=0.04).log_evidence
        -9.98
    """

    raw: float
    variance: float = 0.0
    is_unbiased: bool = True

    @property
    def log_evidence(self) -> float:
        """The log evidence in nats, corrected for the bias of the logarithm."""
        return self.raw + 0.5 * self.variance if self.is_unbiased else self.raw

    @property
    def standard_error(self) -> float:
        """Of the log evidence, in nats; NaN if it is not known."""
        return math.sqrt(self.variance)


class Diagnosis(NamedTuple):
    """Diagnostics by name, and what is wrong: sentences that say what to do, by a short name."""

    measured: Mapping[str, float] = {}
    signs: Mapping[str, str] = {}


class Snapshot(NamedTuple):
    """What a method knows after a step.

    Attributes:
        estimate: for the first `num_observations` rows; None as long as there is none.
        num_observations: zero as long as there is no estimate.
        num_steps: annealing steps, or iterations, of this step alone.
        positions, log_weights: the particles.
        share_done: of the whole work, between 0 and 1; None where the number of rows says it.
        diagnose: called for the last snapshot only.
    """

    estimate: Estimate | None
    num_observations: int
    num_steps: int
    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    share_done: float | None = None
    diagnose: Callable[[], Diagnosis] = Diagnosis


@runtime_checkable
class Method(Protocol):
    """What `estimate` takes as `method`."""

    @property
    def num_particles(self) -> int:
        """Particles, draws or live points: the variance of the log evidence falls as one over
        their number.
        """
        ...

    def run(self, model: BoundModel, rows: Window, key: Array) -> Iterator[Snapshot]:
        """Snapshots on the way to the log evidence of `rows`, the last of them final."""
        ...
