"""Draw the particles anew by importance sampling, all rows weighed: the log evidence without the errors of the path.

With a proposal q near the posterior, here Student t's about its modes, M draws θᵢ give

    wᵢ = p(θᵢ) p(D | θᵢ) / q(θᵢ),        Ẑ = (1/M) Σ wᵢ,

unbiased, with independent terms: its standard error is that of a mean. What it cannot see is a mode that q misses.
So where particles that came another way exist, from the prior by annealing, they are asked first (`covers`).

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.population import Population
from evidentia.evidence.proposal import (
    Particles,
    Proposal,
    about_many_modes,
    about_one_mode,
    with_moments,
    with_more_rows,
)
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.symmetry import relabel, symmetrised

MIN_ESS = 0.2  # effective draws as a share of the particles: below, weights have tails that show too rarely
BATCHES = 1, 4, 32  # at most, of as many draws as there are particles: from proposals that become richer
MIN_LEARNT = 10.0  # effective draws: from fewer, a proposal learns nothing
MAX_EVALUATIONS = 3_000_000  # rows times batches: many batches while there are few rows, three at a million
MISSED = 0.05  # share of the posterior that the proposal may miss
DENSER = 10.0  # times the density of the proposal is that of a posterior that it misses


class WeightedDraws(NamedTuple):
    """Draws with log weights of which the mean is the evidence: log p(D) is `offset` + log mean exp(log_weights)."""

    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    offset: float

    def population(self, key: Array, count: int) -> Population:
        """As particles: the draws with their weights, or `count` of them resampled where there are more."""
        if len(self.positions) == count:
            return Population(key, self.positions, self.log_weights, self.log_evidence)
        key, key_resample = jax.random.split(key)
        chosen = weights.resample(key_resample, self.log_weights, count)
        variance = weights.relative_variance(self.log_weights)
        return Population(key, self.positions[chosen], np.zeros(count), self.log_evidence, variance)

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight, in nats."""
        return self.offset + weights.log_sum_exp(self.log_weights) - np.log(len(self.log_weights))


class Refreshed(NamedTuple):
    """Draws that are enough for the evidence, and the proposal that they came from."""

    draws: WeightedDraws
    proposal: Proposal


def refresh(
    model: BoundModel,
    rows: Rows,
    population: Population,
    key: Array,
    previous: Proposal | None = None,
    growth: float = 1.0,
) -> Refreshed | None:
    """Weighted draws for the posterior of `rows`; None where they are not enough.

    Without a `previous` proposal, which served when there were fewer rows by a factor `growth`, the particles are those of
    the annealed path, and must be covered. The proposal starts from one mode, or from those of the previous one, and is
    enriched where its draws do not do.
    """
    key_modes, key_draws, key_learn = jax.random.split(key, 3)
    count, particles = len(population.log_weights), weighted_particles(model, population)
    if previous is None:
        proposal = about_one_mode(model, rows, particles)
    else:
        proposal = with_more_rows(model, rows, previous, growth, particles, key_modes)
    for attempt, max_batches in enumerate(BATCHES):
        draws = None
        if proposal is not None:
            key_attempt = jax.random.fold_in(key_draws, attempt)
            draws = weighted_draws(model, rows, proposal, key_attempt, count, max_batches)
            if is_enough(draws, count) and (previous or covers(model, rows, proposal, draws, population)):
                return Refreshed(draws, proposal)
        if attempt == 0 and previous is None:
            proposal = about_many_modes(model, rows, particles, key_modes)
            learnt = particles
        elif draws is not None and weights.ess(draws.log_weights) >= MIN_LEARNT:
            learnt = weighted_particles(
                model, draws.population(jax.random.fold_in(key_learn, attempt), count)
            )
        else:
            return None
        proposal = proposal and with_moments(proposal, learnt)
    return None


def weighted_particles(model: BoundModel, population: Population) -> Particles:
    """A population on the host, with interchangeable components in the same order in all."""
    share = np.exp(weights.normalise(population.log_weights))
    positions = population.positions
    if model.exchangeable:
        positions = relabel(model, positions, share)
    return Particles(np.asarray(positions, np.float64), share)


def weighted_draws(
    model: BoundModel, rows: Rows, proposal: Proposal, key: Array, count: int, max_batches: int
) -> WeightedDraws:
    """Draws of the proposal, weighted by the posterior: `count` of them, or a multiple while too few count."""
    max_batches = min(max_batches, max(1, MAX_EVALUATIONS // rows.size))
    found = _batch(model, rows, proposal, jax.random.fold_in(key, 0), count)
    for index in range(1, max_batches):
        hopeless = not weights.ess(found.log_weights) * max_batches >= MIN_ESS * count * index
        if hopeless or is_enough(found, count):
            break
        more = _batch(model, rows, proposal, jax.random.fold_in(key, index), count)
        found = WeightedDraws(
            jnp.concatenate([found.positions, more.positions]),
            np.concatenate([found.log_weights, more.log_weights + more.offset - found.offset]),
            found.offset,
        )
    return found


def _batch(model: BoundModel, rows: Rows, proposal: Proposal, key: Array, count: int) -> WeightedDraws:
    positions = proposal.draw(key, count)
    return WeightedDraws(positions, *log_ratio(model, rows, proposal, positions))


def is_enough(draws: WeightedDraws, count: int) -> bool:
    """Whether weighted draws are worth enough particles; not where a weight is NaN."""
    return bool(weights.ess(draws.log_weights) >= MIN_ESS * count)


def log_ratio(
    model: BoundModel, rows: Rows, proposal: Proposal, positions: Float[Array, "particles parameters"]
) -> tuple[Float[np.ndarray, " particles"], float]:
    """log p(θ) p(D | θ) / q(θ) at every position, less an offset that is returned beside it."""
    deviations, offset = log_likelihood_sums(model, positions, rows)
    log_proposal = symmetrised(model, proposal.log_density, positions)
    return deviations + model.log_priors(positions) - log_proposal, offset


def covers(
    model: BoundModel, rows: Rows, proposal: Proposal, draws: WeightedDraws, population: Population
) -> bool:
    """Whether the proposal covers weighted particles of the posterior.

    The share of the particles that lie where the posterior's density, p(θ) p(D | θ) / Ẑ, is more than `DENSER` times that
    of the proposal is about that which the weighted draws themselves show, or else the proposal misses the difference.
    Particles where the posterior is not, as moves without Metropolis' correction leave them, speak neither for nor against.
    """
    log_ratios, offset = log_ratio(model, rows, proposal, population.positions)
    sides = (
        (population.log_weights, log_ratios + offset),
        (draws.log_weights, draws.log_weights + draws.offset),
    )
    shares, variances = [], []
    for log_weights, log_posterior_ratio in sides:
        is_denser = log_posterior_ratio - draws.log_evidence > np.log(DENSER)
        share = float(np.exp(weights.normalise(log_weights)) @ is_denser)
        shares.append(share)
        variances.append(max(0.0, share * (1 - share)) / weights.ess(log_weights))  # rounding goes beyond 1
    missed = shares[0] - shares[1]
    return missed < MISSED + 3 * np.sqrt(sum(variances))
