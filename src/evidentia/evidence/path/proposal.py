"""The proposal of importance sampling: a mixture of Student t's at the posterior modes.

With many parameters they are moved from the modes to the means (`means`). One mode is enough for
most models. Otherwise, particles annealed from the prior show where to
search: Newton's method from several of them finds more modes. Where these are not enough, a
mixture is learnt from the particles (`learning`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia import weights
from evidentia.evidence.path.population import Population, families_of, origins_of
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, log_student_t
from evidentia.posterior.means import about_mean, is_apart
from evidentia.posterior.modes import distinct, is_same, newton
from evidentia.posterior.partition import OF_PART
from evidentia.posterior.rows import Rows
from evidentia.posterior.subsample import Estimated, log_likelihoods_near
from evidentia.posterior.symmetry import Centre, fold, fold_to

NUM_STARTS = 64  # maximum number of particles from which to search for modes
PATIENCE = 8  # starts in vain
UNSEARCHED = 0.001  # share of the particles, far from the modes found, that needs no search
MAX_SEARCHED = 2_000_000  # maximum of rows times parameters times these particles


class Particles(NamedTuple):
    """Float64 positions, components in a common order, with shares that sum to one.

    Those with the same number in `families` have an ancestor in common, as far back as these are
    known (`population`); if that is None, each is a family of its own. `origins` are the particles
    at the start of the path from which they descend.
    """

    positions: Float[np.ndarray, "particles parameters"]
    share: Float[np.ndarray, " particles"]
    families: Int[np.ndarray, " particles"] | None = None
    origins: Int[np.ndarray, " particles"] | None = None

    @classmethod
    def equal(cls, positions: Float[np.ndarray, "particles parameters"]) -> "Particles":
        """Particles with equal shares."""
        return cls(positions, np.full(len(positions), 1 / max(1, len(positions))))

    @property
    def mean(self) -> Float[np.ndarray, " parameters"]:
        """The weighted mean."""
        return self.share @ self.positions

    @property
    def halves(self) -> tuple["Particles", "Particles"]:
        """The first and the second half, each with shares that sum to one, or to zero.

        Particles with one ancestor are neighbours, so the halves are nearly independent.
        """
        middle = len(self.share) // 2
        return self._part(slice(middle)), self._part(slice(middle, None))

    def sum_of_squares(self, values: Float[np.ndarray, " particles"]) -> float:
        """The sum over families of the square of the sum of their values."""
        sums = values if self.families is None else np.bincount(self.families, values)
        return float(np.sum(sums**2))

    def folded_to(self, model: BoundModel, domain: Centre | None) -> "Particles":
        """The particles as copies nearest to a centre, if there is one."""
        if domain is None:
            return self
        return self._replace(positions=fold_to(model, self.positions, domain).astype(np.float64))

    def _part(self, part: slice) -> "Particles":
        share = self.share[part] / max(self.share[part].sum(), np.finfo(float).tiny)
        families, origins = (None if each is None else each[part] for each in (self.families, self.origins))
        return Particles(self.positions[part], share, families, origins)


def weighted_particles(model: BoundModel, population: Population) -> Particles:
    """A population on the host, folded to the copies nearest to each other."""
    share = np.exp(weights.normalise(population.log_weights))
    positions = population.positions
    if model.symmetry:
        positions, _ = fold(model, positions, share)
    families, origins = families_of(population), origins_of(population)
    return Particles(np.asarray(positions, np.float64), share, families, origins)


class Proposal(NamedTuple):
    """A mixture of Student t's, unless learnt one at each mode, the largest mode first.

    Attributes:
        components: Gaussians of the same shape as the Student t's.
        log_shares: logarithms of the shares of the draws if it was learnt from draws (`learning`);
            its components are then not at modes.
        is_checked: whether it, or that from which it was learnt, covered particles of the path.
        prior_share: share of the draws for importance sampling that come from the prior, which is
            not one of the components.
        unseen: expected share of the posterior in modes that were not found (`coverage.unseen`).
        domain: the centre to which draws were folded before it was learnt, if copies are too many
            for a sum (`posterior.copies`).
    """

    components: tuple[LocalGaussian, ...]
    log_shares: Float[np.ndarray, " components"] | None = None
    is_checked: bool = True
    prior_share: float = 0.0
    unseen: float = 0.0
    domain: Centre | None = None

    @property
    def shares(self) -> Float[np.ndarray, " components"]:
        """Shares of the draws; at modes proportional to the root of the masses, which may err."""
        if self.log_shares is not None:
            return np.exp(self.log_shares)
        roots = 0.5 * np.array([mode.log_mass for mode in self.components])
        return np.exp(weights.normalise(roots))

    def as_known_as(self, previous: "Proposal") -> "Proposal":
        """The proposal with what particles have shown of one for fewer rows."""
        return self._replace(is_checked=previous.is_checked, unseen=previous.unseen)

    @property
    def is_learnt(self) -> bool:
        """Whether it was learnt from draws."""
        return self.log_shares is not None

    def draw(self, generator: np.random.Generator, count: int) -> Float[Array, "draws parameters"]:
        """Independent draws, float32, ordered by mode."""
        # Draw with NumPy: JAX's chi-square takes longer than the likelihood of a thousand rows.
        counts = generator.multinomial(count, self.shares)
        draws = [
            draw_student_t(generator, mode, size) for mode, size in zip(self.components, counts, strict=True)
        ]
        return jnp.asarray(np.concatenate(draws), jnp.float32)

    def draw_within(
        self, generator: np.random.Generator, count: int
    ) -> Float[np.ndarray, "draws parameters"]:
        """Draws moved towards the centres of their components, by factors uniform in (0, 1)."""
        counts = generator.multinomial(count, self.shares)
        moved = []
        for mode, size in zip(self.components, counts, strict=True):
            draws = draw_student_t(generator, mode, size)
            moved.append(mode.centre + generator.random((size, 1)) * (draws - mode.centre))
        return np.concatenate(moved)

    def log_density(self, positions: Float[np.ndarray, "draws parameters"]) -> Float[np.ndarray, " draws"]:
        """Log density at positions, in float64."""
        return np.logaddexp.reduce(self.log_terms(positions), axis=0)

    def parts(self) -> tuple[tuple[float, Float[np.ndarray, "draws parameters"]], ...]:
        """The log share and some draws of each mode, as modes may be at different copies."""
        generator = np.random.default_rng(0)  # the same draws whenever a share is computed
        return tuple(
            (float(np.log(share)), draw_student_t(generator, mode, OF_PART))
            for share, mode in zip(self.shares, self.components, strict=True)
        )

    def log_likelihoods(
        self, model: BoundModel, rows: Rows, positions: Float[Array, "draws parameters"]
    ) -> Estimated:
        """Log-likelihoods at draws, from a sample of many rows where that is enough."""
        expansions = [mode.expansion for mode in self.components]
        nearest = np.argmax(self.log_terms(np.asarray(positions, np.float64)), axis=0)
        found = log_likelihoods_near(model, rows, expansions, nearest, positions)
        return found or Estimated(*rows.log_likelihoods(model, positions), 0.0)

    def log_terms(
        self, positions: Float[np.ndarray, "draws parameters"]
    ) -> Float[np.ndarray, "components draws"]:
        """Log density at positions of each Student t, times its share, in float64."""
        terms = [
            np.log(share) + log_student_t(mode, positions)
            for share, mode in zip(self.shares, self.components, strict=True)
        ]
        return np.stack(terms)


def at_modes(
    model: BoundModel, rows: Rows, modes: tuple[LocalGaussian, ...], generator: np.random.Generator
) -> Proposal:
    """A proposal at modes, or at the means about them where these differ."""
    if is_apart(model, rows):
        modes = tuple(about_mean(model, rows, mode, generator) for mode in modes)
    return Proposal(modes)


def about_one_mode(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator
) -> Proposal | None:
    """A proposal at the mode nearest to the mean of the particles; None if there is none."""
    return about(model, rows, [newton(model, rows, particles.mean)], generator)


def about_many_modes(
    model: BoundModel, rows: Rows, particles: Particles, generator: np.random.Generator
) -> Proposal | None:
    """A proposal at the modes nearest to some of the particles; None if there are none."""
    return about(model, rows, modes_near(model, rows, particles, generator), generator)


def modes_of_more_rows(
    model: BoundModel, rows: Rows, proposal: Proposal, growth: float
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


def some_of(
    particles: Particles, generator: np.random.Generator, count: int
) -> Float[np.ndarray, "chosen parameters"]:
    """Positions of some particles, chosen in proportion to their weights."""
    chosen = generator.choice(len(particles.share), count, p=particles.share / particles.share.sum())
    return particles.positions[chosen]


def about(
    model: BoundModel, rows: Rows, found: Sequence[LocalGaussian | None], generator: np.random.Generator
) -> Proposal | None:
    """A proposal at the distinct ones of some modes; None if there are none."""
    modes = distinct(model, found)
    return at_modes(model, rows, modes, generator) if modes else None
