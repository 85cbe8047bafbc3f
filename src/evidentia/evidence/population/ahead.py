"""Redraw far ahead: for many more rows than the path has processed, if its redraws fail.

Until a redraw succeeds, each step of the path moves the particles with all rows so far; to reach
100,000 rows takes minutes. But particles of few rows are spread over the posterior, and climbs
from them lead to the modes of many rows. Draws about these can miss what is not Gaussian, without
a sign of it: up to half of the posterior, for mixtures of five components and 20,000 rows. So the
draws are moved by an exact kernel, which carries some of them there, and the proposal of the
redraw must cover them.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.evidence.population.about_modes import NUM_STARTS, at_modes, modes_of_more_rows
from evidentia.evidence.population.importance import Sampling, weighted_draws
from evidentia.evidence.population.moves import PathSettings, StepInfo, move_particles
from evidentia.evidence.population.particles import (
    Population,
    resample_particles,
    some_of,
    split_key,
    weighted_particles,
)
from evidentia.evidence.population.redrawing import AFFORDABLE, FEW_BATCHES, Redrawn, if_enough, redraw_about
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.gradients import FullBatch
from evidentia.posterior.modes import distinct, few_of, refined_modes_above
from evidentia.posterior.rows import Positions, Rows, Window
from evidentia.posterior.target import posterior


def redraw_ahead(
    settings: PathSettings,
    model: BoundModel,
    rows: Window,
    population: Population,
    moved: int = 3 * AFFORDABLE,
) -> Redrawn | None:
    """Weighted draws from the posterior of `rows`, given particles of many fewer of them.

    They are moved with so many rows that these times the parameters are `moved`. None if they show
    no mode, no proposal gives enough draws that cover the posterior, or there is no exact kernel.
    """
    if settings.exact_kernel is None:
        return None
    sampling = Sampling.of(model, rows, population)
    few = rows.sample(max(1, moved // model.num_parameters))
    starts = some_of(weighted_particles(model, population), sampling.generator, NUM_STARTS)
    found = refined_modes_above(model, few, few_of(model, few), starts)
    growth = rows.num_observations / few.size
    modes = distinct(model, modes_of_more_rows(sampling, found, growth))
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
    sketch = few if few.size == rows.size else sketch_of(model, rows, few, modes[0])
    population = moved_by_sketch(settings, model, rows, sketch, population, sampling.generator)
    particles = weighted_particles(model, population)
    return if_enough(redraw_about(sampling, [(proposal, FEW_BATCHES)], particles))


def moved_by_sketch(
    settings: PathSettings,
    model: BoundModel,
    rows: Window,
    sketch: Window,
    population: Population,
    generator: np.random.Generator,
) -> Population:
    """Particles after moves by a `sketch` that leave the posterior of all rows invariant.

    All rows are too many for such moves. A move from θ to θ' by the likelihood L of the sketch,
    which can be wrong by hundreds of nats far from its mode, is accepted with the probability
    min(1, p(D | θ') exp L(θ) / p(D | θ) exp L(θ')), for one pass over all rows.

    Source: Christen and Fox (2005), Journal of Computational and Graphical Statistics 14, 795
    (delayed acceptance).
    """
    settings = settings._replace(gradient=FullBatch(), is_repeating=False, resampling=None)
    count = len(population.log_weights)
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
    return population


def sketch_of(model: BoundModel, rows: Window, few: Window, mode: LocalGaussian) -> Window:
    """R of n rows in place of all, with the expansion Q of what they lack about a mode of all.

        Σ_{i ≤ n} ℓ_i(θ) ≈ L(θ) = (n/R) Σ_{i in few} ℓ_i(θ) + Q(θ)

    Source: Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical Association
    114, 831, Eq. 5.
    """
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
