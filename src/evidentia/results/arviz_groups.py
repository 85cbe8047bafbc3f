"""The groups of a result for ArviZ, and their attributes."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy import ndarray

from evidentia.errors import ConfigurationError
from evidentia.results.weighted import Weighted

SCALARS = (
    *("model_name", "log_evidence", "standard_error", "num_observations", "seed", "seconds"),
    *("completed", "response", "constant"),
)


def scalars_of(evidence: Any) -> dict[str, Any]:
    """The fields of a result that are numbers or texts."""
    return {name: getattr(evidence, name) for name in SCALARS}


def attributes_of(evidence: Any) -> dict[str, Any]:
    """Attributes of the whole and of the posterior."""
    return {
        "inference_library": "evidentia",
        "inference_library_version": version("evidentia"),
        "draws": "particles resampled systematically to equal weights",
        "ess_of_particles": evidence.ess,
        **{name: value for name, value in scalars_of(evidence).items() if value is not None},
        "completed": int(evidence.completed),  # netCDF has neither booleans nor None
        "method": str(evidence.method),
    }


def groups_of(weighted: Weighted, seed: int, log_likelihood: bool) -> dict[str, dict[str, ndarray]]:
    """Arrays by group and name, with chains and draws on the leading axes.

    Raises:
        ConfigurationError: log-likelihoods of a result without its model and data.
    """
    known, particles = weighted.model, weighted.chosen(seed)
    groups = {
        "posterior": {name: values[None, particles] for name, values in weighted.items()},
        "sample_stats": {
            "particle": particles[None],
            "log_weight": weighted.log_weights[None, particles],
        },
    }
    if known is None:
        if log_likelihood:
            raise ConfigurationError(
                "log_likelihood=True needs the model and its data in memory; got a result without them, such as a loaded one or "
                "one of an exact integral. Estimate it in this session."
            )
        return groups
    if weighted:
        prior = known.prior_draws(len(particles), seed)
        groups["prior"] = {name: values[None] for name, values in prior.items()}
        groups["log_prior"] = {"log_prior": weighted.log_prior[None, particles]}
    if observed := known.observed:
        groups["observed_data"] = dict(observed)
    if log_likelihood:
        groups["log_likelihood"] = {"observations": known.pointwise(particles)[None].astype(np.float32)}
    return groups
