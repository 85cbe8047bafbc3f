"""The results of a fleet: a small record per data set, with an evidence or an error per model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.display import text
from evidentia.results.comparing import compare
from evidentia.results.comparison import Comparison
from evidentia.results.configurations import jsonable
from evidentia.results.result import Evidence
from evidentia.results.weighted import Weighted, evenly_weighted

NUM_DRAWS = 100  # equally weighted posterior draws that are kept of a task


@dataclass(frozen=True, eq=False, repr=False)
class FleetEvidence:
    """The log evidence of one model for one data set of a fleet, in nats.

    `Evidence` has all particles of a run; a fleet of 30,000 tasks keeps a hundred draws of each.
    `ev.estimate(model, data, seed=evidence.seed)` gives the rest for a single task.

    Attributes:
        model_name: the name of the model.
        log_evidence: estimate of log p(D), in nats.
        standard_error: of `log_evidence`, in nats; NaN if unknown.
        num_observations: rows of the data.
        seed: seed of the task, made from that of the fleet and the names of data set and model.
        seconds: duration of the task; in a batch, its share of the batch's.
        mean: posterior means of the constrained parameters, by name.
        deviation: posterior standard deviations, by name.
        posterior: 100 equally weighted posterior draws by name, (draws, ...).
        diagnostics: `way` is "batched" or "estimate"; `reason` says why a task left its batch;
            other numbers and strings are those of the way.
        signs: signs that the log evidence or its standard error is wrong, as in `Evidence`.
        response, constant: as in `Evidence`.

    Example:
        >>> record.evidences["linear"]  # doctest: +SKIP
        FleetEvidence(linear: -309.30 ± 0.01 nats, 200 observations, batched)
    """

    model_name: str
    log_evidence: float
    standard_error: float
    num_observations: int
    seed: int
    seconds: float
    mean: Mapping[str, ndarray]
    deviation: Mapping[str, ndarray]
    posterior: Mapping[str, ndarray]
    diagnostics: Mapping[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    signs: Mapping[str, str] = field(default_factory=dict[str, str])
    response: str | None = None
    constant: str | None = None

    @property
    def weighted(self) -> Weighted:
        """The draws with their weights, which are equal."""
        return evenly_weighted(dict(self.posterior), NUM_DRAWS)

    def draws(self, n: int, seed: int | None = None) -> dict[str, ndarray]:
        """As `Evidence.draws`, of the hundred that are kept."""
        return self.weighted.draws(self.seed if seed is None else seed, n)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-compatible summary without draws, which `evidentia.compare` accepts."""
        names = [each.name for each in fields(self) if each.name != "posterior"]
        return jsonable({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        return (
            f"FleetEvidence({self.model_name}: {text.with_error(self.log_evidence, self.standard_error)} nats, "
            f"{self.num_observations:,} observations, {self.diagnostics.get('way', 'unknown')})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class FleetRecord:
    """The results of all models for one data set.

    Attributes:
        name: the name of the data set; its position, from 0, if the data sets have no names.
        evidences: the evidence by the model's name, for models without an error.
        errors: the exception by the model's name, for the others.

    Example:
        >>> record.comparison.best  # doctest: +SKIP
        'student-t'
    """

    name: str | int
    evidences: Mapping[str, FleetEvidence]
    errors: Mapping[str, Exception]

    @property
    def comparison(self) -> Comparison:
        """`evidentia.compare` of the models that have an evidence.

        Raises ConfigurationError if none has.
        """
        return compare({name: evidence.to_dict() for name, evidence in self.evidences.items()})

    def __repr__(self) -> str:
        found = [
            f"{name}: {text.with_error(each.log_evidence, each.standard_error)}"
            for name, each in self.evidences.items()
        ]
        failed = [f"{name}: {type(error).__name__}" for name, error in self.errors.items()]
        return f"FleetRecord({self.name!r}, {', '.join([*found, *failed])})"


class Posterior(NamedTuple):
    """Three attributes of a `FleetEvidence`."""

    mean: dict[str, ndarray]
    deviation: dict[str, ndarray]
    draws: dict[str, ndarray]


def summarised(
    posterior: Mapping[str, ndarray], log_weights: Float[ndarray, " particles"], seed: int
) -> Posterior:
    """Means, deviations and equally weighted draws of weighted particles.

    The draws are resampled systematically. Their order is random.
    """
    share = np.exp(weights.normalise(np.asarray(log_weights, np.float64)))
    chosen = weights.systematic(np.random.default_rng(seed), log_weights, NUM_DRAWS)
    found = Posterior({}, {}, {})
    for name, values in posterior.items():
        wide = np.asarray(values, np.float64)
        mean = np.tensordot(share, wide, 1)
        found.mean[name] = mean
        found.deviation[name] = np.sqrt(np.tensordot(share, (wide - mean) ** 2, 1))
        found.draws[name] = np.asarray(values, np.float32)[chosen]
    return found


def from_evidence(evidence: Evidence, seconds: float, reason: str) -> FleetEvidence:
    """The record of an evidence that `estimate` found; `reason` says why, if not by choice."""
    ways = {"way": "estimate", **({"reason": reason} if reason else {})}
    return FleetEvidence(
        evidence.model_name,
        evidence.log_evidence,
        evidence.standard_error,
        evidence.num_observations,
        evidence.seed,
        seconds,
        *summarised(evidence.weighted, evidence.weighted.log_weights, evidence.seed),
        diagnostics={
            **ways,
            "method": type(evidence.method).__name__,
            **known_diagnostics(evidence.diagnostics),
        },
        signs=dict(evidence.signs),
        response=evidence.response,
        constant=evidence.constant,
    )


def known_diagnostics(diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """Diagnostics that have a value."""
    return {
        name: value
        for name, value in diagnostics.items()
        if value != "" and not (isinstance(value, float) and math.isnan(value))
    }
