"""Fits of mixtures to weighted particles, by expectation maximisation, and mixtures of mixtures.

Source: Cappé, Douc, Guillin, Marin, Robert (2008), Statistics and Computing 18, 447, Eq. 11 to 13
(the fit to weighted draws).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.cluster.vq import kmeans
from scipy.linalg import eigvalsh

from evidentia import weights
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Particles
from evidentia.posterior.gaussian import LocalGaussian, is_definite

MOST_COMPONENTS = 8
MIN_PARTICLES = 4  # for each component and parameter
WIDEST = 4.0  # variance of a mode in any direction, relative to that of the particles
STARTS = 5  # of k-means, of which the best counts
NUM_STEPS = 10  # of expectation maximisation on particles


def fitted(
    particles: Particles, generator: np.random.Generator, most_components: int = MOST_COMPONENTS
) -> Mixture | None:
    """Components that fit the particles; None if their covariance is singular."""
    positions, count = particles.positions, len(particles.share)
    covariance = covariance_about(particles.mean, positions, particles.share)
    if not is_definite(covariance):
        return None
    effective = 1 / np.sum(particles.share**2)
    most = max(1, min(most_components, int(effective / (MIN_PARTICLES * positions.shape[1]))))
    chosen = positions[generator.choice(count, count, p=particles.share)]
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, (chosen - particles.mean).T).T
    centres = particles.mean + kmeans(white, most, iter=STARTS, rng=generator)[0] @ root.T
    # Where there are more components, each is narrower.
    narrow = np.linalg.inv(covariance * len(centres) ** (-2 / positions.shape[1]))
    if not is_definite(narrow):
        return None
    proposal = mixture_of([LocalGaussian(centre, narrow, 0.0) for centre in centres], np.zeros(len(centres)))
    for _ in range(NUM_STEPS):
        proposal = improved(proposal, particles, most_components)
    return proposal


def with_modes(fit: Mixture, proposal: Mixture | None, particles: Particles) -> Mixture:
    """The fit, and in equal parts the modes of a proposal that are not wider than the particles.

    A mode on a ridge has an almost flat direction, in which a Gaussian there is far too wide.
    """
    covariance = covariance_about(particles.mean, particles.positions, particles.share)
    modes = [
        mode
        for mode in (() if proposal is None else proposal.components)
        if eigvalsh(np.linalg.inv(mode.precision), covariance)[-1] < WIDEST
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
    particles as there are parameters.
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
        if precision is not None and is_definite(precision):
            components.append(LocalGaussian(mean, precision, 0.0))
            log_shares.append(np.log(mass))
    return mixture_of(components, np.array(log_shares)) if components else proposal


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
