"""Weighted draws of one posterior: new rows change the weights, and a search draws afresh.

The draws θᵢ ~ q stay while rows arrive, with weights

    wᵢ = p(D | θᵢ) p(θᵢ) / q(θᵢ),        Ẑ = (1/M) Σ wᵢ,

an unbiased estimate after every batch. When the weights have become uneven, q is fitted to the
weighted draws, and they are drawn afresh. Where a batch leaves too few effective draws for a fit,
or before the first batch, q is learnt from the prior by tempering the likelihood: at each round
the largest power of it for which the draws of the last round are worth enough of them.

q = a mixture of a Student t with the mean and covariance of the weighted draws, one three times as
wide, and the prior, whose share follows the weights.

Source: Chopin (2002), Biometrika 89, 539 (importance sampling as rows arrive); Cappé, Douc,
Guillin, Marin, Robert (2008), Statistics and Computing 18, 447, Eq. 11 to 13 (fits to weighted
draws).
"""

from collections.abc import Generator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.evidence.method import Estimate
from evidentia.evidence.population.check import missed_share
from evidentia.fleet.students import Students
from evidentia.posterior.gaussian import is_definite

NUM_DRAWS = 512  # as many as `SGAIS` has particles
FIT = 150  # effective draws that a fit needs
GOOD = 0.5  # effective draws as a fraction, from which on a search ends
WORN = 0.3  # effective draws as a fraction, below which they are drawn afresh,
SPARED = 0.6  # unless it is more than this fraction of those at the time of the draw
OVERLAP = 10  # effective draws, below which a search starts at the prior
LEAST = 100  # effective draws; fewer are not an estimate
MISSED = 0.05  # of the evidence, where draws do not reach, as shown by others
POWERS = np.geomspace(1.0, 1e-6, 60)  # of weights that are too uneven for a fit
ROUNDS, MOST_FITS = 40, 3  # of a search; those at the full likelihood
LEAST_SHARE, MOST_SHARE = 0.02, 0.5  # of the prior in the proposal, below which it has none

Positions = Float[ndarray, "draws parameters"]
OfDraws = Float[ndarray, " draws"]


class Draws(NamedTuple):
    """Draws θᵢ ~ q, float32, with log p(D | θᵢ), log p(θᵢ) and log q(θᵢ) in nats, float64.

    `ess` is the effective number of draws when they were drawn.
    """

    positions: Float[ndarray, "draws parameters"]
    log_likelihoods: Float[ndarray, " draws"]
    log_priors: Float[ndarray, " draws"]
    log_densities: Float[ndarray, " draws"]
    ess: float = 0.0

    @property
    def log_weights(self) -> Float[ndarray, " draws"]:
        """log wᵢ; the mean weight is the evidence of all rows so far."""
        return self.log_likelihoods + self.log_priors - self.log_densities

    @property
    def is_worn(self) -> bool:
        """Whether rows since the draw have made the weights uneven."""
        wanted = min(WORN * len(self.positions), SPARED * self.ess)
        return not weights.ess(self.log_weights) >= wanted


class Proposal(NamedTuple):
    """The density q: Student t's, and the prior with `share_prior`."""

    students: Students
    share_prior: float

    def draw(
        self, generator: np.random.Generator, prior_draws: Float[ndarray, "prior_draws parameters"]
    ) -> Positions:
        """Independent draws, float32; those of the prior are chosen from many of them."""
        of_prior = generator.binomial(NUM_DRAWS, self.share_prior) if self.share_prior else 0
        chosen = prior_draws[generator.integers(len(prior_draws), size=of_prior)]
        drawn = self.students.draw(generator, NUM_DRAWS - of_prior)
        return np.concatenate([drawn, chosen]).astype(np.float32)

    def log_density(self, positions: Positions, log_priors: OfDraws) -> OfDraws:
        """log q at positions whose log prior densities are known."""
        log_students = self.students.log_density(positions)
        if not self.share_prior:
            return log_students
        shares = np.log1p(-self.share_prior), np.log(self.share_prior)
        return np.logaddexp(shares[0] + log_students, shares[1] + log_priors)


class Prior(NamedTuple):
    """Many draws from the prior, float64, and the log prior densities of the first `NUM_DRAWS`."""

    draws: Float[ndarray, "many parameters"]
    log_densities: Float[ndarray, " draws"]

    @property
    def first(self) -> Float[ndarray, "draws parameters"]:
        """The draws whose densities are known, float32."""
        return self.draws[:NUM_DRAWS].astype(np.float32)


class Particles(NamedTuple):
    """Weighted particles of nearly the same posterior, from another method, in any scale."""

    positions: Float[ndarray, "draws parameters"]
    log_weights: Float[ndarray, " draws"]


class Found(NamedTuple):
    """Draws and their proposal; `is_new` if they come from a search that knew nothing."""

    draws: Draws
    proposal: Proposal
    is_new: bool


Search = Generator[Positions, tuple[OfDraws, OfDraws], Found | None]


def search(
    known: Draws | Particles | None, prior: Prior, log_likelihoods: OfDraws, generator: np.random.Generator
) -> Search:
    """Draw a posterior afresh: yields positions, receives their log-likelihoods and log priors.

    Args:
        known: worn draws of the same posterior, or particles; None before the first rows.
        prior: where a search begins that knows nothing.
        log_likelihoods: of all rows at the first draws from the prior.
        generator: of random numbers.

    Returns:
        Draws whose weights are worth at least `FIT`, and have no heavy tail; None if there are
        none for which what is known, the prior draws, and those of earlier rounds show no more
        than `MISSED` of the evidence where they do not reach.
    """
    of_prior = Draws(prior.first, log_likelihoods, prior.log_densities, prior.log_densities)
    latest, share_prior, earlier = of_prior, 1.0, [of_prior]
    if known is not None:
        if isinstance(known, Particles):
            values, log_priors = yield known.positions
            known = Draws(known.positions, values, log_priors, values + log_priors - known.log_weights)
        if weights.ess(known.log_weights) >= OVERLAP:
            latest, share_prior = known, 0.0
    found, fits, is_new = None, 0, latest is of_prior
    for _ in range(ROUNDS):
        fit = _fitted(latest, share_prior)
        if fit is None or fits == MOST_FITS:
            break
        positions = fit.draw(generator, prior.draws)
        values, log_priors = yield positions
        log_densities = fit.log_density(positions, log_priors)
        latest = Draws(positions, values, log_priors, log_densities)
        latest = latest._replace(ess=weights.ess(latest.log_weights))
        if latest.ess >= FIT:
            fits += 1
            is_better = found is None or latest.ess > found.draws.ess
            if is_better and _reaches(latest, fit, known, earlier):
                found = Found(latest, fit, is_new)
                if latest.ess >= GOOD * NUM_DRAWS:
                    return found
        earlier.append(latest)
        share_prior = fit.share_prior * np.exp(log_priors - log_densities) if fit.share_prior else 0.0
    # The tail of a few large weights, whose fit takes as long as two rounds.
    if found is not None and weights.pareto_shape(found.draws.log_weights) > weights.MAX_PARETO_SHAPE:
        return None
    return found


def _reaches(found: Draws, fit: Proposal, known: Draws | None, earlier: list[Draws]) -> bool:
    """Whether draws reach where others of the same posterior show its evidence to be."""
    shown = [(each, each.log_weights) for each in earlier]
    if known is not None:  # in the scale of those found: the weights of particles are in any
        shift = weights.log_mean(found.log_weights) - weights.log_mean(known.log_weights)
        shown.append((known, known.log_weights + shift))
    for each, log_weights in shown:
        log_densities = fit.log_density(np.asarray(each.positions, np.float64), each.log_priors)
        log_ratio = each.log_likelihoods + each.log_priors - log_densities
        if not missed_share(found.log_weights, log_weights, log_ratio) < MISSED:
            return False
    return True


def estimated(log_weights: OfDraws) -> Estimate:
    """The log evidence of weighted draws."""
    return Estimate(weights.log_mean(log_weights), weights.relative_variance(log_weights))


def _fitted(draws: Draws, of_prior: OfDraws | float) -> Proposal | None:
    """The proposal of weighted draws; None if their covariance is singular.

    `of_prior` is the part of each draw's density that is due to the prior. Where the weights are
    too uneven, a power of them is taken.
    """
    share, wide = _tempered(draws.log_weights), np.asarray(draws.positions, np.float64)
    share_prior = float(np.sum(share * of_prior))
    mean = share @ wide
    deviations = wide - mean
    covariance = deviations.T @ (deviations * share[:, None])
    if not is_definite(covariance):
        return None
    root = np.linalg.cholesky(np.linalg.inv(covariance))
    share_prior = 0.0 if share_prior < LEAST_SHARE else min(share_prior, MOST_SHARE)
    return Proposal(Students(mean, root), share_prior)


def _tempered(log_weights: OfDraws) -> OfDraws:
    """The normalised weights, to the largest of `POWERS` that leaves `FIT` effective draws."""
    finite = np.maximum(log_weights, np.finfo(float).min / 2)
    finite = finite - finite.max()
    share = np.exp(finite)
    if not share.sum() ** 2 >= FIT * np.sum(share**2):
        each = np.exp(POWERS[:, None] * finite)
        is_enough = each.sum(1) ** 2 >= FIT * np.sum(each**2, axis=1)
        is_enough[-1] = True  # fewer are possible at all
        share = each[np.argmax(is_enough)]
    return share / share.sum()
