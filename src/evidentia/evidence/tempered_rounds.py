"""Rounds of adaptive importance sampling from the prior to the posterior, along temperatures.

They are the rounds of `adapt`, begun at the prior. In each, the temperature rises as far as the
last draws allow, a mixture is fitted to all draws so far, and the next ones come from it.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.method import check_defined, check_possible
from evidentia.evidence.population.adapt import (
    NEAR_COPIES,
    Drawn,
    Rounds,
    evaluated,
    log_mixture,
    near_density,
)
from evidentia.evidence.population.mixture import Mixture, fitted, together
from evidentia.evidence.population.particles import Particles, draws_inside
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import is_summed
from evidentia.posterior.gaussian import LocalGaussian, is_definite
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import fold
from evidentia.system.interruption import check

MIN_DRAWS, DRAWS_PER_PARAMETER = 500, 50  # in a round
# More particles must find more modes, not only make the error of a proposal smaller: on 12 fresh
# problems with 12 to 30 narrow peaks, errors with 4,096 of them fell from 0.27 to 0.12 nats.
PARTICLES_PER_DRAW, PARTICLES_PER_COMPONENT = 4, 128
KEPT_ESS = 0.5  # of the last draws, as a fraction, when the temperature rises
RELAXED, PATIENCE = 0.7, 3  # factor of this fraction after rounds in which it could not rise
EVEN = 0.4  # effective draws as a fraction, from which on proposals need not improve
GAIN = 1.1  # by which they must improve otherwise
LEAST_ROUNDS = 4  # at λ = 1: the first fits miss thin tails
FEW_COMPONENTS = 16  # at most, of few particles
EARLIER, WIDE = 0.3, 0.02  # shares of the proposal before, and of one as wide as the prior
LEAST_SHARE = 0.002  # of a part that is kept from the proposal before
MOST_ROUNDS = 100


class Round(NamedTuple):
    """A round.

    Attributes:
        proposal: the best one so far.
        rounds: all draws so far.
        positions, log_weights: the draws of this round, weighted by their own proposal.
        temperature, first: of this round, and of the first one.
        num_before, num_after: rounds so far, before and after the temperature was 1.
    """

    proposal: Mixture
    rounds: Rounds
    positions: np.ndarray
    log_weights: Float[np.ndarray, " draws"]
    temperature: float
    first: float
    num_before: int
    num_after: int

    @property
    def share_done(self) -> float:
        """Estimated share of the work; the draws at the end take about as long as two rounds."""
        path = weights.share_of_path(self.first, self.temperature)
        to_come = self.num_before * (1.0 - path) / path if path > 0.0 else math.inf
        done = self.num_before + self.num_after
        return done / (done + to_come + max(1, LEAST_ROUNDS - self.num_after) + 2.0)


def rounds_from_prior(
    model: BoundModel, rows: Rows, key: Array, generator: np.random.Generator, num_particles: int
) -> Iterator[Round]:
    """Yield rounds until proposals for the posterior no longer improve.

    The efficiency of a proposal at λ = 1 is the effective number of its draws, as a fraction.
    """
    per_parameter = DRAWS_PER_PARAMETER * model.num_parameters
    count = max(MIN_DRAWS, per_parameter, num_particles // PARTICLES_PER_DRAW)
    most_components = max(FEW_COMPONENTS, num_particles // PARTICLES_PER_COMPONENT)
    rounds, log_share = _of_prior(model, rows, key, 2 * count)
    positions = rounds.drawn.positions.astype(np.float64)
    wide = _about_all(positions)
    rounds = rounds.with_part(near_density(model, wide, positions))
    parts, shares, best, efficiencies = [wide], np.zeros(2), wide, list[float]()
    log_weights, last = np.zeros(2 * count), rounds.drawn
    temperature, first, kept, in_vain = 0.0, 0.0, KEPT_ESS, 0
    for number in range(1, MOST_ROUNDS + 1):
        check()
        before, temperature = temperature, _next_temperature(log_weights, last, temperature, kept)
        first = first or temperature
        in_vain = in_vain + 1 if before == temperature < 1.0 else 0
        kept *= RELAXED if in_vain >= PATIENCE else 1.0
        fit = fitted(_folded(model, rounds.particles(temperature)), generator, most_components)
        if fit is not None:
            parts.append(fit)
            rounds = rounds.with_part(near_density(model, fit, rounds.drawn.positions))
        shares = next_shares(shares, has_fit=fit is not None)
        proposal = together(parts, shares[1:])
        last = evaluated(model, rows, proposal.draw(generator, count))
        check_defined(last.log_likelihoods, rows.span, "draws")
        of_parts = [near_density(model, part, last.positions) for part in parts]
        log_terms = np.stack([last.log_priors - log_share, *of_parts])
        rounds = rounds.with_draws(last, log_terms, shares)
        log_weights = last.log_heights(temperature) - log_mixture(log_terms, shares)
        if temperature == 1.0:
            efficiencies.append(weights.ess(log_weights) / count)
        if not efficiencies or efficiencies[-1] == max(efficiencies):
            best = proposal
        counts = number - len(efficiencies), len(efficiencies)
        yield Round(best, rounds, last.positions, log_weights, temperature, first, *counts)
        if len(efficiencies) >= LEAST_ROUNDS and (
            efficiencies[-1] > EVEN or efficiencies[-1] < GAIN * efficiencies[-2]
        ):
            return


def _of_prior(model: BoundModel, rows: Rows, key: Array, count: int) -> tuple[Rounds, float]:
    """Draws from the prior as the first round, and the log of the share that float32 has of it."""
    of_prior = draws_inside(model, key, count)
    drawn = evaluated(model, rows, of_prior.positions)
    check_defined(drawn.log_likelihoods, rows.span, "draws")
    check_possible(drawn.log_likelihoods, rows.span, "draws")
    log_densities = drawn.log_priors - of_prior.log_share
    return Rounds(drawn, log_densities[None], np.array([float(count)])), of_prior.log_share


def _folded(model: BoundModel, particles: Particles) -> Particles:
    """The particles at one copy each, where a density at all copies is that of the proposal."""
    if not model.symmetry or not is_summed(model, NEAR_COPIES):
        return particles
    positions, _ = fold(model, jnp.asarray(particles.positions, jnp.float32), particles.share)
    return Particles(np.asarray(positions, np.float64), particles.share)


def _next_temperature(
    log_weights: Float[np.ndarray, " draws"], last: Drawn, temperature: float, kept: float
) -> float:
    """The temperature to which the effective sample size of the last draws allows to rise."""
    target = kept * len(log_weights)
    if weights.ess(log_weights) < target:
        return temperature
    likelihoods = np.maximum(last.log_likelihoods, np.finfo(float).min / 2)
    return weights.next_temperature(log_weights, likelihoods, temperature, target)


def next_shares(before: Float[np.ndarray, " parts"], *, has_fit: bool) -> Float[np.ndarray, " next"]:
    """The shares of the prior, the wide mixture and all fits in the next proposal.

    Most draws come from the newest fit, a few from the wide one, and the others from the proposal
    before, without the parts that have the smallest shares of it. Without a new fit the proposal
    stays; the first is then the wide one.
    """
    if not has_fit:
        return before if before.any() else np.array([0.0, 1.0])
    earlier = np.where(before > LEAST_SHARE, before, 0.0)
    share = EARLIER if earlier.any() else 0.0
    shares = np.append(share * earlier / max(earlier.sum(), LEAST_SHARE), (1 - share) * (1 - WIDE))
    shares[1] += (1 - share) * WIDE
    return shares


def covariance_of(
    positions: Float[np.ndarray, "draws parameters"],
) -> Float[np.ndarray, "parameters parameters"]:
    """The covariance of draws from the prior, or its diagonal if it is singular."""
    covariance = np.atleast_2d(np.cov(positions.T))
    if is_definite(covariance):  # unless the prior ties parameters together, or all but fixes one
        return covariance
    spread = np.diag(covariance)
    return np.diag(np.where(spread > 0, spread, 1.0))


def _about_all(positions: Float[np.ndarray, "draws parameters"]) -> Mixture:
    """A Student t as wide as draws from the prior."""
    precision = np.linalg.inv(covariance_of(positions))
    return Mixture((LocalGaussian(positions.mean(0), precision, 0.0),), np.zeros(1))
