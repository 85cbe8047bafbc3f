"""Redraw the particles by importance sampling with all rows, without the errors of the path.

Proposals are Student t's at the modes of the posterior, or learnt from particles. Importance
sampling cannot detect a mode that a proposal misses, so it must first cover the particles annealed
from the prior (`check`). Particles always seem covered by a proposal learnt from them, so it is
learnt from one half of them, and the other half completes its draws.

`at_modes_above` serves a first path that is long, or whose particles do not leave their modes. If
a redraw fails, `only_mode` finds what leaps may follow, and `ahead` redraws for many more rows.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from evidentia.evidence.population.about_modes import (
    MOST_SEARCHES,
    NUM_STARTS,
    about,
    about_many_modes,
    about_one_mode,
    at_modes,
    falls_from,
    modes_near,
    modes_of_more_rows,
    with_modes,
    with_modes_beside,
)
from evidentia.evidence.population.adapt import is_learnable, learn
from evidentia.evidence.population.check import MISSED, completed, covers, unreached, unseen
from evidentia.evidence.population.importance import (
    CHEAP,
    MANY_BATCHES,
    Sampling,
    WeightedDraws,
    accurate_draws,
    cost_of_batch,
    is_enough,
    is_regular,
    weighted_draws,
)
from evidentia.evidence.population.mixture import Mixture, fitted, with_components
from evidentia.evidence.population.particles import (
    Particles,
    Population,
    some_of,
    weighted_particles,
)
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import is_summed
from evidentia.posterior.modes import modes_above, newton
from evidentia.posterior.rows import Rows

FEW_BATCHES = 4  # of one draw per particle, from a proposal at many modes
PRIOR_SHARE = 0.25  # of the draws of a learnt proposal, if they are as many as can be
AFFORDABLE = 400_000  # rows times parameters up to which the path goes on where draws are uneven


class Redrawn(NamedTuple):
    """Draws for the evidence, and their proposal.

    Attributes:
        draws, proposal: the draws, and that from which they come.
        is_enough: whether the evidence may be theirs. Otherwise they can only contradict another.
    """

    draws: WeightedDraws
    proposal: Mixture
    is_enough: bool = True


def if_enough(found: Redrawn | None) -> Redrawn | None:
    """Draws that the evidence may rest on, if they are."""
    return found if found is not None and found.is_enough else None


def draw_anew(
    model: BoundModel,
    rows: Rows,
    population: Population,
    previous: Mixture | None = None,
    growth: float = 1.0,
) -> Redrawn | None:
    """Weighted draws from the posterior of `rows`; None if no proposal is good enough.

    A `previous` proposal was made for fewer rows, by a factor `growth`. Without one, the particles
    are those of the annealed path, and the proposal must cover them; draws that are not enough can
    still contradict the path. The random numbers come from the population's key.
    """
    sampling, particles = Sampling.of(model, rows, population), weighted_particles(model, population)
    if previous is None:
        return redraw_about(sampling, _at_few_modes_or_many(sampling, particles), particles)
    if previous.is_learnt:
        return _learnt_anew(sampling, previous, particles)
    return _at_modes_of_more_rows(sampling, previous, growth)


def _at_few_modes_or_many(sampling: Sampling, particles: Particles) -> Iterator[tuple[Mixture | None, int]]:
    """Proposals about one mode, then about many, with the most batches to draw from each."""
    yield (one := about_one_mode(sampling, particles)), 1
    yield about_many_modes(sampling, particles) or one, FEW_BATCHES


def redraw_about(
    sampling: Sampling, proposals: Iterable[tuple[Mixture | None, int]], particles: Particles
) -> Redrawn | None:
    """Draws from the first proposal that gives enough of them and covers the particles.

    Those at modes come with the largest number of batches to draw, and particles make up for what
    little these may miss. If none will do, a proposal is learnt from the first half of the
    particles. It need not cover the second half, which completes its draws. These may not be
    enough even so; without a proposal there are none.
    """
    model, _, generator, count = sampling
    at_best = None  # the last modes, which a fit may include
    for proposal, max_batches in proposals:
        at_best = proposal
        if proposal is None:
            continue
        draws = weighted_draws(sampling, proposal, max_batches)
        if not is_good(sampling, proposal, draws, particles):
            continue
        at_best, richer = with_modes_beside(sampling, proposal, draws)
        # The same draws have been compared with the particles.
        if richer is draws or is_good(sampling, at_best, richer, particles):
            draws = _completed_about_modes(sampling, at_best, richer, particles)
            return Redrawn(draws, at_best._replace(unseen=unseen(at_best, particles)))
    half, other = particles.halves
    fit = fitted(half, generator) if is_learnable(model) else None
    if fit is None:
        return None
    draws, learnt, _ = _learnt(sampling, with_components(fit, at_best, half))
    found = completed(sampling, learnt, draws, other.folded_to(model, learnt.domain))
    if found is None or not is_enough(found, count):
        return Redrawn(draws, learnt, is_enough=False)
    return Redrawn(found, learnt._replace(unseen=unseen(learnt, particles.folded_to(model, learnt.domain))))


def is_good(sampling: Sampling, proposal: Mixture, draws: WeightedDraws, particles: Particles) -> bool:
    """Whether draws are enough, and their proposal covers the particles."""
    return is_enough(draws, sampling.count) and covers(sampling, proposal, draws, particles)


def _completed_about_modes(
    sampling: Sampling, proposal: Mixture, draws: WeightedDraws, particles: Particles
) -> WeightedDraws:
    """Draws, if uneven with particles where the proposal is thinner than at any draw.

    Particles are at the nearest copies, which are not those of draws if copies are not summed.
    """
    if is_regular(draws, sampling.count) or not is_summed(sampling.model):
        return draws
    found = completed(sampling, proposal, draws, particles, np.max(draws.log_weights))
    return draws if found is None else found._replace(is_completed=True)


def _learnt_anew(sampling: Sampling, previous: Mixture, particles: Particles) -> Redrawn | None:
    """Draws about modes that are Gaussian with more rows, or from a proposal learnt anew.

    Modes whose draws are enough but uneven stand beside the previous proposal, so that less must
    be learnt.
    """
    start = previous
    modes = about_many_modes(sampling, particles)
    if modes is not None:
        draws = weighted_draws(sampling, modes)
        if is_regular(draws, sampling.count) and unreached(sampling, modes, draws, previous).share < MISSED:
            draws = accurate_draws(sampling, modes, draws)
            if is_enough(draws, sampling.count):
                return Redrawn(draws, modes.as_known_as(previous))
        if is_enough(draws, sampling.count):
            start = with_components(previous, modes, particles).as_known_as(previous)
    found = _learnt(sampling, start)
    return found if is_enough(found.draws, sampling.count) else None


def _learnt(sampling: Sampling, start: Mixture) -> Redrawn:
    """Draws from a proposal that is learnt, many if rows are few."""
    proposal = _with_prior(sampling, learn(sampling, start))
    least = CHEAP // cost_of_batch(sampling)
    return Redrawn(weighted_draws(sampling, proposal, MANY_BATCHES, least), proposal)


def _with_prior(sampling: Sampling, learnt: Mixture) -> Mixture:
    """A learnt proposal that draws from the prior, too, if rows are so few that this costs little.

    The prior reaches small modes and far tails that neither the proposal nor particles show. Of
    copies that are not summed, its draws are at others than those of the proposal.
    """
    model, rows, _, count = sampling
    is_cheap = rows.size * count * MANY_BATCHES <= CHEAP and is_summed(model)
    # Of `count` draws a whole number comes from the prior.
    return learnt._replace(prior_share=round(PRIOR_SHARE * count) / count if is_cheap else 0.0)


def _at_modes_of_more_rows(sampling: Sampling, previous: Mixture, growth: float) -> Redrawn | None:
    """Draws about the modes of more rows, of which the draws for fewer rows show new ones.

    The weights must be even, up to a size (`CHECKED`) to which the path is affordable: a proposal
    at the modes of a ridge can miss its arms.
    """
    model, rows, _, count = sampling
    proposal = about(sampling, modes_of_more_rows(sampling, previous.components, growth))
    if proposal is None:
        return None
    draws = weighted_draws(sampling, proposal)
    missed = unreached(sampling, proposal, draws, previous)
    for _ in range(MOST_SEARCHES):
        if missed.share < MISSED:
            break
        richer = with_modes(sampling, proposal, modes_near(sampling, Particles.equal(missed.positions)))
        if richer is None:
            break
        proposal, draws = richer, weighted_draws(sampling, richer)
        missed = unreached(sampling, proposal, draws, previous)
    if missed.share < MISSED and is_regular(draws, count):
        draws = accurate_draws(sampling, proposal, draws)
        if is_enough(draws, count):
            return Redrawn(draws, proposal.as_known_as(previous))
    if rows.num_observations * model.num_parameters <= AFFORDABLE:
        return None
    proposal = proposal.as_known_as(previous)._replace(is_checked=False)
    if is_enough(draws, count):
        return Redrawn(draws, proposal)
    if not is_learnable(model):
        return None
    learnt = _learnt(sampling, proposal)
    return learnt if is_enough(learnt.draws, count) else None


def only_mode(model: BoundModel, rows: Rows, population: Population) -> Mixture | None:
    """A proposal about the only mode that the particles show, if a redraw fails; None if several.

    In many dimensions importance sampling works only with more rows: log weights vary by about
    d³/n². Until then the particles need not follow if the log posterior falls from the mode to
    each of them: then it has no other mode there, and Newton's method follows this one.
    """
    particles = weighted_particles(model, population)
    mode = newton(model, rows, particles.mean)
    if mode is None:
        return None
    rises = ~falls_from(model, rows, mode, particles.positions, 0.01)  # nats of rounding
    return Mixture((mode,)) if particles.share @ rises < MISSED else None


def at_modes_above(model: BoundModel, rows: Rows, population: Population) -> Redrawn | None:
    """Draws from the posterior at the modes above some of the particles of a tempered path.

    The number of a path's steps grows with the distance of the posterior from the prior, in
    standard deviations; that of climbs grows with about its logarithm. And climbs lead to modes
    that moves do not reach. None if the draws' weights are uneven, or the particles show more of
    the posterior; this check is conservative, as many of them are in its tails.
    """
    sampling, particles = Sampling.of(model, rows, population), weighted_particles(model, population)
    modes = modes_above(model, rows, some_of(particles, sampling.generator, NUM_STARTS))
    if not modes:
        return None
    proposal = at_modes(sampling, modes)
    draws = weighted_draws(sampling, proposal)
    if not is_regular(draws, sampling.count) or not covers(sampling, proposal, draws, particles):
        return None
    proposal, draws = with_modes_beside(sampling, proposal, draws)
    proposal = proposal._replace(unseen=unseen(proposal, particles))
    return Redrawn(draws, proposal) if is_enough(draws, sampling.count) else None
