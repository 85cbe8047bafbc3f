"""The annealed path: reweight by a tempered chunk, resample where the weights are uneven, move.

Particles θᵢ with weights wᵢ represent the posterior of the rows so far. A chunk is taken in over temperatures
0 < λ₁ < … < 1, chosen so that the effective sample size does not fall below its target,

    wᵢ ← wᵢ p(chunk | θᵢ)^Δλ,        log Ẑ ← log Ẑ + log Σ Wᵢ p(chunk | θᵢ)^Δλ.

Source: Cameron, Eggers, Kroon (2019), Entropy 21(11), 1109, Eq. 2 to 4; Chopin (2002), Biometrika 89, 539.
"""

import warnings
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia import weights
from evidentia.errors import EstimationError, EvidenceWarning
from evidentia.gradients import FullBatch
from evidentia.kernels import HMC, Scale, posterior_scale
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.symmetry import relabel
from evidentia.target import Expansion, Target, log_target, prior_hessian

LAG = 4  # resamplings after which the descendants of one particle are taken to be independent

HARD_BOUNDARY = (
    "moves carried more than 5% of the particles to where rows already taken in have a log-likelihood of -inf: gradients "
    "do not see such a boundary, and the log evidence is too low. Parametrise the model so that its likelihood is "
    "positive everywhere."
)


class Annealing(Protocol):
    """The fields of a method that the path reads; `SGAIS` documents them."""

    @property
    def target_ess(self) -> float:
        """Effective sample size that reweighting keeps, as a fraction of the particles."""
        ...

    @property
    def resample(self) -> bool:
        """Whether particles are resampled before a move."""
        ...

    @property
    def kernel(self) -> Any:
        """Moves particles along gradient estimates."""
        ...

    @property
    def gradient(self) -> Any:
        """Estimates gradients, and says when they are exact."""
        ...

    @property
    def exact_kernel(self) -> HMC | None:
        """Moves particles where gradients are exact, with Metropolis' correction."""
        ...


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


class StepInfo(NamedTuple):
    """What a step shows of the path's health.

    `ess` after reweighting as a fraction of the particles; of the move, the largest `correlation` of a coordinate with
    itself before, and the gradient's share of the noise (`noise_share` of the kernel). NaN without a move.
    """

    ess: float
    correlation: float = float("nan")
    noise_share: float = float("nan")


def anneal(
    method: Annealing, model: BoundModel, population: Population, past: Rows, chunk: Rows
) -> tuple[Population, list[StepInfo]]:
    """Take in a chunk; `past` holds the rows of earlier chunks, which the moves' gradients draw on.

    Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a particle or -inf at all.
    """
    temperature, infos = 0.0, []
    while temperature < 1.0:
        population, temperature = _reweight(method, model, population, chunk, temperature)
        info = StepInfo(weights.ess(population.log_weights) / len(population.log_weights))
        if not method.resample or temperature < 1.0 or info.ess < method.target_ess:
            population, info = _move(method, model, population, Target(past, chunk, temperature), info)
        infos.append(info)
    return population, infos


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


def _resample(population: Population) -> Population:
    key, key_resample = jax.random.split(population.key)
    parents = np.asarray(weights.resample(key_resample, population.log_weights))
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


def _reweight(
    method: Annealing, model: BoundModel, population: Population, chunk: Rows, temperature: float
) -> tuple[Population, float]:
    deviations, offset = log_likelihood_sums(model, population.positions, chunk)
    _check_log_likelihoods(deviations, chunk)
    if temperature > 0.0 and np.mean(deviations == -np.inf) > 0.05:
        warnings.warn(HARD_BOUNDARY, EvidenceWarning, stacklevel=5)
    target = method.target_ess * len(deviations)
    if not method.resample:
        # As published, the ESS is that of the step alone, whatever weights were carried here.
        stop = weights.next_temperature(np.zeros_like(deviations), deviations, temperature, target)
    else:
        # Falling to half the target in one step is better than evaluating the chunk again after a move.
        stop = weights.next_temperature(population.log_weights, deviations, temperature, 0.5 * target)
        if stop < 1.0:
            stop = weights.next_temperature(population.log_weights, deviations, temperature, target)
    step = stop - temperature
    increments = step * deviations
    log_evidence = population.log_evidence + step * offset
    log_evidence += weights.log_evidence_increment(population.log_weights, increments)
    log_weights = population.log_weights + increments
    return population._replace(log_weights=log_weights, log_evidence=log_evidence), stop


def _move(
    method: Annealing, model: BoundModel, population: Population, target: Target, info: StepInfo
) -> tuple[Population, StepInfo]:
    # The weighted particles say more of centre and scale than those resampled from them.
    normalised = np.exp(weights.normalise(population.log_weights))
    if model.exchangeable and method.resample:  # as published, labels stay as they fall
        population = population._replace(positions=relabel(model, population.positions, normalised))
    on_host = np.asarray(population.positions, np.float64)
    centre = jnp.asarray(normalised @ on_host, population.positions.dtype)
    prepared = method.gradient.prepare(model, population.memory, target, centre)
    precision = None if prepared.expansion is None else _precision(model, prepared.expansion)
    scale = posterior_scale(on_host, normalised, precision, target.past.size + target.chunk.size)
    if method.resample:
        population = _resample(population)
    key, key_move = jax.random.split(population.key)
    if method.exact_kernel is not None and isinstance(prepared.config, FullBatch):
        positions, correlation = exact_move(
            model, method.exact_kernel, key_move, population.positions, prepared.target, scale
        )
        noise, noise_share = 0.0, 0.0
    else:
        positions, noise, noise_share, correlation = move(
            model,
            method.kernel,
            prepared.config,
            key_move,
            population.positions,
            prepared.target,
            prepared.expansion,
            scale,
        )
    memory = method.gradient.adapt(prepared.memory, float(noise))
    info = info._replace(correlation=float(correlation), noise_share=float(noise_share))
    return population._replace(key=key, positions=positions, memory=memory), info


@partial(jax.jit, static_argnames=("model", "kernel"))
def exact_move(model, kernel: HMC, key, positions, target: Target, scale: Scale):
    """Move the particles by a kernel that takes the exact log density; also how much of its place a particle remembers."""
    moved = kernel.move(key, positions, log_target(model, target), scale)
    return moved, _largest_correlation(positions, moved)


@partial(jax.jit, static_argnames=("model", "kernel", "gradient"))
def move(model, kernel, gradient, key, positions, target, expansion, scale: Scale):
    """Move the particles; also the noise of the gradient and how much of its place a particle remembers.

    The noise is half the mean square of the difference between two estimates at the same particles, a few of them, in
    whitened coordinates.
    """
    estimator = gradient.estimator(model, target, expansion)
    key_first, key_second, key_move = jax.random.split(key, 3)
    few = positions[:32]
    differences = estimator(key_first, few) - estimator(key_second, few)
    noise = 0.5 * jnp.mean((differences @ scale.factor) ** 2)
    moved = kernel.move(key_move, positions, estimator, scale)
    return moved, noise, kernel.noise_share(differences, scale), _largest_correlation(positions, moved)


def _largest_correlation(before, after):
    before, after = before - before.mean(0), after - after.mean(0)
    scale = jnp.sqrt(jnp.mean(before**2, 0) * jnp.mean(after**2, 0))
    return jnp.max(jnp.mean(before * after, 0) / jnp.maximum(scale, jnp.finfo(before.dtype).tiny))


def _precision(model: BoundModel, expansion: Expansion) -> np.ndarray:
    """The negative Hessian of the log-posterior at the expansion's centre, in float64."""
    hessian = expansion.hessian + prior_hessian(model, expansion.centre)
    return -np.asarray(hessian, np.float64)


def _check_log_likelihoods(deviations: np.ndarray, chunk: Rows) -> None:
    rows = f"rows {chunk.start} to {chunk.stop - 1}"
    count = len(deviations)
    if bad := int(np.sum(np.isnan(deviations))):
        raise EstimationError(
            f"the log-likelihood of {rows} is NaN or +inf at {bad} of {count} particles; it must be finite, or -inf "
            "where the parameters rule the data out. Check the likelihood for overflow, log(0) - log(0), or parameters "
            "outside their support."
        )
    if np.all(deviations == -np.inf):
        raise EstimationError(
            f"the log-likelihood of {rows} is -inf at all {count} particles: under every parameter value drawn the "
            "data are impossible. Widen the prior, use more particles, or check the data against the model."
        )
