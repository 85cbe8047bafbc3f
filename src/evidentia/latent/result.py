"""What a fit returns: θ, its path with the log evidence along it, and the particles."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.display import text
from evidentia.results.verdict import Verdict, verdict_of


class LatentTrajectory(NamedTuple):
    """The path of θ from θ₀ on; every array is (steps + 1, …).

    Attributes:
        theta: in the structure of θ.
        log_evidence: log Z(θ_k) in nats, float64; NaN if log Z(θ₀) or the weights are unknown.
        standard_error: of `log_evidence` in nats, from the families of the initial particles and
            the error of log Z(θ₀); of `log_evidence_gain` if log Z(θ₀) is unknown; NaN without
            weights.
        log_evidence_gain: log Z(θ_k) / Z(θ₀) in nats, float64; NaN without weights.
        ess: effective sample size as a fraction of the particles, before resampling; NaN without
            weights.
    """

    theta: Any
    log_evidence: Float[ndarray, " steps"]
    standard_error: Float[ndarray, " steps"]
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
        diagnostics: numbers from the checks, by name (`latent.diagnostics`); NaN where a check
            does not apply.
        signs: signs that the particles, θ or the log evidence is wrong: one sentence each, by a
            short name. `fit` issues them as DiagnosticWarnings.
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
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    signs: Mapping[str, str] = field(default_factory=dict)

    @property
    def log_evidence(self) -> float:
        """log Z(θ) in nats after the last step; NaN if unknown."""
        return float(self.trajectory.log_evidence[-1])

    @property
    def standard_error(self) -> float:
        """The standard error in nats of the last log evidence, or its gain; NaN without weights.

        It is at least the distance from the second estimate, as few families tell it badly.
        """
        distance = self.diagnostics.get("distance", math.nan)
        return float(np.fmax(self.trajectory.standard_error[-1], distance))

    @property
    def verdict(self) -> Verdict:
        """Whether to trust the fit: "trusted", "doubtful" or "failed", and why.

        It is about the log evidence, or, if log Z(θ₀) is unknown, its gain; for a method without
        weights about the steps alone.
        """
        if not self.completed and not self.signs:
            return Verdict("doubtful", f"the run was stopped after {self.num_steps:,} steps.")
        if self.method.has_weights:
            path = self.trajectory
            values = path.log_evidence_gain if math.isnan(self.log_evidence) else path.log_evidence
            return verdict_of(float(values[-1]), self.standard_error, signs=self.signs, completed=True)
        if self.signs:  # a verdict on signs alone
            return verdict_of(0.0, 0.0, signs=self.signs, completed=True)
        return Verdict("trusted", "no sign of trouble was found in the steps. There is no log evidence.")

    def __repr__(self) -> str:
        known = ""
        if not math.isnan(self.log_evidence):
            known = f" {text.with_error(self.log_evidence, self.standard_error)} nats,"
        ending = "" if self.verdict.word == "trusted" else f", {self.verdict.word}"
        return f"LatentFit({self.model_name}, {type(self.method).__name__}:{known} {self.num_steps:,} steps{ending})"
