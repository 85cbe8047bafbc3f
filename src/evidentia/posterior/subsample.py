"""Log-likelihoods of all rows at draws near posterior modes, from a few thousand of the rows.

With e_i the second-order expansion of a row's log-likelihood ℓ_i about the nearest mode, whose sum
E over all rows is known, and S a sample of R out of n rows,

    Σ_{i ≤ n} ℓ_i(θ) ≈ E(θ) + (n/R) Σ_{i in S} (ℓ_i(θ) - e_i(θ)).

The remainders are of third order: at 10⁶ rows and a few parameters some 10⁻⁸ nats for each row. A
few draws are evaluated with all rows. They show what the estimate misses, also for lack of a row
that is unlike all others: the mean of their differences is added, and their variance decides
whether the estimate is good enough.

Source: Quiroz, Kohn, Villani, Tran (2019), Journal of the American Statistical Association 114,
831, Eq. 5 (the difference estimator) and section 2.3 (expansions about the mode; the correction of
a weight's bias by half the variance).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.rows import NUM_EXACT, Positions, Rows

NUM_BLOCKS, NUM_IN_BLOCK = 8, 512  # rows of the sample
MIN_ROWS = 50_000  # below it, all rows take less time than the rest
MAX_VARIANCE = 0.05**2  # of the log-likelihood of a draw, in nats²


class Estimated(NamedTuple):
    """Log-likelihoods as in `Rows.log_likelihoods`, corrected for the bias of exp(·).

    Attributes:
        variance: of the offset, which all draws share, in nats².
    """

    deviations: Float[np.ndarray, " draws"]
    offset: float
    variance: float


def log_likelihoods_near(
    model: BoundModel,
    rows: Rows,
    expansions: Sequence[Expansion | None],
    nearest: Int[np.ndarray, " draws"],
    positions: Positions,
) -> Estimated | None:
    """Log-likelihoods at draws from the expansions about their nearest modes and a sample of rows.

    None if there are few rows, if an expansion is missing, or if the estimate is not good enough.
    """
    known = {mode: expansions[mode] for mode in np.unique(nearest)}
    if any(expansion is None for expansion in known.values()):
        return None
    if rows.size < MIN_ROWS or rows.size < rows.num_observations or len(positions) <= NUM_EXACT:
        return None
    blocks, on_host = rows.blocks(NUM_BLOCKS, NUM_IN_BLOCK), np.asarray(positions, np.float64)
    weight = rows.size / (NUM_BLOCKS * NUM_IN_BLOCK)
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
    if not variance <= MAX_VARIANCE or not np.isfinite(found).all():
        return None
    return Estimated(found, float(np.mean(differences)) - 0.5 * variance, variance / NUM_EXACT)
