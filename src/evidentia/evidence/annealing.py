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
from jaxtyping import Float

from evidentia import weights
from evidentia.errors import EvidenceWarning
from evidentia.evidence.checks import check_defined, check_possible
from evidentia.evidence.population import Population, resample_particles
from evidentia.expansion import Expansion
from evidentia.gradients import FullBatch
from evidentia.kernels import METROPOLIS, SGHMC, Scale, posterior_scale
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.symmetry import Order, put_in_order, within
from evidentia.target import Target, log_target, prior_hessian

HARD_BOUNDARY = (
    "moves carried more than 5% of the particles to where rows already taken in have a log-likelihood of -inf: gradients "
    "do not see such a boundary, and the log evidence is too low. Parametrise the model so that its likelihood is "
    "positive everywhere."
)


class Moving(Protocol):
    """The fields of a method that a move reads; `SGAIS` documents them."""

    @property
    def resampling(self) -> str | None:
        """The scheme by which particles are resampled before a move (`weights.resample`); None for not at all."""
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
    def exact_kernel(self) -> Any:
        """Moves particles where gradients are exact, with Metropolis' correction; None for `kernel` there too."""
        ...


class Annealing(Moving, Protocol):
    """The fields of a method that the path reads."""

    @property
    def target_ess(self) -> float:
        """Effective sample size that reweighting keeps, as a fraction of the particles."""
        ...


class StepInfo(NamedTuple):
    """What a step shows of the path's health.

    `ess` after reweighting as a fraction of the particles; of the move, the largest `correlation` of a coordinate with
    itself before, and the gradient's share of the noise (`noise_share` of the kernel). NaN without a move.
    """

    ess: float
    correlation: float = float("nan")
    noise_share: float = float("nan")


def anneal(
    method: Annealing,
    model: BoundModel,
    population: Population,
    past: Rows,
    chunk: Rows,
    *,
    is_reverse: bool = False,
) -> tuple[Population, list[StepInfo]]:
    """Take in a chunk; `past` holds the rows of earlier chunks, which the moves' gradients draw on.

    In reverse the chunk is given back: particles of the posterior of past and chunk become those of the past alone, and
    the log evidence gains -log p(chunk | past).

    Raises EstimationError, which names the rows, if the log-likelihood is NaN or +inf at a particle or -inf at all.
    """
    done, infos = 0.0, []
    while done < 1.0:
        population, done, info = anneal_step(
            method, model, population, past, chunk, done, is_reverse=is_reverse
        )
        infos.append(info)
    return population, infos


def anneal_step(
    method: Annealing,
    model: BoundModel,
    population: Population,
    past: Rows,
    chunk: Rows,
    done: float,
    *,
    stop: float | None = None,
    is_reverse: bool = False,
) -> tuple[Population, float, StepInfo]:
    """One step of the path, and how far it is then: the temperature, or 1 - temperature in reverse.

    It reaches to `stop`; without it as far as the effective sample size allows.
    """
    population, done, log_weights = _reweight(
        method, model, population, chunk, done, stop, -1.0 if is_reverse else 1.0
    )
    info = StepInfo(weights.ess(population.log_weights) / len(population.log_weights))
    if method.resampling is None or done < 1.0 or info.ess < method.target_ess:
        target = Target(past, chunk, 1.0 - done if is_reverse else done)
        population, info = move_particles(method, model, population, log_weights, target, info)
    return population, done, info


def _reweight(
    method: Annealing,
    model: BoundModel,
    population: Population,
    chunk: Rows,
    done: float,
    stop: float | None,
    sign: float,
) -> tuple[Population, float, Float[np.ndarray, " particles"]]:
    """The population at the end of a step, where that is, and the log weights gained since the last move."""
    deviations, offset = log_likelihood_sums(model, population.positions, chunk)
    check_defined(deviations, chunk)
    check_possible(deviations, chunk)
    # Particles without weight were impossible before any move.
    if done > 0.0 and np.mean((deviations == -np.inf) & (population.log_weights > -np.inf)) > 0.05:
        warnings.warn(HARD_BOUNDARY, EvidenceWarning, stacklevel=6)
    deviations, offset = sign * deviations, sign * offset
    # Without resampling the ESS is that of the step alone, whatever weights were carried here, as published.
    carried = np.zeros_like(deviations) if method.resampling is None else population.log_weights
    if stop is None:
        stop = _next_stop(method, carried, deviations, done)
    increments = (stop - done) * deviations
    log_evidence = population.log_evidence + (stop - done) * offset
    log_evidence += weights.log_evidence_increment(population.log_weights, increments)
    log_weights = population.log_weights + increments
    moved = population._replace(log_weights=log_weights, log_evidence=log_evidence)
    return moved, stop, carried + increments


def _next_stop(method: Annealing, carried: np.ndarray, deviations: np.ndarray, done: float) -> float:
    target = method.target_ess * len(deviations)
    if method.resampling is None:
        return weights.next_temperature(carried, deviations, done, target)
    # Falling to half the target in one step is better than evaluating the chunk again after a move.
    stop = weights.next_temperature(carried, deviations, done, 0.5 * target)
    return stop if stop == 1.0 else weights.next_temperature(carried, deviations, done, target)


def move_particles(
    method: Moving,
    model: BoundModel,
    population: Population,
    log_weights: Float[np.ndarray, " particles"],
    target: Target,
    info: StepInfo,
) -> tuple[Population, StepInfo]:
    """Particles resampled, if the method says so, and moved under a target.

    `log_weights` are those gained since the last move: with them the particles show the target's centre and scale.
    """
    # The weighted particles say more of centre and scale than those resampled from them.
    normalised = np.exp(weights.normalise(log_weights))
    # Moves are as wide as the particles, which must not be spread over all orders of interchangeable components.
    is_published = method.resampling is None and isinstance(method.kernel, SGHMC)  # labels stay as they fall
    order = None
    if model.exchangeable and not is_published:
        positions, order = put_in_order(model, population.positions, normalised)
        population = population._replace(positions=positions)
    on_host = np.asarray(population.positions, np.float64)
    centre = jnp.asarray(normalised @ on_host, population.positions.dtype)
    prepared = method.gradient.prepare(model, population.memory, target, centre)
    precision = None if prepared.expansion is None else _precision(model, prepared.expansion)
    num_observations = target.past.num_observations + target.chunk.size
    scale = posterior_scale(on_host, normalised, precision, num_observations)
    if method.resampling is not None:
        population = resample_particles(population, method.resampling)
    key, key_move = jax.random.split(population.key)
    is_exact = isinstance(prepared.config, FullBatch)
    kernel = method.exact_kernel if is_exact and method.exact_kernel is not None else method.kernel
    if isinstance(kernel, METROPOLIS):
        positions, correlation = exact_move(
            model, kernel, key_move, population.positions, prepared.target, scale, order
        )
        noise, noise_share = 0.0, 0.0
    else:
        positions, noise, noise_share, correlation = move(
            model,
            kernel,
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


def exact_move(model, kernel, key, positions, target: Target, scale: Scale, order: Order | None = None):
    """Move the particles by a kernel that takes the exact log density; also how much of its place a particle remembers.

    Interchangeable components that were put in an order stay in it.
    """
    is_log = None if order is None else order.is_log
    spread = None if order is None else (order.mean, order.variance)
    return _exact_move(model, kernel, is_log, key, positions, target, scale, spread)


@partial(jax.jit, static_argnames=("model", "kernel", "is_log"))
def _exact_move(model, kernel, is_log, key, positions, target, scale, spread):
    density = log_target(model, target)
    if spread is not None:
        mean, variance = spread
        density = within(model, Order(mean, variance, is_log), density)
    moved = kernel.move(key, positions, density, scale)
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
