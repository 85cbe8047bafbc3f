"""The bridge: the ratio of two normalising constants, from draws of both densities.

Let p = f / Z be known up to Z, and q be a normalised density. With N₁ draws of p, worth n₁
independent ones, N₂ independent draws of q, and l = f / q at each of them, the estimate of Z is
the fixed point of

    Ẑ ← [ 1/N₂ Σⱼ l₂ⱼ / (s₁ l₂ⱼ + s₂ Ẑ) ] / [ 1/N₁ Σᵢ 1 / (s₁ l₁ᵢ + s₂ Ẑ) ],

s₁ = n₁ / (n₁ + N₂), s₂ = N₂ / (n₁ + N₂): of all bridge functions this has the smallest mean
squared error. Where draws of the two densities hardly overlap, the iteration is about Ẑ ← c / Ẑ,
which swings between two values and never ends.

Source: Meng and Wong (1996), Statistica Sinica 6, 831 (the optimal bridge function); Gronau et al.
(2017), Journal of Mathematical Psychology 81, 80, Eq. 15 (the iteration) and appendix A (its
error); Frühwirth-Schnatter (2004), Econometrics Journal 7, 143 (the error for draws of a chain).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from evidentia import weights
from evidentia.errors import EstimationError

MAX_ITERATIONS = 1000

Chains = Float[np.ndarray, "chains draws"]


class Bridged(NamedTuple):
    """log Ẑ in nats, its variance in nats², the iterations that it took, and effective draws.

    `ess` is the effective number of draws of p for the mean in the denominator.
    """

    log_evidence: float
    variance: float
    num_iterations: int
    ess: float


def bridge(log_ratios: Chains, log_proposal_ratios: Float[np.ndarray, " others"], ess: float) -> Bridged:
    """The bridge between p and q.

    Args:
        log_ratios: log l₁, log f / q at the draws of p, in nats.
        log_proposal_ratios: log l₂, the same at the draws of q.
        ess: n₁, the number of independent draws that those of p are worth.

    Raises:
        EstimationError: the iteration does not converge.

    Example:
        >>> bridge(np.zeros((2, 50)), np.zeros(100), ess=100.0).log_evidence
        0.0
    """
    share = ess / (ess + len(log_proposal_ratios))
    log_share, log_rest = np.log(share), np.log1p(-share)
    shift = float(np.median(log_ratios))
    first, second = log_ratios.ravel() - shift, log_proposal_ratios - shift
    value = 0.0
    for iteration in range(1, MAX_ITERATIONS + 1):
        with np.errstate(invalid="ignore"):
            above = weights.log_mean(second - np.logaddexp(log_share + second, log_rest + value))
            below = weights.log_mean(-np.logaddexp(log_share + first, log_rest + value))
        before, value = value, above - below
        if not np.isfinite(value):
            break
        if abs(value - before) < 1e-10:  # nats
            return _with_error(log_ratios - shift - value, second - value, share, value + shift, iteration)
    raise EstimationError(
        f"bridge sampling did not converge in {MAX_ITERATIONS:,} iterations: the posterior draws and those of the density "
        "fitted to half of them hardly overlap. Check that the chains agree (r-hat below 1.01) and belong to this model and "
        "these data; use more draws, or another method, such as SGAIS()."
    )


def _with_error(
    log_ratios: Chains,
    log_proposal_ratios: Float[np.ndarray, " others"],
    share: float,
    log_evidence: float,
    num_iterations: int,
) -> Bridged:
    """The estimate with its relative mean squared error, from l / Ẑ at the draws.

    With f₁ = p / (s₁ p + s₂ q) at draws of q and f₂ = q / (s₁ p + s₂ q) at draws of p,

        RE² = 1/N₂ Var f₁ / (E f₁)² + ρ/N₁ Var f₂ / (E f₂)²,

    where ρ, the spectral density of f₂ at zero over its variance, is N₁ over its effective number
    of draws.
    """
    denominator = np.logaddexp(np.log(share) + log_proposal_ratios, np.log1p(-share))
    at_proposals = np.exp(log_proposal_ratios - denominator)
    at_draws = np.exp(-np.logaddexp(np.log(share) + log_ratios, np.log1p(-share)))
    ess = effective_draws(at_draws)
    variance = _relative_variance(at_proposals) / at_proposals.size + _relative_variance(at_draws) / ess
    return Bridged(log_evidence, float(variance), num_iterations, ess)


def _relative_variance(values: np.ndarray) -> float:
    return float(np.var(values, ddof=1) / np.mean(values) ** 2)


def effective_draws(values: Chains) -> float:
    """The number of independent draws whose mean is as accurate as that of these chains.

    At most the number of draws; all of them if the values are equal; NaN if they are too few.
    """
    import arviz  # slow to import

    if np.ptp(values) == 0:
        return float(values.size)
    return float(np.fmin(arviz.ess(values, method="mean"), values.size)) if values.shape[1] >= 4 else np.nan
