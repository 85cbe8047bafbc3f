"""What a proposal misses of a posterior, which importance sampling cannot see by itself.

Particles of the annealed path show where the posterior is, and so do draws for fewer rows. They
say whether a proposal covers the posterior, and make up for a part that it covers thinly.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax

from evidentia import weights
from evidentia.evidence.population.about_modes import is_near
from evidentia.evidence.population.importance import Sampling, WeightedDraws, log_ratio
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Particles
from evidentia.posterior.copies import symmetrised

MISSED = 0.01  # fraction of the posterior that a proposal may miss
MOST_MISSED = 0.3  # the same if particles make up for it


def covers(sampling: Sampling, proposal: Mixture, draws: WeightedDraws, particles: Particles) -> bool:
    """Whether the proposal covers particles of the posterior, but for a share (`MISSED`).

    Those that it misses lie where the posterior density, p(θ) p(D | θ) / Ẑ, exceeds that of the
    proposal by more than at any draw; their share of the posterior is what Ẑ lacks. Particles in
    regions of low posterior density, where moves without a Metropolis correction can leave them,
    do not count.
    """
    log_ratios, offset = log_ratio(sampling, proposal, particles.positions)
    is_missed = log_ratios + offset > draws.offset + np.max(draws.log_weights)
    share = float(particles.share @ is_missed)
    error = np.sqrt(max(0.0, share * (1 - share)) * np.sum(particles.share**2))  # rounding can exceed 1
    return share < MISSED + 3 * error


def completed(
    sampling: Sampling,
    proposal: Mixture,
    draws: WeightedDraws,
    particles: Particles,
    log_cap: float | None = None,
) -> WeightedDraws | None:
    """Draws with capped weights, and particles for what lies above the cap; None if that is much.

    The particles must be of the posterior, and not those that the proposal q was learnt from. The
    evidence is what the draws show below any cap c, and the share of the posterior above it,

        Ẑ = E_q[min(w, c)] + Ẑ E_posterior[max(0, 1 - c/w)],        w = p(θ) p(D | θ) / q(θ).

    Rare large weights, which N draws see too seldom, thus count by the M particles, which see them
    often. The variance is about least with c = Ẑ N/M, unless `log_cap` is given. This is bridge
    sampling, with min(w, c) / w between the densities. If the draws show more above the cap than
    the particles, which can miss a far tail, they stay as they are. Particles with a common
    ancestor count as one. `variance` has what the weights do not show of that of log Ẑ.

    Source: Meng, Wong (1996), Statistica Sinica 6, 831, Eq. 2.1.
    """
    if not particles.share.any():
        return None
    log_weights, offset = log_ratio(sampling, proposal, particles.positions)
    log_weights = log_weights + offset - draws.offset
    count = len(draws.log_weights)
    of_families = particles.sum_of_squares(particles.share)
    best = weights.log_mean(draws.log_weights) + float(np.log(count * of_families))
    log_cap = best if log_cap is None else log_cap
    capped = np.minimum(draws.log_weights, log_cap)
    shares = particles.share * -np.expm1(np.minimum(log_cap - log_weights, 0.0))
    missed = np.sum(shares)
    if not missed < MOST_MISSED:
        return None
    if missed <= -np.expm1(weights.log_mean(capped) - weights.log_mean(draws.log_weights)):
        return draws
    with np.errstate(divide="ignore"):  # most particles are below the cap
        of_particles = weights.log_sum_exp(capped) + np.log(shares / (1 - missed))
    together = np.concatenate([capped, of_particles])
    # That of log Ẑ = log E_q[min(w, c)] - log(1 - E_posterior[max(0, 1 - c/w)]).
    of_missed = particles.sum_of_squares(shares - missed * particles.share)
    variance = weights.relative_variance(capped) + of_missed / (1 - missed) ** 2
    return draws._replace(
        positions=jnp.asarray(np.concatenate([draws.positions, particles.positions]).astype(np.float32)),
        log_weights=together + np.log(len(together) / count),  # of which the mean is the evidence
        variance=draws.variance + variance - weights.relative_variance(together),
        is_completed=True,
    )


def unseen(proposal: Mixture, particles: Particles) -> float:
    """The expected share of the posterior in modes that were not found, as no particle was there.

    Of modes with shares pₖ of the posterior, n independent particles miss Σ pₖ (1 - pₖ)ⁿ on
    average. The modes found stand for all, unless many of them were found by chance. Where S
    regions have particles of one origin only, of n pairs of a region and an origin, those that no
    particle reached have a share of about S/n.

    Source: Smith, van Belle (1984), Biometrics 40, 119 (the same for the number of species); Good
    (1953), Biometrika 40, 237 (species seen once).
    """
    once = _reached_once(proposal, particles)
    if proposal.is_learnt:
        return once
    shares = np.exp(weights.normalise(np.array([mode.log_mass for mode in proposal.components])))
    count = 1 / max(particles.sum_of_squares(particles.share), np.finfo(float).tiny)
    return max(once, float(shares @ (1 - shares) ** count))


def _reached_once(proposal: Mixture, particles: Particles) -> float:
    """The share of pairs of a region and an origin in which the region has no other origin.

    A visit of a region is a pair, as descendants of one origin are not independent.
    """
    is_there = particles.share > 0
    if particles.origins is None or len(proposal.components) == 1 or not is_there.any():
        return 0.0
    of_region = _regions(proposal, particles.positions[is_there])
    pairs = np.unique(np.stack([of_region, particles.origins[is_there]]), axis=1)
    num_origins = np.bincount(pairs[0])
    if np.count_nonzero(num_origins) == 1:
        return 0.0
    return float(np.sum(num_origins == 1) / pairs.shape[1])


def _regions(
    proposal: Mixture, positions: Float[ndarray, "particles parameters"]
) -> Int[ndarray, " particles"]:
    """The number of the region of each position: components that share positions are one region.

    Several components of a learnt proposal describe one mode, or a posterior without any. If one
    in a hundred of the particles of one component is of another's, too, no gap is between them.
    """
    shares = softmax(proposal.log_terms(positions), axis=0)
    shared, totals = shares @ shares.T, shares.sum(1)
    is_shared = shared > 0.01 * np.minimum(totals[:, None], totals)
    _, region = connected_components(is_shared, directed=False)
    return region[np.argmax(shares, axis=0)]


class Unreached(NamedTuple):
    """Positions where a proposal misses some of a posterior, and which share of it in all."""

    positions: Float[ndarray, "positions parameters"]
    share: float


def unreached(sampling: Sampling, proposal: Mixture, draws: WeightedDraws, earlier: Mixture) -> Unreached:
    """What draws from an `earlier` proposal, for fewer rows, show that one for more rows misses.

    One mode can become two as rows arrive, and Newton's method follows one of them. Only a few of
    the draws are weighed, of those so far from the modes that the proposal hardly reaches them.
    """
    model, generator = sampling.model, sampling.generator
    positions = np.asarray(earlier.draw(generator, sampling.count))
    is_far = ~np.any([is_near(mode, positions) for mode in proposal.components], axis=0)
    if not is_far.any():
        return Unreached(positions[:0], 0.0)
    # Always as many, some of them twice, since another number would be compiled anew.
    chosen = positions[np.resize(generator.permutation(np.flatnonzero(is_far)), 32)]
    ratios, offset = log_ratio(sampling, proposal, chosen)
    ratios = ratios + offset - draws.offset
    densities = (symmetrised(model, each, chosen) for each in (proposal, earlier))
    share = missed_share(draws.log_weights, ratios + np.subtract(*densities), ratios)
    return Unreached(chosen[ratios > np.max(draws.log_weights)], share * float(np.mean(is_far)))


def missed_share(
    log_weights: Float[ndarray, " draws"],
    log_other_weights: Float[ndarray, " others"],
    log_ratio: Float[ndarray, " others"],
) -> float:
    """The share of the evidence that other draws show above the envelope of the draws.

    Args:
        log_weights: of the draws, from q.
        log_other_weights: of draws from another density, such as the prior.
        log_ratio: log p(D | θ) p(θ) / q(θ) at the latter.

    Returns:
        The share, relative to the evidence that the draws show; NaN if a weight is.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share_above = np.log(-np.expm1(np.minimum(log_weights.max() - log_ratio, 0.0)))
        share_above = np.where(log_ratio == -np.inf, -np.inf, share_above)
        missed = weights.log_mean(log_other_weights + share_above) - weights.log_mean(log_weights)
        return float(np.exp(missed))
