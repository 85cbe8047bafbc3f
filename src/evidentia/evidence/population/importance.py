"""Importance sampling of a posterior from a proposal, with all rows.

M draws θᵢ from a proposal q give

    wᵢ = p(θᵢ) p(D | θᵢ) / q(θᵢ),        Ẑ = (1/M) Σ wᵢ,

which is unbiased, but for a cut of the largest weights, with independent terms: its standard error
is that of a mean. With a share δ of the draws from the prior, q includes δ p(θ), and no weight
exceeds p(D | θᵢ) / δ, wherever the rest of q may be thin.

Near modes, a few thousand of many rows are enough. With e_i the second-order expansion of a row's
log-likelihood ℓ_i about the nearest mode, whose sum E over all rows is known, and S a sample of R
out of n rows,

    Σ_{i ≤ n} ℓ_i(θ) ≈ E(θ) + (n/R) Σ_{i in S} (ℓ_i(θ) - e_i(θ)).

The remainders are of third order: at 10⁶ rows and a few parameters some 10⁻⁸ nats for each row. A
few draws are evaluated with all rows. They show what the estimate misses, also for lack of a row
that is unlike all others: the mean of their differences is added, and their variance decides
whether the estimate is good enough.

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t);
Hesterberg (1995), Technometrics 37, 185 (a share of the draws from a density with heavy tails);
Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical Association 114, 831, Eq. 5
(the difference estimator) and section 2.3 (expansions about the mode; the correction of a weight's
bias by half the variance).
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.population.mixture import Mixture, check_density
from evidentia.evidence.population.particles import (
    Population,
    host_generator,
    in_mixed_halves,
    split_key,
    with_families,
)
from evidentia.model.blocks import in_blocks
from evidentia.model.bound import BoundModel
from evidentia.model.local import Integrated
from evidentia.posterior.copies import rows_of_density, symmetrised
from evidentia.posterior.rows import NUM_EXACT, Rows
from evidentia.system.interruption import check

MIN_ESS = 0.2  # effective draws as a fraction of the particles; below it, tail weights are seen too rarely
GOOD = (
    0.5  # the same, wanted of a learnt proposal and reached about regular modes; on a Gaussian at least 0.95
)
MANY_BATCHES = 32  # of one draw per particle
FREE = 4_000_000  # likelihoods of a row that cost next to nothing, so that there are always many draws
CHEAP = 10 * FREE  # the same that draws may take in any case
ACCURATE = 0.01  # nats of standard error, for which there are more draws while they are cheap


class Sampling(NamedTuple):
    """What all importance sampling for one posterior shares.

    Attributes:
        model, rows: of which the posterior is drawn from.
        generator: the random numbers.
        count: draws in a batch, as many as there are particles.
    """

    model: BoundModel
    rows: Rows
    generator: np.random.Generator
    count: int

    @classmethod
    def of(cls, model: BoundModel, rows: Rows, population: Population) -> "Sampling":
        """As many draws as there are particles, with random numbers from their key.

        The key stays with the particles. So it is split wherever others are drawn later: after a
        failed attempt (`leaps`), and for the particles that replace these.
        """
        return cls(model, rows, host_generator(population.key), len(population.log_weights))


class WeightedDraws(NamedTuple):
    """Draws with log weights; log p(D) is `offset` + log mean exp(log_weights).

    `variance` is what the weights do not show of that of log p(D), in nats². Completed draws have
    particles of the posterior among them for weights too rare to be seen, unless these show none
    (`check.completed`).
    """

    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    offset: float
    variance: float = 0.0
    is_completed: bool = False

    def population(self, key: Array, count: int) -> Population:
        """The draws with their weights as particles, or `count` resampled if there are more.

        The draws are ordered by mode, but each half of the particles must be of all modes.
        """
        order = in_mixed_halves(len(self.log_weights))
        positions, log_weights = np.asarray(self.positions)[order], self.log_weights[order]
        if len(order) == count:
            return Population(key, jnp.asarray(positions), log_weights, self.log_evidence, self.variance)
        key, key_resample = split_key(key)
        chosen = np.sort(weights.resample(key_resample, log_weights, count))
        variance = self.variance + weights.relative_variance(log_weights)
        drawn = Population(key, jnp.asarray(positions[chosen]), np.zeros(count), self.log_evidence, variance)
        return with_families(drawn, chosen)

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight, in nats."""
        return self.offset + weights.log_mean(self.log_weights)


def weighted_draws(
    sampling: Sampling, proposal: Mixture, max_batches: int = 1, min_batches: int = 1
) -> WeightedDraws:
    """Weighted draws from the proposal: one batch, or more if the weights are uneven.

    Those of a learnt proposal are as many as `GOOD` asks for, within the batches: the largest
    weights, in tails that it covers thinly, are rare. There are at least `min_batches`, unless
    even the most batches would not give `MIN_ESS`. A number that depends on the weights makes the
    mean of heavy ones slightly low. The proposal is checked first (`mixture.check_density`).

    Weights above √N times their mean, for N draws, are cut there: a single draw from the
    proposal's far tail could otherwise outweigh all others. What is lost vanishes as N grows.
    Source: Ionides (2008), Journal of Computational and Graphical Statistics 17, 295.
    """
    check_density(proposal)
    count = sampling.count
    wanted = (GOOD if proposal.is_learnt else MIN_ESS) * count
    max_batches = min(max_batches, max(1, 3_000_000 // sampling.rows.size))  # three of a million rows
    found = _batch(sampling, proposal)
    for index in range(1, max_batches):
        hopeless = not weights.ess(found.log_weights) * max_batches >= MIN_ESS * count * index
        if hopeless or (weights.ess(found.log_weights) >= wanted and index >= min_batches):
            break
        more = _batch(sampling, proposal)
        found = WeightedDraws(
            jnp.asarray(np.concatenate([found.positions, more.positions])),  # on the host: no compilation
            np.concatenate([found.log_weights, more.log_weights + more.offset - found.offset]),
            found.offset,
            max(found.variance, more.variance),
        )
    largest = weights.log_mean(found.log_weights) + 0.5 * np.log(len(found.log_weights))
    return found._replace(log_weights=np.minimum(found.log_weights, largest))


def accurate_draws(
    sampling: Sampling, proposal: Mixture, draws: WeightedDraws, affordable: int = CHEAP
) -> WeightedDraws:
    """The draws, or as many new ones as a standard error of `ACCURATE` takes, if these are cheap.

    They are new, since a number of draws that depends on their own weights would bias the mean.
    They may show that the proposal is poor (`is_enough`): where they cost next to nothing, there
    are always many, so that a narrow mode beside a wide one is met.
    """
    count, cost = sampling.count, cost_of_batch(sampling)
    missing = weights.relative_variance(draws.log_weights) / ACCURATE**2
    wanted = math.ceil(missing * len(draws.log_weights) / count)
    is_free = sampling.model.evaluations is None and cost * MANY_BATCHES <= FREE
    num_batches = min(MANY_BATCHES if is_free else wanted, MANY_BATCHES, affordable // cost)
    if num_batches * count <= len(draws.log_weights):
        return draws
    return weighted_draws(sampling, proposal, num_batches, num_batches)


def cost_of_batch(sampling: Sampling) -> int:
    """What a batch of draws costs, in likelihoods of a row: by rows, or by the density."""
    return max(sampling.rows.size, rows_of_density(sampling.model)) * sampling.count


def _batch(sampling: Sampling, proposal: Mixture) -> WeightedDraws:
    check()
    model, rows, generator, count = sampling
    num_own = count - round(proposal.prior_share * count)
    positions, is_lost = proposal.draw(generator, num_own), np.zeros(count, bool)
    if num_own < count:
        key = jax.random.key(generator.integers(2**32))
        of_prior = model.sample_prior(key, count - num_own)
        is_lost[num_own:] = model.is_at_edge(of_prior)
        positions = jnp.asarray(np.concatenate([positions, of_prior]))  # on the host: no compilation
    found = log_likelihoods_near(model, rows, proposal, positions)
    deviations, offset, variance = found or (*rows.log_likelihoods(model, positions), 0.0)
    log_weights = deviations + log_prior_ratio(model, proposal, positions)
    # Far out in the prior a likelihood may overflow. Draws that float32 rounds to the edge of a
    # support are not draws of the prior's density.
    is_lost[num_own:] |= np.isnan(log_weights[num_own:])
    log_weights = np.where(is_lost, -np.inf, log_weights)
    return WeightedDraws(positions, log_weights, offset, variance)


def log_likelihoods_near(
    model: BoundModel, rows: Rows, proposal: Mixture, positions: Float[Array, "draws parameters"]
) -> tuple[Float[np.ndarray, " draws"], float, float] | None:
    """Log-likelihoods at draws from the expansions about their nearest modes and a sample of rows.

    They are as in `Rows.log_likelihoods`, corrected for the bias of exp(·), with the variance of
    the offset, which all draws share. None if there are few rows, if an expansion is missing, or
    if the estimate is not good enough.
    """
    # All of fewer rows take less time than the rest.
    if rows.size < 50_000 or rows.size < rows.num_observations or len(positions) <= NUM_EXACT:
        return None
    on_host = np.asarray(positions, np.float64)
    nearest = np.argmax(proposal.log_terms(on_host), axis=0)
    known = {mode: proposal.components[mode].expansion for mode in np.unique(nearest)}
    if any(expansion is None for expansion in known.values()):
        return None
    blocks = rows.blocks(8, 512)
    weight = rows.size / (8 * 512)
    found = np.zeros(len(on_host))
    for block in blocks:
        # In float64: what float32 loses of a coefficient of the parameters adds up over all rows.
        found += weight * block.exact_log_likelihoods(model, on_host)
    for mode, remainder in known.items():
        for block in blocks:
            remainder = remainder.plus(block.expand(model, remainder.centre), -weight)
        found[nearest == mode] += remainder.value + remainder.rise(on_host[nearest == mode])
    # From the highest to the lowest, where remainders are largest.
    checked = np.argsort(found)[np.linspace(0, len(on_host) - 1, NUM_EXACT).astype(int)]
    differences = rows.exact_log_likelihoods(model, on_host[checked]) - found[checked]
    variance = float(np.var(differences, ddof=1))
    if not variance <= 0.05**2 or not np.isfinite(found).all():  # nats²
        return None
    return found, float(np.mean(differences)) - 0.5 * variance, variance / NUM_EXACT


def is_enough(draws: WeightedDraws, count: int) -> bool:
    """Whether the effective number of draws is large enough; False if a weight is NaN."""
    return bool(weights.ess(draws.log_weights) >= MIN_ESS * count)


def is_regular(draws: WeightedDraws, count: int) -> bool:
    """Whether one batch had even weights, as if the posterior is about Gaussian at its modes."""
    return len(draws.log_weights) == count and bool(weights.ess(draws.log_weights) >= GOOD * count)


def num_free_looks(model: BoundModel, rows: Rows) -> int:
    """The number of positions at which the likelihoods of rows cost next to nothing.

    They cost at least a look at each number, of which a row of dependent observations has many;
    those outside JAX and those that are integrals cost more than their numbers say.
    """
    if model.evaluations is not None or isinstance(model.densities.pointwise, Integrated):
        return 0
    numbers = sum(int(np.prod(leaf.shape[1:])) for leaf in jax.tree.leaves(rows.near.arrays))
    return FREE // (rows.size * max(1, numbers))


def log_posteriors(
    model: BoundModel, rows: Rows, positions: Float[np.ndarray, "*shape parameters"], most: int = 4096
) -> Float[np.ndarray, "*shape"]:
    """Log posterior densities in float32, unnormalised; -inf where they are unknown.

    `most` positions at a time: integrals over latents of 50 rows at 16,384 would take 18 GiB.
    """

    def of_block(block: Float[np.ndarray, "positions parameters"]) -> Float[np.ndarray, " positions"]:
        narrow = jnp.asarray(block.astype(np.float32))  # on the host: no compilation
        deviations, offset = rows.log_likelihoods(model, narrow)
        return deviations + offset + model.log_priors(narrow)

    heights = in_blocks(of_block, positions.reshape(-1, positions.shape[-1]), most=most)
    return np.where(np.isnan(heights), -np.inf, heights).reshape(positions.shape[:-1])


def log_ratio(
    sampling: Sampling, proposal: Mixture, positions: Float[Any, "particles parameters"]
) -> tuple[Float[np.ndarray, " particles"], float]:
    """log p(θ) p(D | θ) / q(θ) at every position in float32, minus an offset, and the offset."""
    narrow = jnp.asarray(positions, jnp.float32)
    deviations, offset = sampling.rows.log_likelihoods(sampling.model, narrow)
    return deviations + log_prior_ratio(sampling.model, proposal, narrow), offset


def log_prior_ratio(
    model: BoundModel, proposal: Mixture, positions: Float[Array, "particles parameters"]
) -> Float[np.ndarray, " particles"]:
    """log p(θ) / q(θ) at every position, where q includes the prior's share."""
    log_ratios = model.log_priors(positions) - symmetrised(model, proposal, positions)
    share = proposal.prior_share
    if not share:
        return log_ratios
    with np.errstate(invalid="ignore"):  # both densities may be infinite at the edge of a support
        return -np.logaddexp(np.log1p(-share) - log_ratios, np.log(share))
