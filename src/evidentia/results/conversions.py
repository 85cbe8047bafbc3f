"""Results as objects of other packages, which are imported when they are asked for."""

from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from evidentia.errors import ConfigurationError
from evidentia.evidence.nested_sampling import NestedSampling

NUM_CHAINS = 16  # blocks of independent draws, of which harmonic takes some to learn and some to estimate


def to_anesthetic(evidence: Any) -> Any:
    """See `Evidence.to_anesthetic`."""
    package = _imported("anesthetic", "anesthetic")
    weighted, method = evidence.weighted, evidence.method
    log_likelihood = np.asarray(weighted.log_likelihood, np.float64)
    if isinstance(method, NestedSampling) and method.ending == "live_points" and evidence.completed:
        order = np.argsort(log_likelihood, kind="stable")
        settings = method.settings
        births = births_of(log_likelihood[order], settings.num_particles, settings.num_removed)
        return package.NestedSamples(
            weighted.samples[order],
            columns=weighted.columns,
            logL=log_likelihood[order],
            logL_birth=births,
            label=evidence.model_name,
        )
    return package.Samples(
        weighted.samples,
        columns=weighted.columns,
        weights=np.exp(weighted.log_weights),
        logL=log_likelihood,
        label=evidence.model_name,
    )


def births_of(
    deaths: Float[np.ndarray, " points"], num_live: int, num_removed: int
) -> Float[np.ndarray, " points"]:
    """Log-likelihoods at which points of a nested sampling run were born, for sorted deaths.

    The first points are draws from the prior; then as many as are removed at a time are born at
    each contour, the death of the last one removed. Which of them dies when is not kept, and the
    numbers of live points, which weights and evidence depend on, do not need it: births are
    assigned in order.
    """
    later = np.arange(len(deaths) - num_live)
    contours = deaths[(later // num_removed + 1) * num_removed - 1]
    return np.concatenate([np.full(len(deaths) - len(later), -np.inf), contours])


def to_harmonic(evidence: Any) -> Any:
    """See `Evidence.to_harmonic`."""
    chains = _imported("harmonic.chains", "harmonic")
    weighted = evidence.weighted
    chosen = weighted.chosen(evidence.seed)
    chosen = chosen[: len(chosen) // NUM_CHAINS * NUM_CHAINS]
    if len(chosen) == 0:
        raise ConfigurationError(
            f"to_harmonic needs at least {NUM_CHAINS} particles; got {evidence.num_particles}."
        )
    log_joint = np.asarray(weighted.log_likelihood, np.float64) + weighted.log_prior
    made = chains.Chains(len(weighted.columns))
    made.add_chains_2d(weighted.samples[chosen].astype(np.float64), log_joint[chosen], NUM_CHAINS)
    return made


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, package):
            raise
        raise ConfigurationError(
            f"to_{package} needs the package {package}, which is not installed: pip install {package}."
        ) from None
