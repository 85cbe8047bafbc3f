"""Moves of the particles along a path: the kernel, its gradient and scale, and diagnostics."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.evidence.population.particles import (
    Population,
    host_generator,
    resample_particles,
    reweighted,
    split_key,
)
from evidentia.evidence.population.transitions import (
    LEAST_ACCEPTED,
    fitted_jumps,
    jumped,
    largest_correlation,
    move,
)
from evidentia.kernels import Kernel, Scale, posterior_scale
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import FullBatch, Prepared
from evidentia.posterior.symmetry import Centre, fold
from evidentia.posterior.target import Target, expand_prior, expand_target
from evidentia.system.interruption import check

CORRELATED = 0.3  # lag-one autocorrelation above which particles are moved again, if rows are few
MOST_MOVES = 32  # half of them jumps


class PathSettings(NamedTuple):
    """Settings of a path; the methods have these fields too and document them.

    Attributes:
        target_ess: effective sample size that reweighting keeps, as a fraction of the particles.
        kernel: the move.
        gradient: the gradient estimator, for kernels that need one.
        exact_kernel: the move if the gradient is exact, so that the density is available; None to
            use `kernel` always.
        resampling: the resampling scheme before a move; None for no resampling.
        moves_each_step: whether particles are moved, and resampled before, in every step, also
            where their weights are even; without resampling they always are.
        is_repeating: whether to move by an exact kernel until the particles are decorrelated,
            while rows are few.
        chain_length: states kept of each chain that starts at a resampled particle. If 1, every
            particle is moved once and only where it arrives is kept.
    """

    target_ess: float
    kernel: Kernel
    gradient: Any = FullBatch()
    exact_kernel: Kernel | None = None
    resampling: str | None = None
    moves_each_step: bool = False
    is_repeating: bool = False
    chain_length: int = 1

    @property
    def is_always_moving(self) -> bool:
        """Whether every step moves the particles."""
        return self.resampling is None or self.moves_each_step


class StepInfo(NamedTuple):
    """Diagnostics of a step; NaN without a move.

    Attributes:
        ess: effective sample size after reweighting, as a fraction of the particles.
        correlation: the largest lag-one autocorrelation of a coordinate over the moves.
        num_moves: moves in a row, at most `MOST_MOVES`, or fewer with many rows or parameters.
        noise_share: the gradient's share of the noise (`GradientKernel.noise_share`).
        lost: fraction of the particles that earlier moves carried to where processed rows have
            zero likelihood.
        drift, drift_variance: change of the increment by the moves before (`path.drift_of`).
    """

    ess: float
    correlation: float = math.nan
    noise_share: float = math.nan
    lost: float = 0.0
    num_moves: int = 0
    drift: float = 0.0
    drift_variance: float = 0.0


class ReadyMove(NamedTuple):
    """A kernel with what it needs to move particles, and a scale for each half or for all."""

    kernel: Kernel
    prepared: Prepared
    scales: list[Scale]
    folded_to: Centre | None


def move_particles(
    settings: PathSettings,
    model: BoundModel,
    population: Population,
    log_weights: Float[np.ndarray, " particles"],
    target: Target,
    info: StepInfo,
) -> tuple[Population, StepInfo]:
    """Resample the particles, if the settings say so, and move them under a target.

    `log_weights` are those gained since the last move: the particles so weighted determine the
    target's centre and scale better than resampled particles. Each half is moved with the scale of
    the other half. With their own, the particles keep what their sample covariance has by chance,
    and the evidence is too high: by 12 nats for 512 particles in 100 dimensions. Resampling keeps
    the order, and so the halves, but for a few particles.

    Source of the halves: Goodman and Weare (2010), Communications in Applied Mathematics and
    Computational Science 5, 65; Foreman-Mackey et al. (2013), PASP 125, 306.
    """
    population, ready = prepared_move(settings, model, population, log_weights, target)
    on_host = np.asarray(population.positions, np.float64)
    if settings.resampling is not None:
        population = resample_particles(population, settings.resampling, settings.chain_length)
    before, correlation, num_moves = population.positions, math.inf, 0
    most_moves = _most_moves(settings, model, ready)
    length, jumps = settings.chain_length, None
    while num_moves < most_moves and correlation > CORRELATED:
        check()
        if num_moves == 1:
            key, key_jumps = split_key(population.key)
            population = population._replace(key=key)
            jumps = fitted_jumps(on_host, log_weights, host_generator(key_jumps))
        if jumps is not None and num_moves % 2:
            positions, accepted = jumped(jumps, model, target, ready.folded_to, population.positions)
            population = population._replace(positions=positions)
            jumps = jumps if accepted > LEAST_ACCEPTED else None
        elif length > 1 and num_moves:  # chains are not begun again from all their states
            break
        else:
            population, noise, noise_share = moved_once(model, ready, population, length)
        correlation = largest_correlation(before, population.positions[length - 1 :: length])
        num_moves += 1
    population = population._replace(memory=settings.gradient.adapt(ready.prepared.memory, noise))
    return population, info._replace(correlation=correlation, noise_share=noise_share, num_moves=num_moves)


def prepared_move(
    settings: PathSettings,
    model: BoundModel,
    population: Population,
    log_weights: Float[np.ndarray, " particles"],
    target: Target,
) -> tuple[Population, ReadyMove]:
    """The particles, folded if the model has symmetries, and a move that suits their weights."""
    shares = np.exp(weights.normalise(log_weights))
    population, folded_to = _folded(settings, model, population, shares)
    on_host = np.asarray(population.positions, np.float64)
    centre = shares @ on_host
    prepared = settings.gradient.prepare(model, population.memory, target, centre)
    is_exact = prepared.estimator.is_exact and settings.exact_kernel is not None
    kernel = settings.exact_kernel if is_exact else settings.kernel
    assert kernel is not None
    precision = _precision(model, prepared, kernel, centre)
    halves = _parts(len(shares), 2 if kernel.is_scaled else 1)
    scales = [
        _scale(on_host[others], log_weights[others], precision, target)
        for others in reversed(halves)  # of two halves the other one
    ]
    return population, ReadyMove(kernel, prepared, scales, folded_to)


def _parts(count: int, number: int) -> list[slice]:
    """All of the particles, or their halves."""
    return [slice(None)] if number == 1 else [slice(count // 2), slice(count // 2, None)]


def _scale(
    positions: np.ndarray, log_weights: np.ndarray, precision: np.ndarray | None, target: Target
) -> Scale:
    if np.max(log_weights) == -np.inf:  # all the weight is in the other half
        log_weights = np.zeros_like(log_weights)
    shares = np.exp(weights.normalise(log_weights))
    return posterior_scale(positions, shares, precision, target.num_observations)


def moved_once(
    model: BoundModel, ready: ReadyMove, population: Population, chain_length: int
) -> tuple[Population, float, float]:
    """The population after a move, the gradient noise and its share."""
    kernel, prepared, scales, folded_to = ready
    key, found = population.key, []
    # Chains begin at fewer particles than gave the scales.
    for part, scale in zip(_parts(len(population.positions), len(scales)), scales, strict=True):
        key, key_move = split_key(key)
        positions = jnp.asarray(np.asarray(population.positions)[part])  # on the host: no compilation
        found.append(move(model, kernel, prepared, key_move, positions, scale, folded_to, chain_length))
    moved, noises, noise_shares = zip(*found, strict=True)
    positions = np.concatenate([np.asarray(each.positions) for each in moved])
    log_weights = np.repeat(population.log_weights, chain_length)
    population = population._replace(key=key, positions=jnp.asarray(positions), log_weights=log_weights)
    if kernel.is_reweighting:
        increments = np.concatenate([np.asarray(each.log_weights, np.float64) for each in moved])
        population = reweighted(population, increments)
    return population, float(np.mean(noises)), float(np.mean(noise_shares))


def _most_moves(settings: PathSettings, model: BoundModel, ready: ReadyMove) -> int:
    """The largest number of moves in a row: many while rows are few."""
    kernel = ready.kernel
    is_exact = kernel.needs == "log_density" and not kernel.is_reweighting
    if not is_exact or not (settings.is_repeating or settings.chain_length > 1):
        return 1
    if settings.chain_length > 1:
        return 2  # chains, and jumps of all their states
    work = ready.prepared.target.window.size * model.num_parameters  # of a move
    return max(1, min(MOST_MOVES, 300_000 // max(1, work)))


def curvature(
    model: BoundModel, target: Target, centre: Float[np.ndarray, " parameters"]
) -> Float[np.ndarray, "parameters parameters"]:
    """The negative Hessian of a target's log density at a centre, in float64."""
    expansion = expand_target(model, target.past.expand(model, centre), target)
    return -(expansion.hessian + expand_prior(model, centre).hessian)


def _precision(
    model: BoundModel, prepared: Prepared, kernel: Kernel, centre: np.ndarray
) -> np.ndarray | None:
    """The curvature if the estimator has an expansion or the kernel reweights, else None."""
    if prepared.expansion is not None:
        return -(prepared.expansion.hessian + expand_prior(model, prepared.expansion.centre).hessian)
    return curvature(model, prepared.target, centre) if kernel.is_reweighting else None


def _folded(
    settings: PathSettings, model: BoundModel, population: Population, shares: np.ndarray
) -> tuple[Population, Centre | None]:
    """Fold the particles to copies near each other if a kernel or the gradient needs it."""
    kernels = settings.kernel, settings.exact_kernel or settings.kernel
    is_needed = any(kernel.is_scaled for kernel in kernels) or settings.gradient.needs_centre
    if not model.symmetry or not is_needed:
        return population, None
    positions, centre = fold(model, population.positions, shares)
    return population._replace(positions=positions), centre
