"""Draw the particles anew by importance sampling, all rows weighed: the log evidence without the errors of the path.

With a proposal q near the posterior, here a Student t about the mode, M draws θᵢ give

    wᵢ = p(θᵢ) p(D | θᵢ) / q(θᵢ),        Ẑ = (1/M) Σ wᵢ,

unbiased, with independent terms: its standard error is that of a mean. What it cannot see is a mode that q misses.
So where particles that came another way exist, from the prior by annealing, they are asked first (`covers`).

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t); Meng and Wong (1996),
Statistica Sinica 6, 831 (draws from both sides, Eq. 1.5).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.evidence.annealing import Population, log_evidence_variance
from evidentia.laplace import Laplace, draw_student_t
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.symmetry import log_proposal

MIN_ESS = 0.2  # effective draws as a share of the particles: below, weights have tails that show too rarely
MAX_BATCHES = 32  # of draws, as many as there are particles in each, where one has too few effective ones
MAX_EVALUATIONS = 1_000_000  # rows times batches: many batches while there are few rows, one at a million
MISSED = 0.05  # share of the posterior that the proposal may miss


class WeightedDraws(NamedTuple):
    """Draws with log weights of which the mean is the evidence: log p(D) is `offset` + log mean exp(log_weights)."""

    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    offset: float

    def population(self, key: Array, count: int) -> Population:
        """As particles: the draws with their weights, or `count` of them resampled where there are more."""
        if len(self.positions) == count:
            return Population(key, self.positions, self.log_weights, self.log_evidence)
        key, key_resample = jax.random.split(key)
        chosen = weights.resample(key_resample, self.log_weights, count)
        variance = weights.relative_variance(self.log_weights)
        return Population(key, self.positions[chosen], np.zeros(count), self.log_evidence, variance)

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight, in nats."""
        return self.offset + weights.log_sum_exp(self.log_weights) - np.log(len(self.log_weights))


def weighted_draws(
    model: BoundModel, rows: Rows, laplace: Laplace, key: Array, count: int
) -> WeightedDraws | None:
    """Draws about the mode, weighted by the posterior: `count` of them, or a multiple where too few count.

    None where that is not enough, or where a weight is NaN.
    """
    found = None
    for index in range(min(MAX_BATCHES, max(1, MAX_EVALUATIONS // rows.size))):
        positions = draw_student_t(jax.random.fold_in(key, index), laplace, count)
        log_weights, offset = log_ratio(model, rows, laplace, positions)
        if np.isnan(log_weights).any():
            return None
        if found is None:
            found = WeightedDraws(positions, log_weights, offset)
        else:
            log_weights = np.concatenate([found.log_weights, log_weights + offset - found.offset])
            found = WeightedDraws(jnp.concatenate([found.positions, positions]), log_weights, found.offset)
        if weights.ess(found.log_weights) >= MIN_ESS * count:
            return found
        if weights.ess(found.log_weights) * MAX_BATCHES < MIN_ESS * count * (index + 1):
            return None  # hopeless: even all batches would not do
    return None


def log_ratio(
    model: BoundModel, rows: Rows, laplace: Laplace, positions: Float[Array, "particles parameters"]
) -> tuple[Float[np.ndarray, " particles"], float]:
    """log p(θ) p(D | θ) / q(θ) at every position, less an offset that is returned beside it."""
    deviations, offset = log_likelihood_sums(model, positions, rows)
    return deviations + model.log_priors(positions) - log_proposal(model, laplace, positions), offset


def covers(
    model: BoundModel, rows: Rows, laplace: Laplace, draws: WeightedDraws, population: Population
) -> bool:
    """Whether the proposal covers weighted particles of the posterior.

    With r = p(θ) p(D | θ) / (q(θ) Ẑ), the average of 1/(1 + r) over the posterior equals that of r/(1 + r) over q. Both
    lie near ½ where q is close. If q misses a share m of the posterior, r is huge there, and Ẑ is too small elsewhere:
    the first average falls to (1 - m)/2 and the second stays.

    Particles that a kernel without Metropolis' correction has moved may lie where the posterior is not, and fail this.
    With those it is enough that both ways have found the same log evidence, to within three standard errors.
    """
    if not population.is_exact:
        variance = log_evidence_variance(population) + weights.relative_variance(draws.log_weights)
        if abs(draws.log_evidence - population.log_evidence) < 3 * np.sqrt(variance):
            return True
    positions, log_weights = population.positions, population.log_weights
    log_ratios, offset = log_ratio(model, rows, laplace, positions)
    share = np.exp(weights.normalise(log_weights))
    of_particles = _expit(draws.log_evidence - offset - log_ratios)
    of_draws = _expit(draws.log_weights + draws.offset - draws.log_evidence)
    first, second = share @ of_particles, np.mean(of_draws)
    variance = share @ (of_particles - first) ** 2 / weights.ess(log_weights) + np.var(of_draws) / len(
        of_draws
    )
    return bool(abs(first - second) < 0.5 * MISSED + 3 * np.sqrt(variance))


def _expit(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * values))
