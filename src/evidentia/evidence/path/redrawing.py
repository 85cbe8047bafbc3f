"""Redraw the particles by importance sampling with all rows, without the errors of the path.

With a proposal q near the posterior, here Student t's at its modes, M draws θᵢ give

    wᵢ = p(θᵢ) p(D | θᵢ) / q(θᵢ),        Ẑ = (1/M) Σ wᵢ,

which is unbiased, with independent terms: its standard error is that of a mean. It cannot detect a
mode that q misses, so q must first cover the particles annealed from the prior
(`covers`).

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t).
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.path.learning import fitted, is_learnable, learn, with_modes
from evidentia.evidence.path.population import Population, host_generator, split_key
from evidentia.evidence.path.proposal import (
    NUM_STARTS,
    Particles,
    Proposal,
    about_many_modes,
    about_one_mode,
    at_modes,
    some_of,
    with_more_rows,
)
from evidentia.interruption import check
from evidentia.model.bound import BoundModel
from evidentia.posterior.modes import modes_above, newton
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import fold, symmetrised

MIN_ESS = 0.2  # effective draws as a fraction of the particles; below it, tail weights are seen too rarely
WANTED = 0.5  # the same, for which draws are made from a learnt proposal
BATCHES = 1, 4, 32  # largest number of batches of one draw per particle, for each richer proposal
MAX_EVALUATIONS = 3_000_000  # rows times batches: many batches for few rows, three for a million
MISSED = 0.01  # fraction of the posterior that the proposal may miss
REGULAR = 0.5  # effective draws as a fraction of one batch; on a Gaussian at least 0.95
ON_LINE = 9  # points between the mode and a particle
ROUNDING = 0.01  # nats
CHECKED = 400_000  # rows times parameters up to which an irregular posterior needs particles


class WeightedDraws(NamedTuple):
    """Draws with log weights; log p(D) is `offset` + log mean exp(log_weights).

    `variance` is that of the offset, in nats².
    """

    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    offset: float
    variance: float = 0.0

    def population(self, key: Array, count: int) -> Population:
        """The draws with their weights as particles, or `count` resampled if there are more."""
        if len(self.positions) == count:
            return Population(key, self.positions, self.log_weights, self.log_evidence, self.variance)
        key, key_resample = split_key(key)
        chosen = weights.resample(key_resample, self.log_weights, count)
        variance = self.variance + weights.relative_variance(self.log_weights)
        return Population(key, self.positions[chosen], np.zeros(count), self.log_evidence, variance)

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight, in nats."""
        return self.offset + weights.log_mean(self.log_weights)


class Redrawn(NamedTuple):
    """Enough draws for the evidence, and their proposal."""

    draws: WeightedDraws
    proposal: Proposal


def redraw(
    model: BoundModel,
    rows: Rows,
    population: Population,
    previous: Proposal | None = None,
    growth: float = 1.0,
) -> Redrawn | None:
    """Weighted draws from the posterior of `rows`; None if there are not enough.

    A `previous` proposal was made for fewer rows, by a factor `growth`. Without one, the particles
    are those of the annealed path, and the proposal must cover them. The random numbers come from
    the population's key.
    """
    generator = host_generator(population.key)
    count, particles = len(population.log_weights), weighted_particles(model, population)
    if previous is None:
        return _about_particles(model, rows, particles, generator, count)
    if previous.is_learnt:
        return _learnt_anew(model, rows, previous, generator, count)
    return _at_modes_of_more_rows(model, rows, previous, growth, particles, generator, count)


def _about_particles(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator, count: int
) -> Redrawn | None:
    """Draws from the first proposal that gives enough of them and covers the particles."""
    proposals = _richer_and_richer(model, rows, particles, generator, count)
    for proposal, max_batches in zip(proposals, BATCHES, strict=False):
        if proposal is None:
            continue
        draws = weighted_draws(model, rows, proposal, generator, count, max_batches)
        if is_enough(draws, count) and covers(model, rows, proposal, draws, particles):
            return Redrawn(draws, proposal)
    return None


def _richer_and_richer(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator, count: int
) -> Iterator[Proposal | None]:
    """Proposals about one mode, about many, learnt from the particles; each only if asked for."""
    yield (proposal := about_one_mode(model, rows, particles, generator))
    yield (proposal := about_many_modes(model, rows, particles, generator) or proposal)
    if is_learnable(model) and (fit := fitted(particles, generator)):
        yield learn(model, rows, with_modes(fit, proposal, particles), generator, count)


def _learnt_anew(
    model: BoundModel, rows: Rows, previous: Proposal, generator: np.random.Generator, count: int
) -> Redrawn | None:
    """Draws from a proposal learnt with more rows from that for fewer rows."""
    proposal = learn(model, rows, previous, generator, count)
    draws = weighted_draws(model, rows, proposal, generator, count, BATCHES[-1])
    return Redrawn(draws, proposal) if is_enough(draws, count) else None


def _at_modes_of_more_rows(
    model: BoundModel,
    rows: Rows,
    previous: Proposal,
    growth: float,
    particles: Particles,
    generator: np.random.Generator,
    count: int,
) -> Redrawn | None:
    """Draws about the modes of more rows, without particles that would show what these miss.

    The weights must be even, up to a size (`CHECKED`) to which the path is affordable: a proposal
    at the modes of a ridge can miss its arms.
    """
    proposal = with_more_rows(model, rows, previous, growth, particles, generator)
    if proposal is None:
        return None
    draws = weighted_draws(model, rows, proposal, generator, count, BATCHES[0])
    if is_regular(draws, count):
        return Redrawn(draws, proposal)
    if rows.num_observations * model.num_parameters <= CHECKED:
        return None
    proposal = proposal._replace(is_checked=False)
    if not is_enough(draws, count) and is_learnable(model):
        proposal = learn(model, rows, proposal, generator, count)
        draws = weighted_draws(model, rows, proposal, generator, count, BATCHES[-1])
    return Redrawn(draws, proposal) if is_enough(draws, count) else None


def only_mode(model: BoundModel, rows: Rows, population: Population) -> Proposal | None:
    """A proposal about the only mode that the particles show, if a redraw fails; None if several.

    In many dimensions importance sampling works only with more rows: log weights vary by about
    d³/n². Until then the particles need not follow if the log posterior falls from the mode to
    each of them: then it has no other mode there, and Newton's method follows this one.
    """
    particles = weighted_particles(model, population)
    mode = newton(model, rows, particles.mean)
    if mode is None:
        return None
    highest, rises = np.inf, np.zeros(len(particles.share), bool)
    for share in np.linspace(0.0, 1.0, ON_LINE):
        positions = jnp.asarray(mode.centre + share * (particles.positions - mode.centre), jnp.float32)
        deviations, offset = rows.log_likelihoods(model, positions)
        heights = deviations + offset + model.log_priors(positions)
        rises |= ~(heights < highest + ROUNDING)
        highest = heights
    return Proposal((mode,)) if particles.share @ rises < MISSED else None


def at_modes_above(model: BoundModel, rows: Rows, population: Population) -> Population | None:
    """Particles of the posterior at the modes above some of the particles of a long path.

    The number of a path's steps grows with the distance of the posterior from the prior, in
    standard deviations; that of climbs grows with about its logarithm. None if the draws' weights
    are uneven.
    """
    generator, particles = host_generator(population.key), weighted_particles(model, population)
    modes = modes_above(model, rows, some_of(particles, generator, NUM_STARTS))
    if not modes:
        return None
    count = len(population.log_weights)
    draws = weighted_draws(model, rows, at_modes(model, rows, modes, generator), generator, count, BATCHES[0])
    key, _ = split_key(population.key)
    return draws.population(key, count) if is_regular(draws, count) else None


def weighted_particles(model: BoundModel, population: Population) -> Particles:
    """A population on the host, folded to the copies nearest to each other."""
    share = np.exp(weights.normalise(population.log_weights))
    positions = population.positions
    if model.symmetry:
        positions, _ = fold(model, positions, share)
    return Particles(np.asarray(positions, np.float64), share)


def weighted_draws(
    model: BoundModel,
    rows: Rows,
    proposal: Proposal,
    generator: np.random.Generator,
    count: int,
    max_batches: int,
) -> WeightedDraws:
    """Weighted draws from the proposal: `count`, or a multiple if the weights are uneven.

    Those of a learnt proposal are as many as `WANTED` asks for, within the batches: the largest
    weights, in tails that it covers thinly, are rare.

    Weights above √N times their mean, for N draws, are cut there: a single draw from the
    proposal's far tail could otherwise outweigh all others. What is lost vanishes as N grows.
    Source: Ionides (2008), Journal of Computational and Graphical Statistics 17, 295.
    """
    wanted = (WANTED if proposal.is_learnt else MIN_ESS) * count
    max_batches = min(max_batches, max(1, MAX_EVALUATIONS // rows.size))
    found = _batch(model, rows, proposal, generator, count)
    for index in range(1, max_batches):
        hopeless = not weights.ess(found.log_weights) * max_batches >= MIN_ESS * count * index
        if hopeless or weights.ess(found.log_weights) >= wanted:
            break
        more = _batch(model, rows, proposal, generator, count)
        found = WeightedDraws(
            jnp.concatenate([found.positions, more.positions]),
            np.concatenate([found.log_weights, more.log_weights + more.offset - found.offset]),
            found.offset,
            max(found.variance, more.variance),
        )
    largest = weights.log_mean(found.log_weights) + 0.5 * np.log(len(found.log_weights))
    return found._replace(log_weights=np.minimum(found.log_weights, largest))


def _batch(
    model: BoundModel, rows: Rows, proposal: Proposal, generator: np.random.Generator, count: int
) -> WeightedDraws:
    check()
    positions = proposal.draw(generator, count)
    likelihood = proposal.log_likelihoods(model, rows, positions)
    log_weights = likelihood.deviations + log_prior_ratio(model, proposal, positions)
    return WeightedDraws(positions, log_weights, likelihood.offset, likelihood.variance)


def is_enough(draws: WeightedDraws, count: int) -> bool:
    """Whether the effective number of draws is large enough; False if a weight is NaN."""
    return bool(weights.ess(draws.log_weights) >= MIN_ESS * count)


def is_regular(draws: WeightedDraws, count: int) -> bool:
    """Whether one batch had even weights, as if the posterior is about Gaussian at its modes."""
    return len(draws.log_weights) == count and bool(weights.ess(draws.log_weights) >= REGULAR * count)


def log_ratio(
    model: BoundModel, rows: Rows, proposal: Proposal, positions: Float[Array, "particles parameters"]
) -> tuple[Float[np.ndarray, " particles"], float]:
    """log p(θ) p(D | θ) / q(θ) at every position, minus an offset, and the offset."""
    deviations, offset = rows.log_likelihoods(model, positions)
    return deviations + log_prior_ratio(model, proposal, positions), offset


def log_prior_ratio(
    model: BoundModel, proposal: Proposal, positions: Float[Array, "particles parameters"]
) -> Float[np.ndarray, " particles"]:
    """log p(θ) / q(θ) at every position."""
    return model.log_priors(positions) - symmetrised(model, proposal.log_density, positions)


def covers(
    model: BoundModel, rows: Rows, proposal: Proposal, draws: WeightedDraws, particles: Particles
) -> bool:
    """Whether the proposal covers particles of the posterior, but for a share (`MISSED`).

    Those that it misses lie where the posterior density, p(θ) p(D | θ) / Ẑ, exceeds that of the
    proposal by more than at any draw; their share of the posterior is what Ẑ lacks. Particles in
    regions of low posterior density, where moves without a Metropolis correction can leave them,
    do not count.
    """
    positions = jnp.asarray(particles.positions, jnp.float32)
    log_ratios, offset = log_ratio(model, rows, proposal, positions)
    is_missed = log_ratios + offset > draws.offset + np.max(draws.log_weights)
    share = float(particles.share @ is_missed)
    error = np.sqrt(max(0.0, share * (1 - share)) * np.sum(particles.share**2))  # rounding can exceed 1
    return share < MISSED + 3 * error
