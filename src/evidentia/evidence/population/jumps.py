"""Jumps of particles, between modes or along a ridge, where moves from place to place are slow.

A mixture of Student t's q, fitted to the other half of the particles (`fit`), proposes θ' for
a particle at θ, wherever that is, accepted with probability

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

from evidentia import weights
from evidentia.evidence.population.fit import fitted
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Particles
from evidentia.model.bound import BoundModel
from evidentia.posterior.symmetry import Centre, within
from evidentia.posterior.target import Target, log_target
from evidentia.system.compilation import compiled

NUM_JUMPS = 4  # in a row
LEAST_ACCEPTED = 0.01  # share of the jumps that are accepted; with less, they are not tried again

Positions = Float[np.ndarray, "particles parameters"]


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
    positions: Positions, log_weights: Float[np.ndarray, " particles"], generator: np.random.Generator
) -> Jumps | None:
    """Jumps fitted to weighted particles; None if a half of them is degenerate."""
    first, second = (
        _fitted_to(positions[half], log_weights[half], generator)
        for half in (slice(len(positions) // 2), slice(len(positions) // 2, None))
    )
    return None if first is None or second is None else Jumps((second, first), generator)


def _fitted_to(
    positions: Positions, log_weights: Float[np.ndarray, " particles"], generator: np.random.Generator
) -> Mixture | None:
    if np.max(log_weights) == -np.inf:
        return None
    return fitted(Particles(positions, np.exp(weights.normalise(log_weights))), generator)


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
