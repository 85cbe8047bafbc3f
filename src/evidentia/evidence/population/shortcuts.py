"""Ways around a path, from its particles to the modes above them, or to the only mode there is.

`only_mode` and `at_modes_above` serve paths that are long, or whose particles do not leave their
modes. `redraw_ahead` redraws for many more rows than a path has processed, if its redraws fail.

Until a redraw succeeds, each step of the path moves the particles with all rows so far; to reach
100,000 rows takes minutes. But particles of few rows are spread over the posterior, and
climbs from them lead to the modes of many rows. Draws about these can miss what is not Gaussian,
without a sign of it: up to half of the posterior, for mixtures of five components and 20,000 rows.
So the draws are moved by an exact kernel, which carries some of them there, and the proposal of
the redraw must cover them.

All rows are too many for such moves. A sample of R out of n rows stands for them, with the
expansion Q, about the largest mode, of what it lacks,

    Σ_{i ≤ n} ℓ_i(θ) ≈ L(θ) = (n/R) Σ_{i in sample} ℓ_i(θ) + Q(θ).

A move from θ to θ' by L, which can be wrong by hundreds of nats far from that mode, is accepted
with the probability min(1, p(D | θ') exp L(θ) / p(D | θ) exp L(θ')), for one pass over all rows.

Source: Christen and Fox (2005), Journal of Computational and Graphical Statistics 14, 795 (delayed
acceptance); Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical Association
114, 831, Eq. 5 (a sample of rows about an expansion).
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.evidence.population.about_modes import NUM_STARTS, at_modes, falls_from, with_modes_beside
from evidentia.evidence.population.check import MISSED, covers, unseen
from evidentia.evidence.population.importance import Sampling, is_enough, is_regular, weighted_draws
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.moves import PathSettings, StepInfo, move_particles
from evidentia.evidence.population.particles import (
    Particles,
    Population,
    resample_particles,
    some_of,
    split_key,
    weighted_particles,
)
from evidentia.evidence.population.redrawing import FEW_BATCHES, Redrawn, redraw_about
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.gradients import FullBatch
from evidentia.posterior.modes import distinct, few_of, modes_above, newton, refined_modes_above
from evidentia.posterior.rows import Positions, Rows, Window
from evidentia.posterior.target import posterior

ROUNDING = 0.01  # nats by which a log posterior that falls may rise
FEW = 1_200_000  # rows times parameters with which particles are moved


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
    rises = ~falls_from(model, rows, mode, particles.positions, ROUNDING)
    return Mixture((mode,)) if particles.share @ rises < MISSED else None


def at_modes_above(model: BoundModel, rows: Rows, population: Population) -> Redrawn | None:
    """Draws from the posterior at the modes above some of the particles of a tempered path.

    The number of a path's steps grows with the distance of the posterior from the prior, in
    standard deviations; that of climbs grows with about its logarithm. And climbs lead to modes
    that moves do not reach. None if the draws' weights are uneven, or the particles show more of
    the posterior: many are in its tails, so this is said rather too often.
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


def redraw_ahead(
    settings: PathSettings, model: BoundModel, rows: Window, population: Population
) -> Redrawn | None:
    """Weighted draws from the posterior of `rows`, given particles of fewer of them.

    None if they show no mode, no proposal gives enough draws that cover the posterior, or there is
    no exact kernel.
    """
    if settings.exact_kernel is None:
        return None
    sampling = Sampling.of(model, rows, population)
    few = rows.sample(max(1, FEW // model.num_parameters))
    starts = some_of(weighted_particles(model, population), sampling.generator, NUM_STARTS)
    found = refined_modes_above(model, few, few_of(model, few), starts)
    growth = rows.num_observations / few.size
    modes = distinct(model, [newton(model, rows, mode.centre, growth * mode.precision) for mode in found])
    if not modes:
        return None
    proposal = at_modes(sampling, modes)
    draws = weighted_draws(sampling, proposal)
    if not np.isfinite(draws.log_evidence):
        return None
    _, key = split_key(population.key)  # the first is of the particles drawn anew, or of the path
    population = resample_particles(draws.population(key, sampling.count), "systematic")
    # A sketch is not the same in all copies, so all particles must be of that of its mode.
    folded = weighted_particles(model, population).positions
    population = population._replace(positions=jnp.asarray(folded, jnp.float32))
    sketch = few if few.size == rows.size else _sketch(model, rows, few, modes[0])
    particles = _moved(sampling, settings, sketch, population)
    return redraw_about(sampling, [(proposal, FEW_BATCHES)], particles)


def _moved(sampling: Sampling, settings: PathSettings, sketch: Window, population: Population) -> Particles:
    """Particles after moves by a sketch that leave the posterior of all rows invariant."""
    model, rows, generator, count = sampling
    settings = settings._replace(gradient=FullBatch(), is_repeating=False, resampling=None)
    lacks = _lacks(model, rows, sketch, population.positions)
    for _ in range(4):
        there, _ = move_particles(
            settings, model, population, np.zeros(count), posterior(sketch), StepInfo(1.0)
        )
        lacks_there = _lacks(model, rows, sketch, there.positions)
        is_accepted = np.log(generator.random(count)) < lacks_there - lacks
        lacks = np.where(is_accepted, lacks_there, lacks)
        positions = np.where(is_accepted[:, None], there.positions, population.positions)
        population = there._replace(positions=jnp.asarray(positions))
    return weighted_particles(model, population)


def _sketch(model: BoundModel, rows: Window, few: Window, mode: LocalGaussian) -> Window:
    """Few of the rows in place of all, with what they lack, expanded about a mode of all."""
    assert mode.expansion is not None  # Newton's method has found it
    weight = rows.num_observations / few.size
    remainder = mode.expansion.plus(few.expand(model, mode.centre), -weight)
    return replace(few, weight=weight, remainder=remainder)


def _lacks(
    model: BoundModel, rows: Rows, sketch: Window, positions: Positions
) -> Float[np.ndarray, " particles"]:
    """The log-likelihood of the rows minus that of a sketch at positions, in nats."""
    if sketch.weight == 1.0:  # all rows
        return np.zeros(len(positions))
    (exact, offset), (near, near_offset) = (each.log_likelihoods(model, positions) for each in (rows, sketch))
    with np.errstate(invalid="ignore"):  # both are -inf where a row has zero likelihood
        return exact - near + (offset - near_offset)
