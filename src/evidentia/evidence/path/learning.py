"""Proposals learnt from particles, and from their own weighted draws.

On ridges, or with a component too many, a posterior is not Gaussian about any mode, at any number
of rows. A mixture of a few Student t's fits its particles, and improves with draws weighted by all
rows: each round draws from the mixture so far, and fits the next one to the draws of all rounds,
weighted by the density of all mixtures. A tenth of the draws stays with the mixture at the start,
so that no part of it is forgotten by chance.

A mixture for more rows is learnt from the last one. A part that this covers too thinly to be drawn
is lost for good, and no weight shows it. So rounds have many draws while rows are few.

Source: Cappé, Douc, Guillin, Marin, Robert (2008), Statistics and Computing 18, 447, Eq. 11 to 13
(the fit to weighted draws); Cornuet, Marin, Mira, Robert (2012), Scandinavian Journal of
Statistics 39, 798 (draws of all rounds).
"""

import numpy as np
from jaxtyping import Float
from scipy.cluster.vq import kmeans
from scipy.linalg import eigvalsh

from evidentia import weights
from evidentia.evidence.path.proposal import Particles, Proposal
from evidentia.model.bound import BoundModel
from evidentia.posterior.copies import is_summed, rows_of_density, symmetrised
from evidentia.posterior.gaussian import LocalGaussian, is_definite
from evidentia.posterior.rows import Rows
from evidentia.posterior.symmetry import Positions, fold

MOST_COMPONENTS = 8
MIN_PARTICLES = 4  # for each component and parameter
MOST_ROUNDS = 8
DRAWS = 2  # in a round, as a multiple of the particles
WORK = 30_000_000  # rows times draws of a round, up to which there are more
MOST_DRAWS = 8192
MORE_COMPONENTS, DRAWS_OF_EACH = 24, 256  # where there are more draws
GOOD = 0.5  # effective draws as a fraction of a round's, from which on no other round is needed
ENOUGH = 0.2  # the same where more draws cannot be afforded
KEPT = 0.1  # share of the draws that stays with the first proposal
TEMPERED = 0.1  # effective draws that a fit needs, as a fraction; weights are tempered if fewer
WIDEST = 4.0  # variance of a mode in any direction, relative to that of the particles
NEAR_COPIES = 24  # copies of a draw up to which all count
STARTS = 5  # of k-means, of which the best counts
MOST_PARAMETERS = 100  # since the covariance of more is not known from so few draws
DRAWS_OF_DOMAIN = 2048  # whose centre says which copy of the posterior a proposal is about
NUM_STEPS = 10  # of expectation maximisation on particles


def is_learnable(model: BoundModel) -> bool:
    """Whether a proposal can be learnt: not if there are too many parameters."""
    return model.num_parameters <= MOST_PARAMETERS


def fitted(
    particles: Particles, generator: np.random.Generator, most_components: int = MOST_COMPONENTS
) -> Proposal | None:
    """Components that fit the particles; None if their covariance is singular."""
    positions, count = particles.positions, len(particles.share)
    covariance = _covariance(positions - particles.mean, particles.share)
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
    proposal = _mixture([LocalGaussian(centre, narrow, 0.0) for centre in centres], np.zeros(len(centres)))
    for _ in range(NUM_STEPS):
        proposal = improved(proposal, particles, most_components)
    return proposal


def with_modes(fit: Proposal, proposal: Proposal | None, particles: Particles) -> Proposal:
    """The fit, and in equal parts the modes of a proposal that are not wider than the particles.

    A mode on a ridge has an almost flat direction, in which a Gaussian there is far too wide.
    """
    covariance = _covariance(particles.positions - particles.mean, particles.share)
    modes = [
        mode
        for mode in (() if proposal is None else proposal.components)
        if eigvalsh(np.linalg.inv(mode.precision), covariance)[-1] < WIDEST
    ]
    return together(fit, _mixture(modes, np.zeros(len(modes))), 0.5) if modes else fit


def learn(
    model: BoundModel, rows: Rows, start: Proposal, generator: np.random.Generator, count: int
) -> Proposal:
    """A proposal for the posterior of `rows`, learnt in rounds from one that overlaps with it.

    It is the first whose draws have even weights, or that learnt from all rounds. It is as checked
    as the start.
    """
    least, affordable = DRAWS * count, WORK // max(rows.size, rows_of_density(model, NEAR_COPIES))
    size, good = (min(MOST_DRAWS, affordable), GOOD) if affordable > least else (least, ENOUGH)
    # As many as at the start, learnt when more draws were affordable: fewer lose arms of a ridge.
    supported = max(MOST_COMPONENTS, size // DRAWS_OF_EACH, len(start.components))
    most_components = min(MORE_COMPONENTS, supported)
    start = _largest(start, 2 * MORE_COMPONENTS)
    proposal, fits = start, []
    positions = np.zeros((0, model.num_parameters), np.float32)
    heights, of_start, densities = np.zeros(0), np.zeros(0), np.zeros(0)
    for _ in range(MOST_ROUNDS):
        drawn = proposal.draw(generator, size)
        deviations, offset = rows.log_likelihoods(model, drawn)
        height, own = deviations + offset + model.log_priors(drawn), _log_density(model, start, drawn)
        of_each = [own, *(_with_start(_log_density(model, fit, drawn), own) for fit in fits)]
        if weights.ess(height - of_each[-1]) >= good * size:
            break
        positions, heights = np.concatenate([positions, drawn]), np.concatenate([heights, height])
        of_start = np.concatenate([of_start, own])
        densities = np.concatenate([densities, np.logaddexp.reduce(of_each, axis=0)])
        share = _tempered_share(heights - densities)
        folded, _ = fold(model, positions, share) if model.symmetry else (positions, None)
        particles = Particles(np.asarray(folded, np.float64), share)
        fits.append(improved(proposal, particles, most_components))
        proposal = together(fits[-1], start, KEPT)
        densities = np.logaddexp(densities, _with_start(_log_density(model, fits[-1], positions), of_start))
    return _about_one_copy(model, proposal.as_known_as(start), generator)


def _about_one_copy(model: BoundModel, proposal: Proposal, generator: np.random.Generator) -> Proposal:
    """The proposal with the domain of its draws, if there are too many copies for a sum."""
    if not model.symmetry or is_summed(model):
        return proposal
    draws = proposal.draw(generator, DRAWS_OF_DOMAIN)
    _, centre = fold(model, draws, np.full(DRAWS_OF_DOMAIN, 1 / DRAWS_OF_DOMAIN))
    return proposal._replace(domain=centre)


def _with_start(
    of_fit: Float[np.ndarray, " draws"], of_start: Float[np.ndarray, " draws"]
) -> Float[np.ndarray, " draws"]:
    """Log density of a fit together with the first proposal, given those of both."""
    return np.logaddexp(np.log1p(-KEPT) + of_fit, np.log(KEPT) + of_start)


def _largest(proposal: Proposal, most: int) -> Proposal:
    """The proposal without its components of the smallest shares."""
    if len(proposal.components) <= most:
        return proposal
    chosen = np.argsort(-proposal.shares)[:most]
    return _mixture([proposal.components[index] for index in chosen], np.log(proposal.shares[chosen]))


def _log_density(model: BoundModel, proposal: Proposal, positions: Positions) -> Float[np.ndarray, " draws"]:
    """The density for the weights of draws that a mixture is fitted to: at all copies if few.

    With many copies it is that at one, which gives exact weights of the whole posterior, too.
    """
    if is_summed(model, NEAR_COPIES):
        return symmetrised(model, proposal, positions)
    return proposal.log_density(np.asarray(positions, np.float64))


def improved(proposal: Proposal, particles: Particles, most_components: int = MOST_COMPONENTS) -> Proposal:
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
        covariance = size * _covariance(positions - mean, own) + known * np.linalg.inv(before.precision)
        # Singular to the last digit where draws are on a line and the component was narrow.
        precision = np.linalg.inv(covariance / (size + known)) if is_definite(covariance) else None
        if precision is not None and is_definite(precision):
            components.append(LocalGaussian(mean, precision, 0.0))
            log_shares.append(np.log(mass))
    return _mixture(components, np.array(log_shares)) if components else proposal


def together(first: Proposal, second: Proposal, share: float) -> Proposal:
    """A mixture of two proposals, with a share for the second."""
    log_shares = np.log1p(-share) + np.log(first.shares), np.log(share) + np.log(second.shares)
    return _mixture([*first.components, *second.components], np.concatenate(log_shares))


def _mixture(components: list[LocalGaussian], log_shares: Float[np.ndarray, " components"]) -> Proposal:
    plain = tuple(component._replace(expansion=None) for component in components)
    return Proposal(plain, weights.normalise(log_shares))


def _tempered_share(log_weights: Float[np.ndarray, " draws"]) -> Float[np.ndarray, " draws"]:
    target = TEMPERED * len(log_weights)
    power = weights.next_temperature(np.zeros_like(log_weights), log_weights, 0.0, target)
    return np.exp(weights.normalise(power * np.maximum(log_weights, np.finfo(float).min / 2)))


def _covariance(deviations: np.ndarray, share: np.ndarray) -> np.ndarray:
    return deviations.T @ (deviations * share[:, None])
