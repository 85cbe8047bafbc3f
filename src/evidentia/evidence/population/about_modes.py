"""Proposals about the modes of a posterior: where to search for them, and which are distinct.

One mode is enough for most models. Otherwise, particles annealed from the prior show where to
search: Newton's method from several of them finds more. With many parameters the components are
moved from the modes to the means (`means`). Where modes are not enough, a mixture is learnt from
the particles (`adapt`).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Particles
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.means import about_mean, is_apart
from evidentia.posterior.modes import distinct, is_same, newton
from evidentia.posterior.rows import Rows

NUM_STARTS = 64  # maximum number of particles from which to search for modes
PATIENCE = 8  # starts in vain
UNSEARCHED = 0.001  # share of the particles, far from the modes found, that needs no search
MAX_SEARCHED = 2_000_000  # maximum of rows times parameters times these particles


def at_modes(
    model: BoundModel, rows: Rows, modes: tuple[LocalGaussian, ...], generator: np.random.Generator
) -> Mixture:
    """A proposal at modes, or at the means about them where these differ."""
    if is_apart(model, rows):
        modes = tuple(about_mean(model, rows, mode, generator) for mode in modes)
    return Mixture(modes)


def about_one_mode(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator
) -> Mixture | None:
    """A proposal at the mode nearest to the mean of the particles; None if there is none."""
    return about(model, rows, [newton(model, rows, particles.mean)], generator)


def about_many_modes(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator
) -> Mixture | None:
    """A proposal at the modes nearest to some of the particles; None if there are none."""
    return about(model, rows, modes_near(model, rows, particles, generator), generator)


def modes_of_more_rows(
    model: BoundModel, rows: Rows, proposal: Mixture, growth: float
) -> list[LocalGaussian | None]:
    """The modes nearest to those of a proposal for fewer rows, by a factor `growth`."""
    return [newton(model, rows, mode.centre, growth * mode.precision) for mode in proposal.components]


def modes_near(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator
) -> list[LocalGaussian]:
    """Modes nearest to some of the particles, each far from the modes before.

    Random starts would miss one of four equal modes in two searches of five. The search ends when
    few particles are far from all modes, or `PATIENCE` starts in a row lead to no new one.
    """
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


def is_near(mode: LocalGaussian, positions: Float[np.ndarray, "particles parameters"]) -> np.ndarray:
    """Whether positions are where draws of a Gaussian are, but for some in 100,000."""
    size = len(mode.centre)
    steps = positions - mode.centre
    return np.einsum("pi,ij,pj->p", steps, mode.precision, steps) < size + 4 * np.sqrt(2 * size) + 10


def about(
    model: BoundModel, rows: Rows, found: Sequence[LocalGaussian | None], generator: np.random.Generator
) -> Mixture | None:
    """A proposal at the distinct ones of some modes; None if there are none."""
    modes = distinct(model, found)
    return at_modes(model, rows, modes, generator) if modes else None
