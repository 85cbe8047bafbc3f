"""Modes beside those known, where neither moves nor temperatures lead the particles.

A narrow mode beside a wide one has a small share at the first temperatures, however much of the
posterior it has at the last (a first-order transition): with 512 particles, one of half the width
of another in five dimensions is lost by one run of many, and nothing later shows it. Likelihoods
of few rows are so cheap that it can be met: by one of many draws from the proposal, by one of
those further inside, or on a ray from the centre of the wide mode, if that points to where the
narrow one is the higher of the two.
"""

import jax
import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia import weights
from evidentia.evidence.population.about_modes import falls_from, with_modes
from evidentia.evidence.population.importance import (
    FREE,
    MANY_BATCHES,
    MIN_ESS,
    Sampling,
    WeightedDraws,
    accurate_draws,
    log_posteriors,
    num_free_looks,
    weighted_draws,
)
from evidentia.evidence.population.mixture import Mixture
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.modes import newton
from evidentia.posterior.symmetry import fold_onto

MOST_SEARCHES = 4  # for further modes, where a proposal misses some of the posterior
HEAVIEST = 8  # positions from which to search for modes, each for some ten Newton steps
LOOKS = 2**17  # positions further inside, where they are free: one in 10⁴ of them is met ten times
RADII = 16  # positions on a ray
MOST_RAYS = 16_384  # of some peaks in ten dimensions, eight were missed with 8,192, seven with 65,536
LEAST_RAYS = 512  # fewer find next to nothing
SCALE = 1024  # prior draws that say how far a ray goes
FAR = 0.9  # of these are closer than its end
RISE = 1.0  # nats, above rounding
CHECKED = 512  # of the highest rises
NEAREST = 4  # modes to which a rise may lead


def with_modes_beside(
    sampling: Sampling, proposal: Mixture, draws: WeightedDraws
) -> tuple[Mixture, WeightedDraws]:
    """More draws while they are cheap, and the modes where the posterior exceeds the proposal."""
    draws = accurate_draws(sampling, proposal, draws)
    for _ in range(MOST_SEARCHES):
        starts = *exceeding(sampling, proposal, draws), *rises(sampling, proposal)
        found = [newton(sampling.model, sampling.rows, start) for start in starts]
        richer = with_modes(sampling, proposal, found)
        if richer is None:
            break
        proposal, draws = richer, weighted_draws(sampling, richer)
        draws = accurate_draws(sampling, proposal, draws)
    return proposal, draws


def exceeding(
    sampling: Sampling, proposal: Mixture, draws: WeightedDraws
) -> Float[ndarray, "positions parameters"]:
    """Positions where the posterior exceeds the proposal most, if by more than it should.

    They are the heaviest draws, if the weights of these are uneven, and those of further positions
    with heavier weights: draws moved towards the centre of their component by a random factor, if
    their likelihood costs next to nothing. In many dimensions no draw is near a centre, and what
    is there has no effect on particles either.
    """
    model, rows, generator, count = sampling
    found = []
    if weights.ess(draws.log_weights) < MIN_ESS * len(draws.log_weights):
        found.append(np.asarray(draws.positions, np.float64)[np.argsort(-draws.log_weights)[:HEAVIEST]])
    least = MANY_BATCHES * count
    if model.evaluations is None and rows.size * least <= FREE:
        num_looks = max(least, min(LOOKS, num_free_looks(model, rows)))
        within = proposal.draw_within(generator, num_looks)
        # The density at one copy is enough here, and cheaper than at all copies.
        usual, ratios = (
            log_posteriors(model, rows, positions) - proposal.log_density(positions)
            for positions in (np.asarray(draws.positions, np.float64)[:count], within)
        )
        order = np.argsort(-ratios)[:HEAVIEST]
        found.append(within[order[ratios[order] > np.max(usual)]])
    return np.concatenate(found) if found else np.empty((0, model.num_parameters))


def rises(sampling: Sampling, proposal: Mixture) -> Float[ndarray, "rises parameters"]:
    """Where the posterior rises on rays from modes, and does not rise all the way to one of these.

    They are in the order of their heights, `HEAVIEST` at most. There are none where likelihoods
    cost too much, or the proposal was learnt, so that its components are not at modes.
    """
    model, rows, generator, _ = sampling
    num_rays = min(MOST_RAYS, num_free_looks(model, rows) // RADII)
    if proposal.is_learnt or num_rays < LEAST_RAYS:
        return np.empty((0, model.num_parameters))
    positions = _on_rays(model, proposal, generator, num_rays)
    heights = log_posteriors(model, rows, positions)
    lowest = np.minimum.accumulate(heights, axis=1)
    with np.errstate(invalid="ignore"):  # from where the posterior is zero, nothing rises
        above = np.where(lowest > -np.inf, heights - lowest, 0.0)
    top = np.argmax(above, axis=1)[:, None]
    at_top, rise = (np.take_along_axis(values, top, 1)[:, 0] for values in (heights, above))
    chosen = np.flatnonzero(rise > RISE)
    chosen = chosen[np.argsort(-at_top[chosen])][:CHECKED]
    found = positions[chosen, top[chosen, 0]]
    return found[~_is_known(sampling, proposal, found)][:HEAVIEST] if chosen.size else found


def _on_rays(
    model: BoundModel, proposal: Mixture, generator: np.random.Generator, num_rays: int
) -> Float[ndarray, "rays radii parameters"]:
    """Positions on rays from the modes, from a standard deviation to where the prior ends."""
    prior = np.asarray(model.sample_prior(jax.random.key(0), SCALE), np.float64)
    prior = prior[np.isfinite(prior).all(axis=1)]  # float32 does not have all of a vague prior
    counts = generator.multinomial(num_rays, proposal.shares)
    return np.concatenate(
        [
            _from_mode(mode, prior, generator, count)
            for mode, count in zip(proposal.components, counts, strict=True)
        ]
    )


def _from_mode(
    mode: LocalGaussian, prior: Float[ndarray, "draws parameters"], generator: np.random.Generator, count: int
) -> Float[ndarray, "rays radii parameters"]:
    nearest = np.sqrt(len(mode.centre))
    radii = np.geomspace(nearest, max(2 * nearest, np.quantile(mode.distances(prior), FAR)), RADII)
    ends = mode.draw(generator, count)
    steps = (ends - mode.centre) / mode.distances(ends)[:, None]
    return mode.centre + radii[:, None] * steps[:, None, :]


def _is_known(
    sampling: Sampling, proposal: Mixture, positions: Float[ndarray, "rises parameters"]
) -> Bool[ndarray, " rises"]:
    """Whether the posterior rises all the way from each position to one of the modes near it."""
    is_known = np.zeros(len(positions), bool)
    order = np.argsort(-proposal.log_terms(positions), axis=0)[:NEAREST]
    for index in np.unique(order):
        its = np.flatnonzero((order == index).any(axis=0) & ~is_known)
        if its.size:
            mode = proposal.components[index]
            copies = fold_onto(sampling.model, mode.centre, positions[its])
            is_known[its] = falls_from(sampling.model, sampling.rows, mode, copies, RISE)
    return is_known
