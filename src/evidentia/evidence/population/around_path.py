"""Ways around a path: from its particles to the modes above them, or to the only mode there is."""

import jax.numpy as jnp
import numpy as np

from evidentia.evidence.population.about_modes import at_modes
from evidentia.evidence.population.check import MISSED, covers, unseen
from evidentia.evidence.population.importance import is_enough, is_regular, weighted_draws
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Population, host_generator, some_of, weighted_particles
from evidentia.evidence.population.redrawing import Redrawn, with_modes_beside
from evidentia.model.bound import BoundModel
from evidentia.posterior.modes import modes_above, newton
from evidentia.posterior.rows import Rows

MANY_STARTS = 64  # particles from which to search for modes that a path does not reach
ON_LINE = 9  # points between the mode and a particle
ROUNDING = 0.01  # nats


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
    highest, rises = np.inf, np.zeros(len(particles.share), bool)
    for share in np.linspace(0.0, 1.0, ON_LINE):
        positions = jnp.asarray(mode.centre + share * (particles.positions - mode.centre), jnp.float32)
        deviations, offset = rows.log_likelihoods(model, positions)
        heights = deviations + offset + model.log_priors(positions)
        rises |= ~(heights < highest + ROUNDING)
        highest = heights
    return Mixture((mode,)) if particles.share @ rises < MISSED else None


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
    proposal, draws = with_modes_beside(model, rows, proposal, draws, generator, count)
    proposal = proposal._replace(unseen=unseen(proposal, particles))
    return Redrawn(draws, proposal) if is_enough(draws, count) else None
