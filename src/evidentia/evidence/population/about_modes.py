"""Proposals about the modes of a posterior: where to search for them, and which are distinct.

One mode is enough for most models. Otherwise, particles annealed from the prior show where to
search: Newton's method from several of them finds more. Where modes are not enough, a mixture is
learnt from the particles (`adapt`).

With many parameters the components are moved from the modes to the means, which are about √(d²/n)
standard deviations apart, for d parameters and n rows: by that much a Gaussian at the mode misses
most of a skewed posterior. The Gaussian nearest in KL(q‖π) has

    E_q[∇ log π] = 0,        Σ⁻¹ = -E_q[∇∇ᵀ log π].

One Newton step from the mode, with the gradients at pairs of draws ±δ, meets the first condition
but for terms of higher order; the trace of the second, by Stein's identity
E_q[δᵀ∇ log π] = tr(Σ E_q[∇∇ᵀ log π]), scales Σ. On a logistic regression with 1,000 parameters and
20,000 rows, importance weights then keep 70% of their draws, instead of 2%.

Modes beside those known are met where neither moves nor temperatures lead the particles. A narrow
mode beside a wide one has a small share at the first temperatures, however much of the posterior
it has at the last (a first-order transition): with 512 particles, one of half the width of another
in five dimensions is lost by one run of many, and nothing later shows it. Likelihoods of few rows
are so cheap that it can be met: by one of many draws from the proposal, by one of those further
inside, or on a ray from the centre of the wide mode, if that points to where the narrow one is the
higher of the two.

Source: Opper and Archambeau (2009), Neural Computation 21, 786, Eq. 8 and 9 (means).
"""

from collections.abc import Iterable, Sequence

import jax
import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from evidentia import weights
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
from evidentia.evidence.population.particles import Particles
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.modes import distinct, is_same, newton
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import fold_onto
from evidentia.posterior.target import expand_prior

NUM_STARTS = 64  # maximum number of particles from which to search for modes
PATIENCE = 8  # starts in vain
MOST_CHANGE = 2.0  # of the scale; if more, the posterior is unlike a Gaussian
MOST_SEARCHES = 4  # for further modes, where a proposal misses some of the posterior
HEAVIEST = 8  # positions from which to search for modes, each for some ten Newton steps
RADII = 16  # positions on a ray
RISE = 1.0  # nats, above rounding


def at_modes(sampling: Sampling, modes: tuple[LocalGaussian, ...]) -> Mixture:
    """A proposal at modes, or at the means about them where these differ."""
    if is_apart(sampling.model, sampling.rows):
        modes = tuple(about_mean(sampling, mode) for mode in modes)
    return Mixture(modes)


def about_one_mode(sampling: Sampling, particles: Particles) -> Mixture | None:
    """A proposal at the mode nearest to the mean of the particles; None if there is none."""
    return about(sampling, [newton(sampling.model, sampling.rows, particles.mean)])


def about_many_modes(sampling: Sampling, particles: Particles) -> Mixture | None:
    """A proposal at the modes nearest to some of the particles; None if there are none."""
    return about(sampling, modes_near(sampling, particles))


def modes_of_more_rows(
    sampling: Sampling, modes: Iterable[LocalGaussian], growth: float
) -> list[LocalGaussian | None]:
    """The modes nearest to those of fewer rows, by a factor `growth`."""
    model, rows, *_ = sampling
    return [newton(model, rows, mode.centre, growth * mode.precision) for mode in modes]


def modes_near(sampling: Sampling, particles: Particles) -> list[LocalGaussian]:
    """Modes nearest to some of the particles, each far from the modes before.

    Random starts would miss one of four equal modes in two searches of five. The search ends when
    0.1% of the particles are far from all modes, or `PATIENCE` starts in a row lead to no new one.
    With many rows it has one start.
    """
    model, rows, generator, _ = sampling
    found: list[LocalGaussian] = []
    share, in_vain = particles.share.copy(), 0
    affordable = 2_000_000 // (rows.size * model.num_parameters)
    for _ in range(max(1, min(NUM_STARTS, affordable))):
        if share.sum() < 0.001 or in_vain == PATIENCE:
            break
        start = generator.choice(len(share), p=share / share.sum())
        mode, share[start], in_vain = newton(model, rows, particles.positions[start]), 0.0, in_vain + 1
        if mode is not None and not any(is_same(model, mode.centre, other) for other in found):
            found, in_vain = [*found, mode], 0
            share = np.where(is_near(mode, particles.positions), 0.0, share)
    return found


def is_near(
    mode: LocalGaussian, positions: Float[ndarray, "particles parameters"]
) -> Bool[ndarray, " particles"]:
    """Whether positions are where draws of a Gaussian are, but for some in 100,000."""
    size = len(mode.centre)
    return mode.distances(positions) ** 2 < size + 4 * np.sqrt(2 * size) + 10


def falls_from(
    model: BoundModel,
    rows: Rows,
    mode: LocalGaussian,
    positions: Float[ndarray, "particles parameters"],
    tolerance: float,
) -> Bool[ndarray, " particles"]:
    """Whether the log posterior falls, but for a tolerance in nats, all the way from a mode."""
    shares = np.linspace(0.0, 1.0, 8)
    line = [log_posteriors(model, rows, mode.centre + share * (positions - mode.centre)) for share in shares]
    with np.errstate(invalid="ignore"):  # where it is zero, it does not rise to the mode
        return np.all(np.diff(line, axis=0) < tolerance, axis=0)


def about(sampling: Sampling, found: Sequence[LocalGaussian | None]) -> Mixture | None:
    """A proposal at the distinct ones of some modes; None if there are none."""
    modes = distinct(sampling.model, found)
    return at_modes(sampling, modes) if modes else None


def with_modes(
    sampling: Sampling, proposal: Mixture, found: Sequence[LocalGaussian | None]
) -> Mixture | None:
    """The proposal with further modes; None if none of those found is new."""
    richer = about(sampling, [*proposal.components, *found]) if found else None
    is_richer = richer is not None and len(richer.components) > len(proposal.components)
    return richer if is_richer else None


def is_apart(model: BoundModel, rows: Rows) -> bool:
    """Whether mode and mean may differ by enough to matter to importance sampling.

    They differ from d²/n = 0.1 on. With fewer than 20 parameters, importance sampling from the
    mode is good enough.
    """
    size = model.num_parameters
    return size >= 20 and size**2 > 0.1 * rows.num_observations


def about_mean(sampling: Sampling, gaussian: LocalGaussian) -> LocalGaussian:
    """The Gaussian moved to the mean and scaled; itself if it is unlike the posterior."""
    model, rows, generator, _ = sampling
    steps = gaussian.draw(generator, 32) - gaussian.centre
    steps = np.concatenate([steps, -steps])
    gradients = np.stack([_gradient(model, rows, gaussian.centre + step) for step in steps])
    scale = -np.mean(np.sum(steps * gradients, axis=1)) / model.num_parameters
    if not np.isfinite(gradients).all() or not 1 / MOST_CHANGE < scale < MOST_CHANGE:
        return gaussian
    shift = np.linalg.solve(gaussian.precision, gradients.mean(0))
    return gaussian._replace(centre=gaussian.centre + shift, precision=scale * gaussian.precision)


def _gradient(
    model: BoundModel, rows: Rows, position: Float[ndarray, " parameters"]
) -> Float[ndarray, " parameters"]:
    likelihood = rows.expand(model, position, hessian=False)
    return likelihood.gradient + expand_prior(model, position).gradient


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
        # One position in 10⁴ is met ten times.
        num_looks = max(least, min(2**17, num_free_looks(model, rows)))
        within = proposal.draw_within(generator, num_looks)
        some = np.asarray(draws.positions, np.float64)[:count]
        # The density at one copy is enough here, and cheaper than at all copies. `count` positions
        # have a program already.
        usual = log_posteriors(model, rows, some, most=count) - proposal.log_density(some)
        ratios = log_posteriors(model, rows, within) - proposal.log_density(within)
        order = np.argsort(-ratios)[:HEAVIEST]
        found.append(within[order[ratios[order] > np.max(usual)]])
    return np.concatenate(found) if found else np.empty((0, model.num_parameters))


def rises(sampling: Sampling, proposal: Mixture) -> Float[ndarray, "rises parameters"]:
    """Where the posterior rises on rays from modes, and does not rise all the way to one of these.

    They are in the order of their heights, `HEAVIEST` at most. There are none where likelihoods
    cost too much, or the proposal was learnt, so that its components are not at modes.
    """
    model, rows, generator, _ = sampling
    # Of some peaks in ten dimensions, eight were missed with 8,192 rays, seven with 65,536.
    num_rays = min(16_384, num_free_looks(model, rows) // RADII)
    if proposal.is_learnt or num_rays < 512:  # fewer find next to nothing
        return np.empty((0, model.num_parameters))
    positions = _on_rays(model, proposal, generator, num_rays)
    heights = log_posteriors(model, rows, positions)
    lowest = np.minimum.accumulate(heights, axis=1)
    with np.errstate(invalid="ignore"):  # from where the posterior is zero, nothing rises
        above = np.where(lowest > -np.inf, heights - lowest, 0.0)
    top = np.argmax(above, axis=1)[:, None]
    at_top, rise = (np.take_along_axis(values, top, 1)[:, 0] for values in (heights, above))
    chosen = np.flatnonzero(rise > RISE)
    chosen = chosen[np.argsort(-at_top[chosen])][:512]
    found = positions[chosen, top[chosen, 0]]
    return found[~_is_known(sampling, proposal, found)][:HEAVIEST] if chosen.size else found


def _on_rays(
    model: BoundModel, proposal: Mixture, generator: np.random.Generator, num_rays: int
) -> Float[ndarray, "rays radii parameters"]:
    """Positions on rays from the modes, from a standard deviation to where the prior ends.

    Nine tenths of its draws are closer to the mode than that.
    """
    prior = np.asarray(model.sample_prior(jax.random.key(0), 1024), np.float64)
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
    radii = np.geomspace(nearest, max(2 * nearest, np.quantile(mode.distances(prior), 0.9)), RADII)
    ends = mode.draw(generator, count)
    steps = (ends - mode.centre) / mode.distances(ends)[:, None]
    return mode.centre + radii[:, None] * steps[:, None, :]


def _is_known(
    sampling: Sampling, proposal: Mixture, positions: Float[ndarray, "rises parameters"]
) -> Bool[ndarray, " rises"]:
    """Whether the posterior rises all the way from each position to one of four modes near it."""
    is_known = np.zeros(len(positions), bool)
    order = np.argsort(-proposal.log_terms(positions), axis=0)[:4]
    for index in np.unique(order):
        its = np.flatnonzero((order == index).any(axis=0) & ~is_known)
        if its.size:
            mode = proposal.components[index]
            copies = fold_onto(sampling.model, mode.centre, positions[its])
            is_known[its] = falls_from(sampling.model, sampling.rows, mode, copies, RISE)
    return is_known
