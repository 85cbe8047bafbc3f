"""The proposal of importance sampling: a mixture of Student t's.

They are at the posterior's modes, or fitted to weighted draws by expectation maximisation. The
prior may have a share, too.

Source: Cappé, Douc, Guillin, Marin, Robert (2008), Statistics and Computing 18, 447, Eq. 11 to 13
(the fit to weighted draws).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.cluster.vq import kmeans
from scipy.linalg import eigvalsh

from evidentia import weights
from evidentia.errors import EstimationError
from evidentia.evidence.population.particles import Particles
from evidentia.posterior.copies import OF_PART
from evidentia.posterior.gaussian import LocalGaussian, draw_student_t, is_definite, log_student_t
from evidentia.posterior.symmetry import Centre

MOST_COMPONENTS = 8  # of a fit to few particles or draws
# Nats of log density that rounding to float32 may take from a component of a fit: as much as the
# standard error that is aimed at (`importance.ACCURATE`). Those about one draw lose 0.01 to 24.
MOST_ROUNDING = 0.01


class Mixture(NamedTuple):
    """A mixture of Student t's, unless learnt one at each mode, the largest mode first.

    Attributes:
        components: Gaussians of the same shape as the Student t's.
        log_shares: logarithms of the shares of the draws if it was learnt from draws (`adapt`);
            its components are then not at modes.
        is_checked: whether it, or that from which it was learnt, covered particles of the path.
        prior_share: share of the draws for importance sampling that come from the prior, which is
            not one of the components.
        unseen: expected share of the posterior in modes that were not found (`check.unseen`).
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

    def as_known_as(self, previous: "Mixture") -> "Mixture":
        """The proposal with what particles have shown of one for fewer rows."""
        return self._replace(is_checked=previous.is_checked, unseen=previous.unseen)

    @property
    def is_learnt(self) -> bool:
        """Whether it was learnt from draws."""
        return self.log_shares is not None

    def draw(self, generator: np.random.Generator, count: int) -> Float[Array, "draws parameters"]:
        """Independent draws, float32, ordered by mode."""
        # Draw with NumPy: JAX's chi-square takes longer than the likelihood of a thousand rows.
        counts = generator.multinomial(count, self.shares).tolist()
        draws = [
            draw_student_t(generator, mode, size) for mode, size in zip(self.components, counts, strict=True)
        ]
        return jnp.asarray(np.concatenate(draws).astype(np.float32))  # on the host: no compilation

    def draw_within(
        self, generator: np.random.Generator, count: int
    ) -> Float[np.ndarray, "draws parameters"]:
        """Draws moved towards the centres of their components, by factors uniform in (0, 1)."""
        counts = generator.multinomial(count, self.shares).tolist()
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

    def log_terms(
        self, positions: Float[np.ndarray, "draws parameters"]
    ) -> Float[np.ndarray, "components draws"]:
        """Log density at positions of each Student t, times its share, in float64."""
        terms = [
            np.log(share) + log_student_t(mode, positions)
            for share, mode in zip(self.shares, self.components, strict=True)
        ]
        return np.stack(terms)


def fitted(
    particles: Particles, generator: np.random.Generator, most_components: int = MOST_COMPONENTS
) -> Mixture | None:
    """Components that fit the particles; None if their spread is zero or too small for float32."""
    positions, count = particles.positions, len(particles.share)
    covariance = covariance_about(particles.mean, positions, particles.share)
    if not is_definite(covariance):
        return None
    effective = 1 / np.sum(particles.share**2)
    # Four particles at least for each component and parameter.
    most = max(1, min(most_components, int(effective / (4 * positions.shape[1]))))
    chosen = positions[generator.choice(count, count, p=particles.share)]
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, (chosen - particles.mean).T).T
    centres = particles.mean + kmeans(white, most, iter=5, rng=generator)[0] @ root.T
    # Where there are more components, each is narrower.
    narrow = np.linalg.inv(covariance * len(centres) ** (-2 / positions.shape[1]))
    if not is_drawable(particles.mean, narrow):
        return None
    proposal = mixture_of([LocalGaussian(centre, narrow, 0.0) for centre in centres], np.zeros(len(centres)))
    for _ in range(10):
        proposal = improved(proposal, particles, most_components)
    return proposal


def with_components(fit: Mixture, proposal: Mixture | None, particles: Particles) -> Mixture:
    """The fit, and in equal parts the modes of a proposal that are not wider than the particles.

    A mode on a ridge has an almost flat direction, in which a Gaussian there is far too wide. So
    the variance may be at most four times that of the particles in any direction.
    """
    covariance = covariance_about(particles.mean, particles.positions, particles.share)
    modes = [
        mode
        for mode in (() if proposal is None else proposal.components)
        if eigvalsh(np.linalg.inv(mode.precision), covariance)[-1] < 4.0
    ]
    return together([fit, mixture_of(modes, np.zeros(len(modes)))], [0.5, 0.5]) if modes else fit


def without_smallest(proposal: Mixture, most: int) -> Mixture:
    """The proposal without its components of the smallest shares."""
    if len(proposal.components) <= most:
        return proposal
    chosen = np.argsort(-proposal.shares)[:most]
    return mixture_of([proposal.components[index] for index in chosen], np.log(proposal.shares[chosen]))


def improved(proposal: Mixture, particles: Particles, most_components: int = MOST_COMPONENTS) -> Mixture:
    """The proposal after a step of expectation maximisation on weighted particles.

    The covariance of a component is shrunk towards what it was, which counts as twice as many
    particles as there are parameters. A component that has shrunk to a point, about one particle
    of a large weight, is dropped: float32 could not draw from it.
    """
    positions, share = particles.positions, particles.share
    terms = proposal.log_terms(positions)
    belongs = np.exp(terms - np.logaddexp.reduce(terms, axis=0)) * share
    masses, known = belongs.sum(1), 2 * positions.shape[1]
    components, log_shares = [], []
    for index in np.argsort(-masses)[:most_components]:
        before, mass = proposal.components[index], masses[index]
        if mass * len(share) < 1:
            continue
        own = belongs[index] / mass
        mean, size = own @ positions, 1 / np.sum(own**2)
        covariance = size * covariance_about(mean, positions, own) + known * np.linalg.inv(before.precision)
        # Singular to the last digit where draws are on a line and the component was narrow.
        precision = np.linalg.inv(covariance / (size + known)) if is_definite(covariance) else None
        if precision is not None and is_drawable(mean, precision):
            components.append(LocalGaussian(mean, precision, 0.0))
            log_shares.append(np.log(mass))
    return mixture_of(components, np.array(log_shares)) if components else proposal


def is_drawable(
    centre: Float[np.ndarray, " parameters"], precision: Float[np.ndarray, "parameters parameters"]
) -> bool:
    """Whether a Gaussian is wide enough for draws in float32.

    With a spacing s_j of its coordinates, rounding adds a variance s_j²/12, so that the mean of
    (θ - m)ᵀ Λ (θ - m) / 2 rises by Σ_j Λ_jj s_j² / 24 nats.
    """
    spacings = np.spacing(np.abs(centre).astype(np.float32)).astype(np.float64)
    return is_definite(precision) and float(np.diag(precision) @ spacings**2) / 24 <= MOST_ROUNDING


def together(mixtures: Sequence[Mixture], shares: Sequence[float] | np.ndarray) -> Mixture:
    """The mixture of those mixtures that have a share."""
    pairs = [(each, share) for each, share in zip(mixtures, shares, strict=True) if share > 0]
    return mixture_of(
        [component for each, _ in pairs for component in each.components],
        np.concatenate([np.log(share) + np.log(each.shares) for each, share in pairs]),
    )


def mixture_of(components: Sequence[LocalGaussian], log_shares: Float[np.ndarray, " components"]) -> Mixture:
    """A mixture of components, with shares in proportion to numbers given as logarithms."""
    plain = tuple(component._replace(expansion=None) for component in components)
    return Mixture(plain, weights.normalise(log_shares))


def covariance_about(mean: np.ndarray, positions: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The weighted sum of outer products of positions, less the mean.

    In one large array, as a second one costs more than the product: new memory is slow.
    """
    deviations = positions - mean
    deviations *= np.sqrt(share)[:, None]
    return deviations.T @ deviations


def check_density(proposal: Mixture) -> None:
    """Raise EstimationError unless the proposal's density is that of its draws.

    For any normalised density r that lies inside a proposal q, E_q[r(θ) / q(θ)] = 1, which costs
    no likelihood. Here r has the same components, slightly narrower. A density that is off by a
    factor, draws that are too wide or too narrow, and positions that float32 cannot tell apart all
    show.
    """
    for seed in range(2):  # as ratios are skewed, both of two must be off by five standard errors
        mean, error = mean_ratio(proposal, seed)
        if abs(mean - 1.0) <= 5.0 * error:
            break
    else:
        raise EstimationError(
            f"the density of the draws about the posterior's modes is off: its integral is {mean:.4g} ± {error:.2g} instead of 1. "
            "The posterior is too narrow for float32, which cannot tell its positions apart: centre and scale the parameters, "
            "so that they are about one apart. If they are, this is a fault of the program: please report it."
        )


def mean_ratio(proposal: Mixture, seed: int) -> tuple[float, float]:
    """The mean of r / q over draws of the proposal, with its standard error."""
    size = len(proposal.components[0].centre)
    # An error of 1/16 at most, of 1/64 where draws cost nothing.
    count = int(np.clip(16_000_000 // (len(proposal.components) * size**2), 256, 4096))
    draws = np.asarray(proposal.draw(np.random.default_rng(seed), count), np.float64)
    # Variances smaller by 1 + 1/√d give ratios with a variance below one in any dimension.
    narrower = 1 + 1 / math.sqrt(size)
    heights = []
    for share, component in zip(proposal.shares, proposal.components, strict=True):
        root = np.linalg.cholesky(component.precision * narrower)
        steps = (draws - component.centre) @ root
        constant = np.log(np.diag(root)).sum() - 0.5 * size * math.log(2 * math.pi)
        heights.append(np.log(share) + constant - 0.5 * np.einsum("ij,ij->i", steps, steps))
    ratios = np.exp(np.logaddexp.reduce(heights, axis=0) - proposal.log_density(draws))
    return float(np.mean(ratios)), float(np.std(ratios) / math.sqrt(count))
