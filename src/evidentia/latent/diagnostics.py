"""Signs that a fit of a latent-variable model is wrong: its steps, its weights, its log evidence.

Each sign has a name, a threshold and a sentence that says what to do. The last check of a log
evidence is a second estimate at the last θ, by importance sampling about the mode of the latent
variables, which shares neither the path nor the particles.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from evidentia import weights
from evidentia.evidence.method import Diagnosis
from evidentia.evidence.population.warning_signs import MIN_ESS
from evidentia.latent.importance import MIN_EFFECTIVE, NUM_SEARCHES, Sample, about_the_mode
from evidentia.latent.problem import Problem
from evidentia.latent.result import LatentTrajectory
from evidentia.latent.start import Start, from_prior
from evidentia.weights import MAX_PARETO_SHAPE

MAX_SHARE = 0.5  # of the stable curvature without weights: then the variance of x is twice too large
LEAST_VARIANCE = 0.9  # of the particles without weights, relative to the posterior's
MIN_FAMILIES = 2.0  # effective number; with fewer the standard error is close to its bound, one
LARGEST = 1000  # latent variables with a second estimate, which needs a matrix of their squared number
MAX_DISTANCE = 3.0  # of the two estimates, in joint standard errors,
LEAST_DISTANCE = 0.1  # and in nats
MAX_RISE = 1.0  # nats in the last quarter of the steps


def of_steps(shares: Sequence[float], has_weights: bool, short_steps: float) -> Diagnosis:
    """Whether the steps are stable, from their curvature's shares of the largest stable one.

    `short_steps` is the variance of the particles over that of the posterior for short steps.
    """
    known = [share for share in shares if not math.isnan(share)]
    largest = max(known, default=math.nan)
    found = {}
    if largest >= 1:
        found["unstable steps"] = (
            f"the curvature of log_joint at the particles is {largest:.2g} times the largest at which steps of this size are stable: the "
            f"particles diverge. Divide step_size by {2 * largest:.2g} or more, or rescale the latent variables."
        )
    elif largest > MAX_SHARE and not has_weights:
        found["long steps"] = (
            f"the curvature of log_joint at the particles is {largest:.2g} of the largest at which steps of this size are stable: the variance "
            f"of the particles is up to {1 / (1 - largest):.2g} times that of the posterior. Take a smaller step_size."
        )
    if short_steps < LEAST_VARIANCE:
        found["narrow particles"] = (
            f"friction * step_size is so large that the variance of the particles is {short_steps:.2g} of that of the posterior. Take a "
            "smaller step_size or friction."
        )
    if len(known) < len(shares):
        found["curvature unknown"] = (
            "some particles, or the curvature of log_joint there, are not finite, so it is not known whether the steps are "
            "stable. Take a smaller step_size, or check log_joint."
        )
    return Diagnosis({"step_share": largest}, found)


def of_weights(path: LatentTrajectory, start: Start, count: int) -> Diagnosis:
    """Whether the log evidence rests on enough particles and has stopped rising."""
    variance = path.standard_error[-1] ** 2 - start.variance
    quarter = -(-(len(path) - 1) // 4)
    measured = {
        "smallest_ess": float(path.ess.min()),
        "num_families": float(1 / (variance + 1 / count)),
        "pareto_shape": start.pareto_shape,
        "num_modes": float(start.num_modes),
        "rise": float(path.log_evidence_gain[-1] - path.log_evidence_gain[-1 - quarter]),
    }
    return Diagnosis(measured, _signs_of_weights(measured, path.standard_error[-1]))


def _signs_of_weights(measured: Mapping[str, float], standard_error: float) -> dict[str, str]:
    found = {}
    if measured["smallest_ess"] < MIN_ESS:
        found["ESS collapsed"] = (
            f"the effective sample size fell to {100 * measured['smallest_ess']:.0f}% of the particles: the log evidence rests on a few of them. Use "
            "more particles, a smaller step_size, an optimizer with a smaller learning rate, or target_ess=0.9."
        )
    if not measured["num_families"] >= MIN_FAMILIES:
        found["few families"] = (
            f"the particles descend from an effective number of {measured['num_families']:.1f} initial ones: neither the log evidence nor its "
            "standard error is known. Use more particles, a smaller step_size, or an optimizer with a smaller learning rate."
        )
    if measured["pareto_shape"] > MAX_PARETO_SHAPE:
        found["heavy weights"] = (
            f"the importance weights at theta0 have a Pareto shape of {measured['pareto_shape']:.2f}: log Z(theta0) may be too low by more than its "
            "standard error. Give particles0, draws of the posterior given theta0, and log_evidence0."
        )
    if measured["num_modes"] > 1:
        found["several modes"] = several_modes(int(measured["num_modes"]))
    if measured["rise"] > max(MAX_RISE, MAX_DISTANCE * standard_error):
        found["not converged"] = (
            f"the log evidence rose by {measured['rise']:.1f} nats in the last quarter of the steps: theta is not yet at the maximum. Use more "
            "steps, or an optimizer with a larger learning rate."
        )
    return found


def of_second_estimate(
    problem: Problem, thetas: tuple[Any, Any], near: tuple[Array, Array], path: LatentTrajectory, key: Array
) -> Diagnosis:
    """Whether the log evidence agrees with a second estimate.

    `thetas` and `near` are the first and last θ and particles of each. If log Z(θ₀) is unknown,
    the gains are compared.
    """
    keys = jax.random.split(key)
    sample = _sample(problem, thetas[1], near[1], keys[1])
    second, variance = _log_evidence(sample)
    first = path.log_evidence[-1]
    if math.isnan(first):
        begin, more = _log_evidence(_sample(problem, thetas[0], near[0], keys[0]))
        first, second, variance = path.log_evidence_gain[-1], second - begin, variance + more
    measured = {
        "second_estimate": second,
        "second_standard_error": math.sqrt(variance),
        "distance": float(abs(first - second)),
    }
    error = math.hypot(path.standard_error[-1], math.sqrt(variance))
    if sample is not None and sample.num_modes > 1:
        return Diagnosis(measured, {"several modes": several_modes(sample.num_modes)})
    if math.isnan(second):
        sentence = (
            "the log evidence cannot be compared with importance sampling about the mode of the latent variables, which fails: "
            "there are too many, or their posterior is not like a Gaussian. Compare with other numbers of particles and step sizes."
        )
        return Diagnosis(measured, {"unchecked": sentence})
    if not measured["distance"] <= max(LEAST_DISTANCE, MAX_DISTANCE * error):
        sentence = (
            f"importance sampling about the mode of the latent variables gives {second:,.2f} ± {math.sqrt(variance):.2g} nats, and the particles "
            f"{first:,.2f} ± {path.standard_error[-1]:.2g}: theta follows the noise of too few particles, or these did not start in the posterior, or "
            "it has other modes. Use more particles, or a smaller step_size."
        )
        return Diagnosis(measured, {"second estimate differs": sentence})
    return Diagnosis(measured)


def _sample(problem: Problem, theta: Any, near: Array, key: Array) -> Sample | None:
    """Draws about the mode found by searches from particles and from draws of any prior."""
    if near.shape[1] > LARGEST:
        return None
    key_prior, key_draws = jax.random.split(key)
    starts = [near[np.linspace(0, len(near) - 1, NUM_SEARCHES // 2).astype(int)]]
    if problem.model.sample_prior is not None:
        starts.append(from_prior(problem.model, theta, problem.data, NUM_SEARCHES // 2, key_prior).positions)
    return about_the_mode(problem, theta, jnp.concatenate(starts), key_draws)


def _log_evidence(sample: Sample | None) -> tuple[float, float]:
    """Log Z(θ) in nats and its variance; NaN if the weights do not tell."""
    if (
        sample is None
        or weights.ess(sample.log_weights) < MIN_EFFECTIVE
        or weights.pareto_shape(sample.log_weights) > MAX_PARETO_SHAPE
    ):
        return math.nan, math.nan
    return sample.log_evidence()


def several_modes(count: int) -> str:
    """The sentence on a posterior of the latent variables with several modes."""
    return (
        f"the posterior of the latent variables has at least {count} modes: the particles may be about some of them only, and the log "
        "evidence too low. Give particles0, draws of the posterior given theta0, and log_evidence0; or reparametrize so that one mode is left."
    )
