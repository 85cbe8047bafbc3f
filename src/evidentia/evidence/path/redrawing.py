"""Redraw the particles by importance sampling with all rows, without the errors of the path.

Proposals are Student t's at the modes of the posterior, or learnt from particles. Importance
sampling cannot detect a mode that a proposal misses, so it must first cover the particles annealed
from the prior (`coverage`). Particles always seem covered by a proposal learnt from them, so it is
learnt from one half of them, and the other half completes its draws.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from evidentia.evidence.path.coverage import HEAVIEST, MISSED, completed, covers, exceeding, unreached, unseen
from evidentia.evidence.path.importance import (
    CHEAP,
    MANY_BATCHES,
    WeightedDraws,
    accurate_draws,
    is_enough,
    is_regular,
    weighted_draws,
)
from evidentia.evidence.path.learning import fitted, is_learnable, learn, with_modes
from evidentia.evidence.path.population import Population, host_generator
from evidentia.evidence.path.proposal import (
    Particles,
    Proposal,
    about,
    about_many_modes,
    about_one_mode,
    at_modes,
    modes_near,
    modes_of_more_rows,
    some_of,
    weighted_particles,
)
from evidentia.evidence.path.rays import rises
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import is_summed
from evidentia.posterior.modes import modes_above, newton
from evidentia.posterior.rows import Rows

FEW_BATCHES = 4  # of one draw per particle, from a proposal at many modes
MOST_SEARCHES = 4  # for further modes, where a proposal misses some of the posterior
MANY_STARTS = 64  # particles from which to search for modes that a path does not reach
PRIOR_SHARE = 0.25  # of the draws of a learnt proposal, if they are as many as can be
ON_LINE = 9  # points between the mode and a particle
ROUNDING = 0.01  # nats
CHECKED = 400_000  # rows times parameters up to which an irregular posterior needs particles


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
        proposals = _at_few_modes_or_many(model, rows, particles, generator)
        return redraw_about(model, rows, proposals, particles, generator, count)
    if previous.is_learnt:
        return _learnt_anew(model, rows, previous, particles, generator, count)
    return _at_modes_of_more_rows(model, rows, previous, growth, generator, count)


def _at_few_modes_or_many(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator
) -> Iterator[tuple[Proposal | None, int]]:
    """Proposals about one mode, then about many, with the most batches to draw from each."""
    yield (one := about_one_mode(model, rows, particles, generator)), 1
    yield about_many_modes(model, rows, particles, generator) or one, FEW_BATCHES


def redraw_about(
    model: BoundModel,
    rows: Rows,
    proposals: Iterable[tuple[Proposal | None, int]],
    particles: Particles,
    generator: np.random.Generator,
    count: int,
) -> Redrawn | None:
    """Draws from the first proposal that gives enough of them and covers the particles.

    Those at modes come with the largest number of batches to draw, and particles make up for what
    little these may miss. If none will do, a proposal is learnt from the first half of the
    particles. It need not cover the second half, which completes its draws.
    """
    proposal = None
    for proposal, max_batches in proposals:
        if proposal is None:
            continue
        draws = weighted_draws(model, rows, proposal, generator, count, max_batches)
        if not is_enough(draws, count):
            continue
        proposal, draws = _accurate(model, rows, proposal, draws, generator, count)
        if is_enough(draws, count) and covers(model, rows, proposal, draws, particles):
            draws = _completed_about_modes(model, rows, proposal, draws, particles, count)
            return Redrawn(draws, proposal._replace(unseen=unseen(proposal, particles)))
    half, other = particles.halves
    fit = fitted(half, generator) if is_learnable(model) else None
    if fit is None:
        return None
    learnt = learn(model, rows, with_modes(fit, proposal, half), generator, count)
    learnt = _with_prior(model, learnt, rows, count)
    draws = _learnt_draws(model, rows, learnt, generator, count)
    found = completed(model, rows, learnt, draws, other.folded_to(model, learnt.domain))
    learnt = learnt._replace(unseen=unseen(learnt, particles.folded_to(model, learnt.domain)))
    return Redrawn(found, learnt) if found is not None and is_enough(found, count) else None


def _accurate(
    model: BoundModel,
    rows: Rows,
    proposal: Proposal,
    draws: WeightedDraws,
    generator: np.random.Generator,
    count: int,
) -> tuple[Proposal, WeightedDraws]:
    """More draws while they are cheap, and the modes where the posterior exceeds the proposal.

    Neither moves nor temperatures lead to a narrow mode beside a wide one (a first-order
    transition). Some of many draws from the wide one lie in it, or some of those further inside.
    """
    draws = accurate_draws(model, rows, proposal, generator, count, draws)
    for _ in range(MOST_SEARCHES):
        inside = exceeding(model, rows, proposal, draws, generator, count)
        beside = rises(model, rows, proposal, generator, HEAVIEST)
        found = [newton(model, rows, start) for start in (*inside, *beside)]
        richer = about(model, rows, [*proposal.components, *found], generator) if found else None
        if richer is None or len(richer.components) <= len(proposal.components):
            break
        proposal, draws = richer, weighted_draws(model, rows, richer, generator, count, 1)
        draws = accurate_draws(model, rows, proposal, generator, count, draws)
    return proposal, draws


def _completed_about_modes(
    model: BoundModel,
    rows: Rows,
    proposal: Proposal,
    draws: WeightedDraws,
    particles: Particles,
    count: int,
) -> WeightedDraws:
    """Draws, if uneven with particles where the proposal is thinner than at any draw.

    Particles are at the nearest copies, which are not those of draws if copies are not summed.
    """
    if is_regular(draws, count) or not is_summed(model):
        return draws
    found = completed(model, rows, proposal, draws, particles, np.max(draws.log_weights))
    return draws if found is None else found._replace(is_completed=True)


def _learnt_anew(
    model: BoundModel,
    rows: Rows,
    previous: Proposal,
    particles: Particles,
    generator: np.random.Generator,
    count: int,
) -> Redrawn | None:
    """Draws about modes that are Gaussian with more rows, or from a proposal learnt anew."""
    modes = about_many_modes(model, rows, particles, generator)
    if modes is not None:
        draws = weighted_draws(model, rows, modes, generator, count, 1)
        if is_regular(draws, count):
            missed = unreached(model, rows, modes, draws, previous, generator)
            if missed.share < MISSED:
                draws = accurate_draws(model, rows, modes, generator, count, draws)
                if is_enough(draws, count):
                    return Redrawn(draws, modes.as_known_as(previous))
    return _learnt(model, rows, previous, generator, count)


def _learnt(
    model: BoundModel, rows: Rows, start: Proposal, generator: np.random.Generator, count: int
) -> Redrawn | None:
    proposal = _with_prior(model, learn(model, rows, start, generator, count), rows, count)
    draws = _learnt_draws(model, rows, proposal, generator, count)
    return Redrawn(draws, proposal) if is_enough(draws, count) else None


def _with_prior(model: BoundModel, learnt: Proposal, rows: Rows, count: int) -> Proposal:
    """A learnt proposal that draws from the prior, too, if rows are so few that this costs little.

    The prior reaches small modes and far tails that neither the proposal nor particles show. Of
    copies that are not summed, its draws are at others than those of the proposal.
    """
    is_cheap = rows.size * count * MANY_BATCHES <= CHEAP and is_summed(model)
    # Of `count` draws a whole number comes from the prior.
    return learnt._replace(prior_share=round(PRIOR_SHARE * count) / count if is_cheap else 0.0)


def _learnt_draws(
    model: BoundModel, rows: Rows, proposal: Proposal, generator: np.random.Generator, count: int
) -> WeightedDraws:
    """Weighted draws from a learnt proposal, many if rows are few."""
    most, least = MANY_BATCHES, CHEAP // (rows.size * count)
    return weighted_draws(model, rows, proposal, generator, count, most, least)


def _at_modes_of_more_rows(
    model: BoundModel,
    rows: Rows,
    previous: Proposal,
    growth: float,
    generator: np.random.Generator,
    count: int,
) -> Redrawn | None:
    """Draws about the modes of more rows, of which the draws for fewer rows show new ones.

    The weights must be even, up to a size (`CHECKED`) to which the path is affordable: a proposal
    at the modes of a ridge can miss its arms.
    """
    proposal = about(model, rows, modes_of_more_rows(model, rows, previous, growth), generator)
    if proposal is None:
        return None
    draws = weighted_draws(model, rows, proposal, generator, count, 1)
    missed = unreached(model, rows, proposal, draws, previous, generator)
    for _ in range(MOST_SEARCHES):
        found = []
        if missed.share >= MISSED:
            found = modes_near(model, rows, Particles.equal(missed.positions), generator)
        richer = about(model, rows, [*proposal.components, *found], generator) if found else None
        if richer is None or len(richer.components) <= len(proposal.components):
            break
        proposal, draws = richer, weighted_draws(model, rows, richer, generator, count, 1)
        missed = unreached(model, rows, proposal, draws, previous, generator)
    if missed.share < MISSED and is_regular(draws, count):
        draws = accurate_draws(model, rows, proposal, generator, count, draws)
        if is_enough(draws, count):
            return Redrawn(draws, proposal.as_known_as(previous))
    if rows.num_observations * model.num_parameters <= CHECKED:
        return None
    proposal = proposal.as_known_as(previous)._replace(is_checked=False)
    if is_enough(draws, count):
        return Redrawn(draws, proposal)
    return _learnt(model, rows, proposal, generator, count) if is_learnable(model) else None


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


def at_modes_above(model: BoundModel, rows: Rows, population: Population) -> Redrawn | None:
    """Draws from the posterior at the modes above some of the particles of a tempered path.

    The number of a path's steps grows with the distance of the posterior from the prior, in
    standard deviations; that of climbs grows with about its logarithm. And climbs lead to modes
    that moves do not reach. None if the draws' weights are uneven, or the particles show more of
    the posterior: many are in its tails, so this is said rather too often.
    """
    generator, particles = host_generator(population.key), weighted_particles(model, population)
    modes = modes_above(model, rows, some_of(particles, generator, MANY_STARTS))
    if not modes:
        return None
    count, proposal = len(population.log_weights), at_modes(model, rows, modes, generator)
    draws = weighted_draws(model, rows, proposal, generator, count, 1)
    if not is_regular(draws, count) or not covers(model, rows, proposal, draws, particles):
        return None
    proposal, draws = _accurate(model, rows, proposal, draws, generator, count)
    proposal = proposal._replace(unseen=unseen(proposal, particles))
    return Redrawn(draws, proposal) if is_enough(draws, count) else None
