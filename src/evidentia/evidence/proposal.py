"""The proposal of importance sampling: Student t's about the modes of the posterior, as a mixture.

One mode is enough for most models. Where it is not, particles that came from the prior by annealing show where to look:
Newton's method from several of them finds more modes, and a component with the mean and covariance of particles, or of
weighted draws, follows a posterior that is skewed.

Source: Cappé, Douc, Guillin, Marin, Robert (2008), Statistics and Computing 18, 447 (mixtures adapted to weighted draws).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.laplace import LocalGaussian, draw_student_t, laplace_approximation, log_student_t
from evidentia.model import BoundModel
from evidentia.rows import Rows

NUM_STARTS = 8  # particles from which modes are searched,
MAX_SEARCHED = 200_000  # as long as rows times particles are no more
MIN_LOG_MASS = -12.0  # of a mode beside the largest, in nats: below, it is forgotten


class Particles(NamedTuple):
    """Positions in float64 with shares that sum to one; interchangeable components are in the same order in all."""

    positions: Float[np.ndarray, "particles parameters"]
    share: Float[np.ndarray, " particles"]

    @property
    def mean(self) -> Float[np.ndarray, " parameters"]:
        """The weighted mean."""
        return self.share @ self.positions


class Proposal(NamedTuple):
    """A mixture of Student t's, one about each mode."""

    modes: tuple[LocalGaussian, ...]

    @property
    def shares(self) -> Float[np.ndarray, " modes"]:
        """Of the draws: as the square root of the mass, which Laplace's approximation may have wrong by a lot."""
        roots = 0.5 * np.array([mode.log_mass for mode in self.modes])
        return np.exp(weights.normalise(roots))

    def draw(self, key: Array, count: int) -> Float[Array, "draws parameters"]:
        """Independent draws, float32, those of one mode after those of another."""
        # NumPy's generator: JAX's chi-square takes longer than the likelihood of a thousand rows.
        generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        counts = generator.multinomial(count, self.shares)
        draws = [draw_student_t(generator, mode, size) for mode, size in zip(self.modes, counts, strict=True)]
        return jnp.asarray(np.concatenate(draws), jnp.float32)

    def log_density(self, positions: Float[np.ndarray, "draws parameters"]) -> Float[np.ndarray, " draws"]:
        """Log density at positions, in float64."""
        terms = [
            np.log(share) + log_student_t(mode, positions)
            for share, mode in zip(self.shares, self.modes, strict=True)
        ]
        return np.logaddexp.reduce(terms, axis=0)


def about_one_mode(model: BoundModel, rows: Rows, particles: Particles) -> Proposal | None:
    """About the mode nearest to the mean of the particles; None if there is none."""
    found = laplace_approximation(model, rows, particles.mean)
    return None if found is None else Proposal((found,))


def about_many_modes(model: BoundModel, rows: Rows, particles: Particles, key: Array) -> Proposal | None:
    """About the modes nearest to some of the particles; None if there are none."""
    modes = _distinct(_from_particles(model, rows, particles, key))
    return Proposal(modes) if modes else None


def with_more_rows(
    model: BoundModel, rows: Rows, proposal: Proposal, growth: float, particles: Particles, key: Array
) -> Proposal | None:
    """About the modes that earlier ones lead to, when rows have become more by a factor.

    Where those were several, new ones are searched from some of the particles too.
    """
    found = [
        laplace_approximation(model, rows, mode.mode, growth * mode.precision) for mode in proposal.modes
    ]
    if len(proposal.modes) > 1:
        found += _from_particles(model, rows, particles, key)
    modes = _distinct(found)
    return Proposal(modes) if modes else None


def with_moments(proposal: Proposal, particles: Particles) -> Proposal:
    """With one more component that has the particles' mean and covariance.

    The covariance is drawn to that of the largest mode as if this were known from twice as many draws as there are
    parameters.
    """
    largest = proposal.modes[0]
    deviations, known = particles.positions - particles.mean, 2 * len(particles.mean)
    size = 1 / np.sum(particles.share**2)
    covariance = size * (deviations.T @ (deviations * particles.share[:, None]))
    covariance = (covariance + known * np.linalg.inv(largest.precision)) / (size + known)
    matched = LocalGaussian(particles.mean, np.linalg.inv(covariance), largest.log_mass)
    return Proposal((*proposal.modes, matched))


def _from_particles(model, rows, particles, key) -> list[LocalGaussian | None]:
    count = min(NUM_STARTS, MAX_SEARCHED // rows.size)
    chosen = jax.random.choice(key, len(particles.share), (count,), p=jnp.asarray(particles.share))
    starts = particles.positions[np.asarray(chosen)]
    return [laplace_approximation(model, rows, start) for start in starts]


def _distinct(found: list[LocalGaussian | None]) -> tuple[LocalGaussian, ...]:
    """Modes at more than a standard deviation from each other, the largest first; None and the smallest are left out."""
    modes: list[LocalGaussian] = []
    for mode in sorted((mode for mode in found if mode is not None), key=lambda mode: -mode.log_mass):
        steps = [mode.mode - other.mode for other in modes]
        is_new = all(step @ other.precision @ step > 1 for step, other in zip(steps, modes, strict=True))
        if is_new and (not modes or mode.log_mass - modes[0].log_mass > MIN_LOG_MASS):
            modes.append(mode)
    return tuple(modes)
