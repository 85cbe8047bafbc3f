"""Redraw the particles by importance sampling with all rows, without the errors of the path.

Proposals are Student t's at the modes of the posterior, or learnt from particles. Importance
sampling cannot detect a mode that a proposal misses, so it must first cover the particles annealed
from the prior (`check`). Particles always seem covered by a proposal learnt from them, so it is
learnt from one half of them, and the other half completes its draws.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from evidentia.evidence.population.about_modes import (
    about,
    about_many_modes,
    about_one_mode,
    modes_near,
    modes_of_more_rows,
)
from evidentia.evidence.population.adapt import is_learnable, learn
from evidentia.evidence.population.check import (
    HEAVIEST,
    MISSED,
    completed,
    covers,
    exceeding,
    unreached,
    unseen,
)
from evidentia.evidence.population.fit import fitted, with_modes
from evidentia.evidence.population.importance import (
    CHEAP,
    MANY_BATCHES,
    WeightedDraws,
    accurate_draws,
    is_enough,
    is_regular,
    weighted_draws,
)
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import (
    Particles,
    Population,
    host_generator,
    weighted_particles,
)
from evidentia.evidence.population.rays import rises
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import is_summed
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Rows

FEW_BATCHES = 4  # of one draw per particle, from a proposal at many modes
MOST_SEARCHES = 4  # for further modes, where a proposal misses some of the posterior
PRIOR_SHARE = 0.25  # of the draws of a learnt proposal, if they are as many as can be
CHECKED = 400_000  # rows times parameters up to which an irregular posterior needs particles


class Redrawn(NamedTuple):
    """Enough draws for the evidence, and their proposal."""

    draws: WeightedDraws
    proposal: Mixture


def redraw(
    model: BoundModel,
    rows: Rows,
    population: Population,
    previous: Mixture | None = None,
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
) -> Iterator[tuple[Mixture | None, int]]:
    """Proposals about one mode, then about many, with the most batches to draw from each."""
    yield (one := about_one_mode(model, rows, particles, generator)), 1
    yield about_many_modes(model, rows, particles, generator) or one, FEW_BATCHES


def redraw_about(
    model: BoundModel,
    rows: Rows,
    proposals: Iterable[tuple[Mixture | None, int]],
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
        proposal, draws = with_modes_beside(model, rows, proposal, draws, generator, count)
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


def with_modes_beside(
    model: BoundModel,
    rows: Rows,
    proposal: Mixture,
    draws: WeightedDraws,
    generator: np.random.Generator,
    count: int,
) -> tuple[Mixture, WeightedDraws]:
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
    proposal: Mixture,
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
    previous: Mixture,
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
    model: BoundModel, rows: Rows, start: Mixture, generator: np.random.Generator, count: int
) -> Redrawn | None:
    proposal = _with_prior(model, learn(model, rows, start, generator, count), rows, count)
    draws = _learnt_draws(model, rows, proposal, generator, count)
    return Redrawn(draws, proposal) if is_enough(draws, count) else None


def _with_prior(model: BoundModel, learnt: Mixture, rows: Rows, count: int) -> Mixture:
    """A learnt proposal that draws from the prior, too, if rows are so few that this costs little.

    The prior reaches small modes and far tails that neither the proposal nor particles show. Of
    copies that are not summed, its draws are at others than those of the proposal.
    """
    is_cheap = rows.size * count * MANY_BATCHES <= CHEAP and is_summed(model)
    # Of `count` draws a whole number comes from the prior.
    return learnt._replace(prior_share=round(PRIOR_SHARE * count) / count if is_cheap else 0.0)


def _learnt_draws(
    model: BoundModel, rows: Rows, proposal: Mixture, generator: np.random.Generator, count: int
) -> WeightedDraws:
    """Weighted draws from a learnt proposal, many if rows are few."""
    most, least = MANY_BATCHES, CHEAP // (rows.size * count)
    return weighted_draws(model, rows, proposal, generator, count, most, least)


def _at_modes_of_more_rows(
    model: BoundModel,
    rows: Rows,
    previous: Mixture,
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
