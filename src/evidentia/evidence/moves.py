"""Moves of the particles of a path: which kernel, with which gradient, how wide, and what it showed."""

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.evidence.population import Population, resample_particles, reweighted
from evidentia.expansion import Expansion
from evidentia.gradients import FullBatch
from evidentia.kernels import METROPOLIS, SGHMC, WEIGHTED, Scale, posterior_scale
from evidentia.model import BoundModel
from evidentia.symmetry import Order, put_in_order, within
from evidentia.target import Target, expand, expand_target, log_target, prior_hessian


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


class StepInfo(NamedTuple):
    """What a step shows of the path's health.

    `ess` after reweighting as a fraction of the particles; of the move, the largest `correlation` of a coordinate with
    itself before, and the gradient's share of the noise (`noise_share` of the kernel). NaN without a move.
    """

    ess: float
    correlation: float = float("nan")
    noise_share: float = float("nan")


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
    is_exact = isinstance(prepared.config, FullBatch)
    kernel = method.exact_kernel if is_exact and method.exact_kernel is not None else method.kernel
    expansion = prepared.expansion
    if expansion is None and isinstance(kernel, WEIGHTED):
        # The covariance of the very particles that move would bias their weights.
        expansion = expand_target(model, expand(model, centre, target.past), target)
    precision = None if expansion is None else negative_hessian(model, expansion)
    num_observations = target.past.num_observations + target.chunk.size
    scale = posterior_scale(on_host, normalised, precision, num_observations)
    if method.resampling is not None:
        population = resample_particles(population, method.resampling)
    key, key_move = jax.random.split(population.key)
    if isinstance(kernel, WEIGHTED):
        positions, gained, correlation = weighted_move(
            model, kernel, key_move, population.positions, prepared.target, scale, order
        )
        population = reweighted(population, np.asarray(gained, np.float64))
        noise, noise_share = 0.0, 0.0
    elif isinstance(kernel, METROPOLIS):
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
    return _exact_move(model, kernel, key, positions, target, scale, *_parts(order))


def weighted_move(model, kernel, key, positions, target: Target, scale: Scale, order: Order | None = None):
    """As `exact_move`, by a kernel whose moves add to the log weights; what they add stands second."""
    return _weighted_move(model, kernel, key, positions, target, scale, *_parts(order))


def _parts(order: Order | None):
    return (None, None) if order is None else (order.is_log, (order.mean, order.variance))


def _log_density(model, target, is_log, spread):
    density = log_target(model, target)
    if spread is None:
        return density
    mean, variance = spread
    return within(model, Order(mean, variance, is_log), density)


@partial(jax.jit, static_argnames=("model", "kernel", "is_log"))
def _exact_move(model, kernel, key, positions, target, scale, is_log, spread):
    moved = kernel.move(key, positions, _log_density(model, target, is_log, spread), scale)
    return moved, largest_correlation(positions, moved)


@partial(jax.jit, static_argnames=("model", "kernel", "is_log"))
def _weighted_move(model, kernel, key, positions, target, scale, is_log, spread):
    moved, gained = kernel.move(key, positions, _log_density(model, target, is_log, spread), scale)
    return moved, gained, largest_correlation(positions, moved)


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
    return moved, noise, kernel.noise_share(differences, scale), largest_correlation(positions, moved)


def largest_correlation(before, after):
    """Of any coordinate of the particles with itself, before and after a move."""
    before, after = before - before.mean(0), after - after.mean(0)
    scale = jnp.sqrt(jnp.mean(before**2, 0) * jnp.mean(after**2, 0))
    return jnp.max(jnp.mean(before * after, 0) / jnp.maximum(scale, jnp.finfo(before.dtype).tiny))


def negative_hessian(model: BoundModel, expansion: Expansion) -> np.ndarray:
    """The negative Hessian of the log-posterior at the expansion's centre, in float64."""
    hessian = expansion.hessian + prior_hessian(model, expansion.centre)
    return -np.asarray(hessian, np.float64)
