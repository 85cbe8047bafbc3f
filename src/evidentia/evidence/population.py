"""Particles on their way, with what they have found so far: their log evidence and its variance."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia import weights
from evidentia.model import BoundModel

LAG = 4  # resamplings after which the descendants of one particle are taken to be independent


class Population(NamedTuple):
    """Particles, and what they have found so far.

    `log_evidence` sums the log increments, in float64 on the host; `log_weights` are the weights since the last
    resampling. `variance` is that of the log evidence up to there, `ancestors` (generations, particles) the particles that
    these descend from 1, 2, … up to `LAG` resamplings ago, and `counted` the part of the variance that was counted since
    the oldest of those. `memory` belongs to the gradient estimator.
    """

    key: Array
    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    log_evidence: float = 0.0
    variance: float = 0.0
    ancestors: Int[np.ndarray, "generations particles"] | tuple[()] = ()
    counted: float = 0.0
    memory: Any = None


def from_prior(model: BoundModel, key: Array, count: int) -> Population:
    """Particles drawn from the prior, with equal weights and a log evidence of zero."""
    key, key_prior = jax.random.split(key)
    return Population(key, model.sample_prior(key_prior, count), np.zeros(count))


def reweighted(population: Population, increments: Float[np.ndarray, " particles"]) -> Population:
    """The population after increments of its log weights, which count in its log evidence."""
    gained = weights.log_evidence_increment(population.log_weights, increments)
    return population._replace(
        log_weights=population.log_weights + increments, log_evidence=population.log_evidence + gained
    )


def log_evidence_variance(population: Population) -> float:
    """Estimated variance of the log evidence, in nats²: errors count with what they become within `LAG` resamplings.

    The stretch since the oldest remembered generation is seen as one, with the variance between its families; older
    stretches were counted as they were left behind. Source: Olsson and Douc (2019), Bernoulli 25, 1504 (the lag).
    """
    return max(0.0, population.variance + _families_variance(population) - population.counted)


def _families_variance(population: Population, skip: int = 0) -> float:
    log_weights, ancestors = population.log_weights, population.ancestors
    generations = len(ancestors) - skip
    if generations <= 0:
        return weights.relative_variance(log_weights)
    return weights.family_variance(log_weights, ancestors[generations - 1])


def resample_particles(population: Population, scheme: str) -> Population:
    """Equal weights, with what the variance of the log evidence needs to know of the particles' descent."""
    key, key_resample = jax.random.split(population.key)
    parents = np.asarray(weights.resample(key_resample, population.log_weights, scheme=scheme))
    earlier = [ancestors[parents] for ancestors in population.ancestors][: LAG - 1]
    is_full = len(population.ancestors) == LAG
    return population._replace(
        key=key,
        positions=population.positions[parents],
        log_weights=np.zeros_like(population.log_weights),
        variance=log_evidence_variance(population),
        ancestors=np.stack([parents, *earlier]),
        counted=_families_variance(population, skip=int(is_full)),
    )
