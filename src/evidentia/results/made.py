"""From a run to its `Evidence`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.evidence.method import Diagnosis, Estimate
from evidentia.model.bound import BoundModel
from evidentia.posterior.symmetry import log_num_copies
from evidentia.results.known_model import KnownModel
from evidentia.results.result import Evidence
from evidentia.results.reweighting import ModelWidths
from evidentia.results.weighted import Weighted
from evidentia.trajectory import Trajectory


def make_evidence(
    model: BoundModel,
    method: Any,
    seed: int,
    estimate: Estimate,
    particles: tuple[Any, Float[ndarray, " particles"]],
    trajectory: Trajectory,
    diagnosis: Diagnosis,
    *,
    seconds: float,
    completed: bool,
    fingerprints: Mapping[str, str],
    known: Mapping[str, ndarray] | None = None,
) -> Evidence:
    """Make the `Evidence` of a run.

    `particles` are unconstrained positions and log weights; `known` is what else is known of them.
    """
    positions, log_weights = particles
    params = {name: np.asarray(values) for name, values in model.constrain(positions).items()}
    measured = {**diagnosis.measured, "warnings": "; ".join(diagnosis.signs)}
    if model.symmetry:
        measured["log_copies"] = log_num_copies(model)
    normalised = weights.normalise(log_weights)
    return Evidence(
        log_evidence=float(estimate.log_evidence),
        standard_error=float(estimate.standard_error),
        num_observations=int(trajectory.num_observations[-1]),
        trajectory=trajectory,
        weighted=Weighted(
            params if model.shown is None else model.shown(params),
            normalised,
            dict(known or {}),
            model=KnownModel(model, params, rule=int(measured.get("inner_rule", 0)), shown=model.shown),
        ),
        method=method,
        model_name=model.name,
        seed=seed,
        seconds=seconds,
        completed=completed,
        diagnostics=measured,
        signs={name: f"{model.name}: {sentence}" for name, sentence in diagnosis.signs.items()},
        widths=ModelWidths(model, params, normalised) if model.shown is None else None,
        fingerprints=fingerprints,
    )
