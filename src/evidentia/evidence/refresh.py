"""Draw the particles anew by importance sampling, all rows weighed: the log evidence without the errors of the path.

With a proposal q near the posterior, here a Student t about the mode, M draws θᵢ give

    wᵢ = p(θᵢ) p(D | θᵢ) / q(θᵢ),        Ẑ = (1/M) Σ wᵢ,

unbiased, with independent terms: its standard error is that of a mean. What it cannot see is a mode that q misses.
So where particles that came another way exist, from the prior by annealing, they are asked first (`overlap`).

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t); Meng and Wong (1996),
Statistica Sinica 6, 831 (draws from both sides, Eq. 1.5).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.laplace import Laplace, draw_student_t
from evidentia.model import BoundModel
from evidentia.rows import Rows, log_likelihood_sums
from evidentia.symmetry import log_proposal

MIN_EFFICIENCY = (
    0.2  # effective draws as a share of the draws: below, weights have tails that show too rarely
)
MISSED = 0.05  # share of the posterior that the proposal may miss


class WeightedDraws(NamedTuple):
    """Draws with log weights of which the mean is the evidence: log p(D) is `offset` + log mean exp(log_weights)."""

    positions: Float[Array, "particles parameters"]
    log_weights: Float[np.ndarray, " particles"]
    offset: float

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight, in nats."""
        return self.offset + weights.log_sum_exp(self.log_weights) - np.log(len(self.log_weights))


def weighted_draws(
    model: BoundModel, rows: Rows, laplace: Laplace, key: Array, count: int
) -> WeightedDraws | None:
    """Draws about the mode, weighted by the posterior; None where too few of them count or a weight is NaN."""
    positions = draw_student_t(key, laplace, count)
    log_weights, offset = log_ratio(model, rows, laplace, positions)
    if np.isnan(log_weights).any() or weights.ess(log_weights) < MIN_EFFICIENCY * count:
        return None
    return WeightedDraws(positions, log_weights, offset)


def log_ratio(
    model: BoundModel, rows: Rows, laplace: Laplace, positions: Float[Array, "particles parameters"]
) -> tuple[Float[np.ndarray, " particles"], float]:
    """log p(θ) p(D | θ) / q(θ) at every position, less an offset that is returned beside it."""
    deviations, offset = log_likelihood_sums(model, positions, rows)
    return deviations + model.log_priors(positions) - log_proposal(model, laplace, positions), offset


def covers(
    model: BoundModel,
    rows: Rows,
    laplace: Laplace,
    draws: WeightedDraws,
    positions: Float[Array, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
) -> bool:
    """Whether the proposal covers weighted particles of the posterior.

    With r = p(θ) p(D | θ) / (q(θ) Ẑ), the average of 1/(1 + r) over the posterior equals that of r/(1 + r) over q. Both
    lie near ½ where q is close. If q misses a share m of the posterior, r is huge there, and Ẑ is too small elsewhere:
    the first average falls to (1 - m)/2 and the second stays.
    """
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
