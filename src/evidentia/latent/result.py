"""What a fit returns: θ, its path with the log evidence along it, and the particles."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float
from numpy import ndarray


class LatentTrajectory(NamedTuple):
    """The path of θ from θ₀ on; every array is (steps + 1, …).

    Attributes:
        theta: in the structure of θ.
        log_evidence: log Z(θ_k) in nats, float64; NaN if log Z(θ₀) or the weights are unknown.
        log_evidence_gain: log Z(θ_k) / Z(θ₀) in nats, float64; NaN without weights.
        ess: effective sample size as a fraction of the particles, before resampling; NaN without
            weights.
    """

    theta: Any
    log_evidence: Float[ndarray, " steps"]
    log_evidence_gain: Float[ndarray, " steps"]
    ess: Float[ndarray, " steps"]

    def __len__(self) -> int:
        return len(self.log_evidence)


@dataclass(frozen=True, eq=False, repr=False)
class LatentFit:
    """The result of `fit`.

    Attributes:
        theta: after the last step.
        trajectory: θ and its log evidence after every step.
        particles: of the latent variables given `theta`, in their structure, (particles, …).
        log_weights: the particles' normalised log weights.
        method: the configuration.
        model_name: name of the model.
        seed: seed of the run.
        seconds: wall-clock time, compilation included.
        num_steps: steps made; fewer than asked for if θ converged or the run was interrupted.
        completed: False after Ctrl-C or an error.
    """

    theta: Any
    trajectory: LatentTrajectory
    particles: Any
    log_weights: Float[ndarray, " particles"]
    method: Any
    model_name: str
    seed: int
    seconds: float
    num_steps: int
    completed: bool = True

    @property
    def log_evidence(self) -> float:
        """log Z(θ) in nats after the last step; NaN if unknown."""
        return float(self.trajectory.log_evidence[-1])

    def __repr__(self) -> str:
        known = "" if math.isnan(self.log_evidence) else f" {self.log_evidence:,.2f} nats,"
        return f"LatentFit({self.model_name}, {type(self.method).__name__}:{known} {self.num_steps:,} steps)"
