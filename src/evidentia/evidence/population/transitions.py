"""Moves of all particles, by a kernel or by jumps, and how far they leave them correlated.

Jumps lead between modes or along a ridge, where moves from place to place are slow. A mixture of
Student t's q, fitted to the other half of the particles, proposes θ' for a particle at θ, wherever
that is, accepted with probability

    min(1, π(θ') q(θ) / π(θ) q(θ')),

which leaves the density π invariant. In a few dimensions a jump decorrelates most particles, also
where a kernel would need thousands of steps from one mode to the next. It costs a density, which
is a fraction of a trajectory.

Source: Tierney (1994), Annals of Statistics 22, 1701 (independence chains); Andrieu, Thoms (2008),
Statistics and Computing 18, 343, section 7 (mixtures fitted to samples).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import rankdata

from evidentia import weights
from evidentia.evidence.population.mixture import Mixture, fitted
from evidentia.evidence.population.particles import Particles
from evidentia.kernels import Density, Kernel, Moved, Scale
from evidentia.kernels.kernel import noise_variance
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import Prepared
from evidentia.posterior.symmetry import Centre, Positions, within
from evidentia.posterior.target import Target, log_target
from evidentia.system.compilation import compiled

NOISE_PARTICLES = 32  # particles at which the gradient noise is measured
NUM_JUMPS = 4  # in a row
LEAST_ACCEPTED = 0.01  # share of the jumps that are accepted; with less, they are not tried again


def move(
    model: BoundModel,
    kernel: Kernel,
    prepared: Prepared,
    key: Array,
    positions: Float[Array, "particles parameters"],
    scale: Scale,
    folded_to: Centre | None = None,
    chain_length: int = 1,
) -> tuple[Moved, Array, Array]:
    """Move particles; also return the gradient noise and its share.

    With a `chain_length`, all states of the chains that begin at the particles are returned, chain
    after chain. Folded particles stay where they are folded to if the kernel uses the exact
    density.
    """
    expansion = prepared.device_expansion
    estimator, target = prepared.estimator, prepared.target
    return _move(model, kernel, estimator, chain_length, key, positions, target, expansion, scale, folded_to)


@compiled(static_argnames=("model", "kernel", "estimator", "chain_length"))
def _move(model, kernel, estimator, chain_length, key, positions, target, expansion, scale, folded_to):
    key_first, key_second, key_move = jax.random.split(key, 3)
    log_density = log_target(model, target)
    if folded_to is not None:
        log_density = within(model, folded_to, log_density)
    gradient = estimator.function(model, target, expansion)
    noise = noise_share = jnp.zeros(())
    if kernel.needs == "gradient" and not estimator.is_exact:
        few = positions[:NOISE_PARTICLES]
        differences = gradient(key_first, few) - gradient(key_second, few)
        noise = noise_variance(differences @ scale.factor)  # in whitened coordinates
        noise_share = kernel.noise_share(differences, scale)
    density = Density(log_density, gradient)
    if chain_length == 1:
        return kernel.move(key_move, positions, density, scale), noise, noise_share
    return _chains(kernel, key_move, positions, density, scale, chain_length), noise, noise_share


def _chains(
    kernel: Kernel,
    key: Array,
    starts: Float[Array, "chains parameters"],
    density: Density,
    scale: Scale,
    chain_length: int,
) -> Moved:
    """All states of the chains, each with the log weights gained up to there.

    Source: Dau and Chopin (2022), Journal of the Royal Statistical Society B 84, 114, Algorithm 2.
    """

    def step(state: Moved, key: Array) -> tuple[Moved, Moved]:
        moved = kernel.move(key, state.positions, density, scale)
        state = Moved(moved.positions, state.log_weights + moved.log_weights)
        return state, state

    begin = Moved(starts, jnp.zeros(len(starts)))
    _, later = jax.lax.scan(step, begin, jax.random.split(key, chain_length - 1))
    positions = jnp.concatenate([starts[None], later.positions]).swapaxes(0, 1)
    log_weights = jnp.concatenate([jnp.zeros((1, len(starts))), jnp.asarray(later.log_weights)]).swapaxes(
        0, 1
    )
    return Moved(positions.reshape(-1, starts.shape[1]), log_weights.reshape(-1))


def largest_correlation(before: Positions, after: Positions) -> float:
    """The largest rank correlation over the particles of any coordinate before and after a move.

    Of ranks, since a few particles far out in a heavy tail, which hardly move, decide any other:
    near the prior of a mixture, particles were moved 32 times where 5 are enough. Zero if there
    are no coordinates.
    """
    first, last = (rankdata(np.asarray(positions), axis=0) for positions in (before, after))
    first, last = first - first.mean(0), last - last.mean(0)
    scale = np.sqrt(np.mean(first**2, 0) * np.mean(last**2, 0))
    correlations = np.mean(first * last, 0) / np.maximum(scale, np.finfo(np.float32).tiny)
    return float(np.max(correlations)) if correlations.size else 0.0


class Jumps(NamedTuple):
    """Proposals for the first and the second half of the particles, fitted to the other half."""

    proposals: tuple[Mixture, Mixture]
    generator: np.random.Generator

    def draw(self, count: int) -> Positions:
        """A place for each of `count` particles to jump to."""
        # Draws are in the order of the components, which must not meet the order of the particles.
        sizes = count // 2, count - count // 2
        draws = [
            self.generator.permutation(np.asarray(proposal.draw(self.generator, size)))
            for proposal, size in zip(self.proposals, sizes, strict=True)
        ]
        return np.concatenate(draws)

    def log_density(self, positions: Positions) -> Float[np.ndarray, " particles"]:
        """Log density of the proposal for each particle at its position."""
        halves = np.split(np.asarray(positions, np.float64), [len(positions) // 2])
        densities = [
            proposal.log_density(half) for proposal, half in zip(self.proposals, halves, strict=True)
        ]
        return np.concatenate(densities)


def fitted_jumps(
    positions: Float[np.ndarray, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
    generator: np.random.Generator,
) -> Jumps | None:
    """Jumps fitted to weighted particles; None if a half of them is degenerate."""
    found = []
    for half in slice(len(positions) // 2), slice(len(positions) // 2, None):
        if np.max(log_weights[half]) == -np.inf:
            return None
        share = np.exp(weights.normalise(log_weights[half]))
        found.append(fitted(Particles(positions[half], share), generator))
    first, second = found
    return None if first is None or second is None else Jumps((second, first), generator)


def jumped(
    jumps: Jumps,
    model: BoundModel,
    target: Target,
    folded_to: Centre | None,
    positions: Float[Array, "particles parameters"],
) -> tuple[Float[Array, "particles parameters"], float]:
    """The particles after `NUM_JUMPS` jumps under a target, and the share of jumps accepted.

    Folded particles stay where they are folded to.
    """

    def log_ratio(positions: Positions) -> Float[np.ndarray, " particles"]:
        heights = _log_densities(model, jnp.asarray(positions), target, folded_to)
        ratio = np.asarray(heights, np.float64) - jumps.log_density(positions)
        return np.where(np.isnan(ratio), -np.inf, ratio)

    here, accepted = np.asarray(positions), np.zeros(len(positions))
    ratio_here = log_ratio(here)
    for _ in range(NUM_JUMPS):
        there = jumps.draw(len(here))
        ratio_there = log_ratio(there)
        is_accepted = np.log(jumps.generator.random(len(here))) < ratio_there - ratio_here
        here, ratio_here = (
            np.where(is_accepted[:, None], there, here),
            np.where(is_accepted, ratio_there, ratio_here),
        )
        accepted += is_accepted / NUM_JUMPS
    return jnp.asarray(here), float(np.mean(accepted))


@compiled(static_argnames="model")
def _log_densities(model, positions, target, folded_to):
    log_density = log_target(model, target)
    if folded_to is not None:
        log_density = within(model, folded_to, log_density)
    return jax.vmap(log_density)(positions)
