"""Particles between prior and posterior, with the log evidence so far and its variance."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evidentia import weights
from evidentia.errors import EstimationError
from evidentia.evidence.method import Estimate
from evidentia.model.bound import BoundModel
from evidentia.posterior.symmetry import Centre, fold, fold_to
from evidentia.system.interruption import check

LAG = 4  # resamplings after which the descendants of one particle count as independent


class Population(NamedTuple):
    """Particles, their weights, and the log evidence so far.

    Attributes:
        key: random key for the next step.
        positions: unconstrained.
        log_weights: since the last resampling.
        log_evidence: the sum of the log increments, in nats, float64 on the host, uncorrected.
        variance: variance of the log evidence up to the last resampling, in nats².
        ancestors: indices of the ancestors 1, 2, … up to `LAG` resamplings ago of every chain of
            particles (`moves`); a particle is a chain of its own if only its last state is kept.
        counted: the part of `variance` that was counted since the oldest of those.
        memory: memory of the gradient estimator.
        origins: the number of the particle at the start of the path from which each descends,
            however long ago; each is its own before the first resampling.
    """

    key: Array
    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    log_evidence: float = 0.0
    variance: float = 0.0
    ancestors: Int[np.ndarray, "generations chains"] | tuple[()] = ()
    counted: float = 0.0
    memory: Any = None
    origins: Int[np.ndarray, " particles"] | tuple[()] = ()


def from_prior(model: BoundModel, key: Array, count: int) -> Population:
    """Particles drawn from the prior, with equal weights and a log evidence of about zero.

    It is the log of the share of the prior that float32 has (`draws_inside`).
    """
    key, key_prior = split_key(key)
    drawn = draws_inside(model, key_prior, count)
    return Population(key, drawn.positions, np.zeros(count), drawn.log_share, drawn.variance)


def reweighted(population: Population, increments: Float[np.ndarray, " particles"]) -> Population:
    """Add increments to the log weights and update the log evidence."""
    gained = weights.log_evidence_increment(population.log_weights, increments)
    return population._replace(
        log_weights=population.log_weights + increments, log_evidence=population.log_evidence + gained
    )


def estimate_of(population: Population, is_unbiased: bool = True) -> Estimate:
    """The raw log evidence and its variance."""
    return Estimate(population.log_evidence, log_evidence_variance(population), is_unbiased)


def log_evidence_variance(population: Population) -> float:
    """Fixed-lag estimate of the variance of the log evidence, in nats², over `LAG` resamplings.

    The stretch since the oldest remembered generation is treated as one, with the variance between
    its families; older stretches were counted when they left the lag. Source: Olsson and Douc
    (2019), Bernoulli 25, 1504 (the lag).
    """
    return max(0.0, population.variance + _families_variance(population) - population.counted)


def resample_particles(population: Population, scheme: str, chain_length: int = 1) -> Population:
    """Resample to equal weights, and record the ancestry that the variance estimate needs.

    Each child begins a chain of `chain_length` particles, so there are fewer children than
    particles. They are in the order of their parents, so those of one half stay together.
    """
    key, key_resample = split_key(population.key)
    count = len(population.log_weights) // chain_length
    chosen = np.sort(weights.resample(key_resample, population.log_weights, count, scheme))
    parents = chosen // chain_length
    earlier = [ancestors[parents] for ancestors in population.ancestors][: LAG - 1]
    is_full = len(population.ancestors) == LAG
    return population._replace(
        key=key,
        positions=jnp.asarray(np.asarray(population.positions)[chosen]),  # on the host: no compilation
        log_weights=np.zeros(count),
        variance=log_evidence_variance(population),
        ancestors=np.stack([parents, *earlier]),
        origins=np.repeat(origins_of(population)[chosen], chain_length),
        counted=_families_variance(population, skip=int(is_full)),
    )


def in_mixed_halves(count: int) -> Int[np.ndarray, " particles"]:
    """An order in which each half has every second of the particles, so that they are alike."""
    return np.concatenate([np.arange(0, count, 2), np.arange(1, count, 2)])


def families_of(population: Population) -> Int[np.ndarray, " particles"]:
    """The number of each particle's ancestor, as far back as these are known."""
    generations = len(population.ancestors)
    return population.ancestors[generations - 1] if generations else np.arange(len(population.log_weights))


def origins_of(population: Population) -> Int[np.ndarray, " particles"]:
    """The number of the particle at the start of the path from which each particle descends."""
    return np.asarray(population.origins) if len(population.origins) else np.arange(len(population.positions))


def with_families(population: Population, families: Int[np.ndarray, " particles"]) -> Population:
    """Particles of equal weights; those with the same number count as relatives from here on."""
    numbers = np.unique(families, return_inverse=True)[1]
    population = population._replace(ancestors=numbers[None], origins=numbers)
    return population._replace(counted=_families_variance(population))


@jax.jit
def split_key(key: Array) -> tuple[Array, Array]:
    """Split a key in one small program; on the host each operation would be its own program."""
    first, second = jax.random.split(key)
    return first, second


def host_generator(key: Array) -> np.random.Generator:
    """NumPy's generator for a key: on the host, each operation on a key would be compiled."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _families_variance(population: Population, skip: int = 0) -> float:
    log_weights, ancestors = population.log_weights, population.ancestors
    generations = len(ancestors) - skip
    if generations <= 0:
        return weights.relative_variance(log_weights)
    found = ancestors[generations - 1]
    of_particles = np.repeat(found, len(log_weights) // len(found))
    return weights.family_variance(log_weights, of_particles, len(found))


class Particles(NamedTuple):
    """Float64 positions, components in a common order, with shares that sum to one.

    Those with the same number in `families` have an ancestor in common, as far back as these are
    known (`Population`); if that is None, each is a family of its own. `origins` are the particles
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


def some_of(
    particles: Particles, generator: np.random.Generator, count: int
) -> Float[np.ndarray, "chosen parameters"]:
    """Positions of some particles, chosen in proportion to their weights."""
    chosen = generator.choice(len(particles.share), count, p=particles.share / particles.share.sum())
    return particles.positions[chosen]


class PriorDraws(NamedTuple):
    """Draws from the inside of the prior, the log of its share, and the variance of that log."""

    positions: Float[Array, "draws parameters"]
    log_share: float = 0.0
    variance: float = 0.0


def draws_inside(model: BoundModel, key: Array, count: int) -> PriorDraws:
    """Draws from the prior, without those that float32 rounds to the edge of a support.

    Of the draws from Gamma(10⁻⁴, 10⁻⁴), 99 in 100 are smaller than e⁻⁸⁷ and become zero; on the
    unconstrained scale they lie at the edge, -87, whatever they were. Such draws are not draws of
    the density p: their pile would count as a place of the posterior. So the draws used are those
    inside, of the density p(θ) / s, where s is the prior's share there, and s is a factor of the
    evidence. What the outside adds is left out; a sign says where it matters (`float32`).

    Raises EstimationError if fewer than `count` are found.
    """
    positions = model.sample_prior(key, count)
    if not model.is_at_edge(positions).any():
        return PriorDraws(positions)
    size = max(count, min(2**17, 2**24 // model.num_parameters))  # draws at a time
    found, total = [np.asarray(positions)[:0]], 0
    while sum(map(len, found)) < count and total < 16 * size:
        check()
        key, key_block = jax.random.split(key)
        many = np.asarray(model.sample_prior(key_block, size))
        found.append(many[~model.is_at_edge(many)])
        total += size
    inside = np.concatenate(found)
    if len(inside) < count:
        raise EstimationError(
            f"of {total:,} draws from the prior {len(inside):,} are numbers in float32, and {count:,} are needed: the others are so "
            "small or so large that they become zero or infinite. Use a prior whose mass lies between 1e-38 and 1e38, such as Gamma(0.01, 0.01)."
        )
    share = len(inside) / total
    return PriorDraws(jnp.asarray(inside[:count]), float(np.log(share)), (1 - share) / len(inside))
