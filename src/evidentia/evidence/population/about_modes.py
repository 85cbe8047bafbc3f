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

Source: Opper and Archambeau (2009), Neural Computation 21, 786, Eq. 8 and 9 (means).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from evidentia.evidence.population.importance import Sampling, log_posteriors
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Particles
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.modes import distinct, is_same, newton
from evidentia.posterior.rows import Rows
from evidentia.posterior.target import expand_prior

NUM_STARTS = 64  # maximum number of particles from which to search for modes
PATIENCE = 8  # starts in vain
UNSEARCHED = 0.001  # share of the particles, far from the modes found, that needs no search
MAX_SEARCHED = 2_000_000  # maximum of rows times parameters times these particles
ON_LINE = 8  # positions on the way from a mode
NUM_PAIRS = 32  # of draws at which gradients are averaged
MANY = 20  # parameters; with fewer, importance sampling from the mode is good enough
APART = 0.1  # d²/n from which mean and mode differ
MOST_CHANGE = 2.0  # of the scale; if more, the posterior is unlike a Gaussian


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


def modes_of_more_rows(sampling: Sampling, proposal: Mixture, growth: float) -> list[LocalGaussian | None]:
    """The modes nearest to those of a proposal for fewer rows, by a factor `growth`."""
    model, rows, *_ = sampling
    return [newton(model, rows, mode.centre, growth * mode.precision) for mode in proposal.components]


def modes_near(sampling: Sampling, particles: Particles) -> list[LocalGaussian]:
    """Modes nearest to some of the particles, each far from the modes before.

    Random starts would miss one of four equal modes in two searches of five. The search ends when
    few particles are far from all modes, or `PATIENCE` starts in a row lead to no new one.
    """
    model, rows, generator, _ = sampling
    found: list[LocalGaussian] = []
    share, in_vain = particles.share.copy(), 0
    for _ in range(min(NUM_STARTS, MAX_SEARCHED // (rows.size * model.num_parameters))):
        if share.sum() < UNSEARCHED or in_vain == PATIENCE:
            break
        start = generator.choice(len(share), p=share / share.sum())
        mode, share[start], in_vain = newton(model, rows, particles.positions[start]), 0.0, in_vain + 1
        if mode is not None and not any(is_same(model, mode.centre, other) for other in found):
            found, in_vain = [*found, mode], 0
            share = np.where(is_near(mode, particles.positions), 0.0, share)
    return found


def is_near(
    mode: LocalGaussian, positions: Float[np.ndarray, "particles parameters"]
) -> Bool[np.ndarray, " particles"]:
    """Whether positions are where draws of a Gaussian are, but for some in 100,000."""
    size = len(mode.centre)
    return mode.distances(positions) ** 2 < size + 4 * np.sqrt(2 * size) + 10


def falls_from(
    model: BoundModel,
    rows: Rows,
    mode: LocalGaussian,
    positions: Float[np.ndarray, "particles parameters"],
    tolerance: float,
) -> Bool[np.ndarray, " particles"]:
    """Whether the log posterior falls, but for a tolerance in nats, all the way from a mode."""
    shares = np.linspace(0.0, 1.0, ON_LINE)
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
    """Whether mode and mean may differ by enough to matter to importance sampling."""
    size = model.num_parameters
    return size >= MANY and size**2 > APART * rows.num_observations


def about_mean(sampling: Sampling, gaussian: LocalGaussian) -> LocalGaussian:
    """The Gaussian moved to the mean and scaled; itself if it is unlike the posterior."""
    model, rows, generator, _ = sampling
    steps = gaussian.draw(generator, NUM_PAIRS) - gaussian.centre
    steps = np.concatenate([steps, -steps])
    gradients = np.stack([_gradient(model, rows, gaussian.centre + step) for step in steps])
    scale = -np.mean(np.sum(steps * gradients, axis=1)) / model.num_parameters
    if not np.isfinite(gradients).all() or not 1 / MOST_CHANGE < scale < MOST_CHANGE:
        return gaussian
    shift = np.linalg.solve(gaussian.precision, gradients.mean(0))
    return gaussian._replace(centre=gaussian.centre + shift, precision=scale * gaussian.precision)


def _gradient(
    model: BoundModel, rows: Rows, position: Float[np.ndarray, " parameters"]
) -> Float[np.ndarray, " parameters"]:
    likelihood = rows.expand(model, position, hessian=False)
    return likelihood.gradient + expand_prior(model, position).gradient
