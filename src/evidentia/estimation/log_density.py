"""`bridge_sampling_of`: the evidence from a log density in NumPy and its draws, such as Stan's."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from evidentia.errors import (
    ConfigurationError,
    DiagnosticWarning,
    EstimationError,
    attempt,
    check_count,
    check_seed,
    warn,
)
from evidentia.evidence.bridge.diagnosis import diagnose
from evidentia.evidence.bridge.given import merged
from evidentia.evidence.bridge.halves import bridge_halves, check_enough, combined
from evidentia.evidence.bridge.warp import Chains, Target
from evidentia.evidence.bridge_sampling import BridgeSampling
from evidentia.evidence.method import Estimate
from evidentia.evidence.population.particles import host_generator
from evidentia.results.result import Evidence
from evidentia.results.weighted import evenly_weighted
from evidentia.system.sharing import check_not_forked
from evidentia.trajectory import trajectory_of

SAME = 1e-3  # nats; largest deviation of lp from the log density, less a constant, for most draws

LogDensity = Callable[[np.ndarray], Any]


def bridge_sampling_of(
    log_density: LogDensity,
    draws: Any,
    *,
    num_observations: int,
    lp: Any = None,
    name: str = "model",
    num_particles: int = 4000,
    seed: int = 0,
) -> Evidence:
    """The log evidence from a log density of real numbers and draws of it, as `BridgeSampling`.

    For models of other programs, such as Stan: neither a prior nor JAX is needed, only the log of
    the posterior density times the evidence,

        log_density(u) = log p(D | θ) + log p(θ) + log |det ∂θ/∂u|,        θ = T(u),

    with every constant of p(D | θ) and p(θ): the evidence is the integral of its exponential.

    Args:
        log_density: a function of positions u (n, parameters), float64, that returns n numbers in
            nats, -inf where the density is zero.
        draws: posterior draws of u, on the unconstrained scale: (draws, parameters) or (chains,
            draws, parameters).
        num_observations: rows of the data, which `compare` compares.
        lp: Stan's `lp__` of the draws, (draws,) or (chains, draws), if at hand. It may lack
            constants, but must otherwise be the log density at the draws.
        name: the name shown in results.
        num_particles: number of draws of the fitted densities, as for `BridgeSampling`.
        seed: the same seed gives the same numbers.

    Returns:
        The log evidence, with the draws as its posterior, under the name `unconstrained`.

    Raises:
        ConfigurationError: an argument is out of range, the draws are too few, or the density at a
            draw is zero or not that which `lp` says.
        ModelError: `log_density` failed, or returned another shape.
        EstimationError: the iteration does not converge, the draws' covariance is singular, or
            `log_density` is NaN or +inf somewhere.

    Example:
        >>> def log_density(u):  # of 1/2 N(0, 1)
        ...     return np.log(0.5) - 0.5 * u[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
        >>> draws = np.random.default_rng(0).normal(size=(4, 1000, 1))
        >>> found = ev.bridge_sampling_of(log_density, draws, num_observations=1)  # doctest: +SKIP
        >>> found.log_evidence  # log(1/2) is -0.693  # doctest: +SKIP
        -0.693

    Source: as `BridgeSampling`.
    """
    started = time.perf_counter()
    check_count("num_observations", num_observations, 1)
    check_not_forked()
    check_seed(seed)
    if not callable(log_density):
        raise ConfigurationError(
            f"log_density must be a function (n, parameters) -> (n,); got {log_density!r}."
        )
    chains = _chains(draws)
    method = BridgeSampling({"unconstrained": chains}, num_particles)
    target = Target(partial(_checked, log_density))
    _check_at_draws(target, chains, lp)
    generator = host_generator(jax.random.key(int(seed)))
    halves = list(bridge_halves(target, chains, generator, num_particles))
    estimate = Estimate(*combined(halves), is_unbiased=False)
    diagnosis = diagnose(halves, chains)
    seconds = time.perf_counter() - started
    entry = SimpleNamespace(
        num_observations=num_observations,
        log_evidence=estimate.log_evidence,
        standard_error=estimate.standard_error,
        num_annealing_steps=len(halves),
        seconds=seconds,
    )
    evidence = Evidence(
        log_evidence=estimate.log_evidence,
        standard_error=estimate.standard_error,
        num_observations=int(num_observations),
        trajectory=trajectory_of([entry]),
        weighted=evenly_weighted({"unconstrained": merged(chains)}, chains[..., 0].size),
        method=method,
        model_name=name,
        seed=int(seed),
        seconds=seconds,
        diagnostics={**diagnosis.measured, "warnings": "; ".join(diagnosis.signs)},
        signs={sign: f"{name}: {sentence}" for sign, sentence in diagnosis.signs.items()},
    )
    warn(evidence.signs.values(), DiagnosticWarning)
    return evidence


def _chains(draws: Any) -> Chains:
    """The draws as (chains, draws, parameters)."""
    found = np.asarray(draws)
    if found.dtype.kind not in "fiu" or found.ndim not in (2, 3) or not found.size:
        raise ConfigurationError(
            "draws must be an array (draws, parameters) or (chains, draws, parameters) of unconstrained values; got "
            f"{type(draws).__name__} of shape {found.shape} and {found.dtype}."
        )
    if not np.isfinite(found).all():
        raise ConfigurationError(
            f"draws must be finite; {int((~np.isfinite(found)).sum()):,} values of {found.size:,} are not."
        )
    chains = found.astype(np.float64).reshape(-1, *found.shape[-2:])
    check_enough(chains, "draws")
    return chains


def _checked(log_density: LogDensity, positions: np.ndarray) -> Float[np.ndarray, " draws"]:
    found = attempt("log_density", lambda: np.asarray(log_density(positions), np.float64))
    if found.shape != (len(positions),):
        raise ConfigurationError(
            f"log_density must return one number for each of {len(positions)} positions; got shape {found.shape}."
        )
    if bad := int(np.sum(np.isnan(found) | (found == np.inf))):
        raise EstimationError(
            f"log_density is NaN or +inf at {bad:,} of {len(positions):,} positions; it must be finite, or -inf where the "
            "density is zero."
        )
    return found


def _check_at_draws(target: Target, chains: Chains, lp: Any) -> None:
    """Raise ConfigurationError for draws that are not draws of the density."""
    found = target.log_density(merged(chains))
    if (impossible := int(np.sum(found == -np.inf))) > 0:
        raise ConfigurationError(
            f"draws must be of log_density; the density is zero at {impossible:,} of {len(found):,}."
        )
    if lp is None:
        return
    given = np.asarray(lp)
    if (
        given.dtype.kind not in "fiu"
        or given.size != len(found)
        or given.shape not in (chains.shape[:2], found.shape)
    ):
        raise ConfigurationError(
            f"lp must be one number for each of the draws {chains.shape[:2]}; got shape {given.shape} of {given.dtype}."
        )
    differences = found - given.ravel()
    apart = float(np.quantile(np.abs(differences - np.median(differences)), 0.9))
    tolerance = SAME + 1e-5 * float(np.ptp(found))  # files have a few digits
    if not apart <= tolerance:
        raise ConfigurationError(
            f"lp must be log_density at the draws, up to a constant; they differ by {apart:.2g} nats more at some than at "
            "others. Check the order of the parameters, and that log_density has the Jacobian."
        )
