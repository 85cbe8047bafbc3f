"""A redraw for many more rows than a path has processed, if its redraws fail.

Until a redraw succeeds, each step of the path moves the particles with all rows so far, which
takes minutes up to 100,000 rows. But particles of few rows are spread over the posterior, and
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

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from evidentia.evidence.path.importance import weighted_draws
from evidentia.evidence.path.moves import PathSettings, StepInfo, move_particles
from evidentia.evidence.path.population import (
    Population,
    host_generator,
    resample_particles,
    split_key,
)
from evidentia.evidence.path.proposal import Particles, at_modes, some_of, weighted_particles
from evidentia.evidence.path.redrawing import Redrawn, redraw_about
from evidentia.model.bound import BoundModel
from evidentia.posterior.gradients import FullBatch
from evidentia.posterior.modes import distinct, modes_from, newton
from evidentia.posterior.rows import Window
from evidentia.posterior.target import posterior

NUM_STARTS = 64  # particles from which to climb, at most
NUM_MOVES = 4
FEW = 1_200_000  # rows times parameters with which particles are moved


def redraw_ahead(
    settings: PathSettings, model: BoundModel, rows: Window, population: Population
) -> Redrawn | None:
    """Weighted draws from the posterior of `rows`, given particles of fewer of them.

    None if they show no mode, or no proposal gives enough draws that cover the posterior.
    """
    generator, count = host_generator(population.key), len(population.log_weights)
    few = rows.sample(max(1, FEW // model.num_parameters))
    starts = some_of(weighted_particles(model, population), generator, NUM_STARTS)
    growth, found = rows.num_observations / few.size, modes_from(model, few, starts)
    modes = distinct(model, [newton(model, rows, mode.centre, growth * mode.precision) for mode in found])
    if not modes:
        return None
    proposal = at_modes(model, rows, modes, generator)
    draws = weighted_draws(model, rows, proposal, generator, count, 1)
    if not np.isfinite(draws.log_evidence):
        return None
    population = draws.population(split_key(population.key)[0], count)
    sketch = _sketch(model, rows, few, modes[0].centre)
    particles = _moved(settings, model, rows, sketch, resample_particles(population, "systematic"), generator)
    return redraw_about(model, rows, proposal, particles, generator, count)


def _moved(
    settings: PathSettings,
    model: BoundModel,
    rows: Window,
    sketch: Window,
    population: Population,
    generator: np.random.Generator,
) -> Particles:
    """Particles after moves by a sketch of the rows that keep the posterior of all invariant."""
    count = len(population.log_weights)
    settings = settings._replace(gradient=FullBatch(), is_repeating=False, resampling=None)
    lacks = _lacks(model, rows, sketch, population.positions)
    for _ in range(NUM_MOVES):
        there, _ = move_particles(
            settings, model, population, np.zeros(count), posterior(sketch), StepInfo(1.0)
        )
        lacks_there = _lacks(model, rows, sketch, there.positions)
        is_accepted = np.log(generator.random(count)) < lacks_there - lacks
        lacks = np.where(is_accepted, lacks_there, lacks)
        positions = np.where(is_accepted[:, None], there.positions, population.positions)
        population = there._replace(positions=jnp.asarray(positions))
    return weighted_particles(model, population)


def _sketch(model: BoundModel, rows: Window, few: Window, centre: np.ndarray) -> Window:
    """Few of the rows in place of all, with the expansion of what they lack."""
    if few.size == rows.num_observations:
        return few
    weight = rows.num_observations / few.size
    missing = rows.expand(model, centre).plus(few.expand(model, centre), -weight)
    return Window(few.arrays, few.start, few.stop, weight, missing)


def _lacks(model: BoundModel, rows: Window, sketch: Window, positions) -> Float[np.ndarray, " particles"]:
    """The log-likelihood that a sketch lacks at positions, in nats."""
    if sketch.num_observations == sketch.size:  # all rows
        return np.zeros(len(positions))
    (exact, offset), (near, near_offset) = (each.log_likelihoods(model, positions) for each in (rows, sketch))
    with np.errstate(invalid="ignore"):  # both are -inf where a row has zero likelihood
        return exact - near + (offset - near_offset)
