"""Modes beside those known, on rays from these on which the posterior density falls and rises.

Particles reach a mode in proportion to its size at the first temperatures, where a narrow one is
small however much of the posterior it has: with 512 particles, one of half the width of another in
five dimensions is lost by one run of many, and nothing later shows it. A ray from the centre of
a wide mode meets a narrow one if it points to where that one is the higher of the two, and
likelihoods of few rows are so cheap that thousands of rays take less time than a move.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia.evidence.population.importance import num_free_looks
from evidentia.evidence.population.mixture import Mixture
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import fold

RADII = 16  # positions on a ray
MOST_RAYS = 16_384  # of some peaks in ten dimensions, eight were missed with 8,192, seven with 65,536
LEAST_RAYS = 512  # fewer find next to nothing
SCALE = 1024  # prior draws that say how far a ray goes
FAR = 0.9  # of these are closer than its end
RISE = 1.0  # nats, above rounding
CHECKED = 512  # of the highest rises
ON_LINE = 8  # positions on the way from a rise to a mode
BLOCK = CHECKED * ON_LINE  # positions at a time
NEAREST = 4  # modes to which a rise may lead


def rises(
    model: BoundModel, rows: Rows, proposal: Mixture, generator: np.random.Generator, most: int
) -> Float[ndarray, "rises parameters"]:
    """Where the posterior rises on rays from modes, and does not rise all the way to one of these.

    They are in the order of their heights, `most` at most. There are none where likelihoods cost
    too much, or the proposal was learnt, so that its components are not at modes.
    """
    num_rays = min(MOST_RAYS, num_free_looks(model, rows) // RADII)
    if proposal.is_learnt or num_rays < LEAST_RAYS:
        return np.empty((0, model.num_parameters))
    positions = _on_rays(model, proposal, generator, num_rays)
    heights = _log_posteriors(model, rows, positions)
    lowest = np.minimum.accumulate(heights, axis=1)
    with np.errstate(invalid="ignore"):  # from where the posterior is zero, nothing rises
        above = np.where(lowest > -np.inf, heights - lowest, 0.0)
    top = np.argmax(above, axis=1)[:, None]
    at_top, rise = (np.take_along_axis(values, top, 1)[:, 0] for values in (heights, above))
    chosen = np.flatnonzero(rise > RISE)
    chosen = chosen[np.argsort(-at_top[chosen])][:CHECKED]
    if not chosen.size:
        return np.empty((0, model.num_parameters))
    found = positions[chosen, top[chosen, 0]]
    return found[~_is_known(model, rows, proposal, found)][:most]


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
    step = prior - mode.centre
    distances = np.sqrt(np.einsum("pi,ij,pj->p", step, mode.precision, step))
    nearest = np.sqrt(len(mode.centre))
    radii = np.geomspace(nearest, max(2 * nearest, np.quantile(distances, FAR)), RADII)
    ends = mode.draw(generator, count) - mode.centre
    ends /= np.sqrt(np.einsum("pi,ij,pj->p", ends, mode.precision, ends))[:, None]
    return mode.centre + radii[:, None] * ends[:, None, :]


def _is_known(
    model: BoundModel, rows: Rows, proposal: Mixture, positions: Float[ndarray, "rises parameters"]
) -> Bool[ndarray, " rises"]:
    """Whether the posterior rises all the way from each position to one of the modes near it."""
    is_known = np.zeros(len(positions), bool)
    order = np.argsort(-proposal.log_terms(positions), axis=0)[:NEAREST]
    for index in np.unique(order):
        its = np.flatnonzero((order == index).any(axis=0) & ~is_known)
        if its.size:
            path = _between(model, proposal.components[index], positions[its])
            heights = _log_posteriors(model, rows, path)
            is_known[its] = np.all(np.diff(heights, axis=1) > -RISE, axis=1)
    return is_known


def _between(
    model: BoundModel, mode: LocalGaussian, positions: Float[ndarray, "rises parameters"]
) -> Float[ndarray, "rises line parameters"]:
    """Positions on the lines to a mode, each from the copy nearest to it."""
    if model.symmetry:
        both = jnp.asarray(np.concatenate([mode.centre[None], positions]), jnp.float32)
        only_mode = np.eye(1, len(both))[0]
        positions = np.asarray(fold(model, both, only_mode)[0], np.float64)[1:]
    share = np.linspace(0.0, 1.0, ON_LINE)[:, None]
    return positions[:, None, :] + share * (mode.centre - positions)[:, None, :]


def _log_posteriors(
    model: BoundModel, rows: Rows, positions: Float[ndarray, "rays radii parameters"]
) -> Float[ndarray, "rays radii"]:
    """Log posterior densities, unnormalised; -inf where they are unknown."""
    flat, heights = positions.reshape(-1, positions.shape[-1]), []
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        full = jnp.asarray(np.resize(block, (BLOCK, flat.shape[1])), jnp.float32)  # one program for all
        deviations, offset = rows.log_likelihoods(model, full)
        heights.append((deviations + offset + model.log_priors(full))[: len(block)])
    together = np.concatenate(heights)
    return np.where(np.isnan(together), -np.inf, together).reshape(positions.shape[:2])
