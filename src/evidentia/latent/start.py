"""Initial particles, from the prior or from the posterior given θ₀, with its log evidence."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from evidentia import weights
from evidentia.errors import EstimationError
from evidentia.latent.importance import MIN_EFFECTIVE, NUM_DRAWS, NUM_SEARCHES, about_the_mode
from evidentia.latent.model import LatentModel
from evidentia.latent.problem import Positions, Problem

ADVICE = "Give particles0, draws of the posterior given theta0, and log_evidence0 if known."


class Start(NamedTuple):
    """Where a fit begins.

    Attributes:
        positions: flat particles.
        example: one of them with its structure.
        log_evidence: log Z(θ₀) in nats, NaN if unknown.
        variance: of `log_evidence`, in nats².
        pareto_shape: of the importance weights that gave the particles; NaN without any.
        num_modes: of the posterior given θ₀, of which the particles are about one.
    """

    positions: Positions
    example: Any
    log_evidence: float = float("nan")
    variance: float = 0.0
    pareto_shape: float = float("nan")
    num_modes: int = 1


def from_prior(model: LatentModel, theta: Any, data: Any, count: int, key: Array) -> Start:
    """Independent draws of the latent variables given θ."""
    assert model.sample_prior is not None
    draws = [model.sample_prior(one, theta, data) for one in jax.random.split(key, count)]
    return Start(jnp.stack([ravel_pytree(x)[0] for x in draws]), draws[0])


def from_laplace(model: LatentModel, theta: Any, data: Any, count: int, key: Array) -> Start:
    """Posterior draws given θ, with the log evidence, by importance sampling about the mode.

    Raises EstimationError if no mode is found, or if the effective sample size is too small.
    """
    key_prior, key_draws, key_resample = jax.random.split(key, 3)
    start = from_prior(model, theta, data, NUM_SEARCHES, key_prior)
    sample = about_the_mode(Problem(model, start.example, data), theta, start.positions, key_draws)
    if sample is None:
        raise EstimationError(
            f"no mode of the latent variables given theta0 was found: where the searches ended, the log joint density is not "
            f"strictly concave. {ADVICE}"
        )
    if weights.ess(sample.log_weights) < MIN_EFFECTIVE:
        raise EstimationError(
            f"importance sampling about the mode of the latent variables given theta0 has an effective sample size of {weights.ess(sample.log_weights):.0f} "
            f"of {NUM_DRAWS} draws, which is too few. {ADVICE}"
        )
    parents = np.asarray(weights.resample(key_resample, sample.log_weights, count))
    positions = jnp.asarray(sample.draws[parents], jnp.float32)
    shape = weights.pareto_shape(sample.log_weights)
    return Start(positions, start.example, *sample.log_evidence(), shape, sample.num_modes)
