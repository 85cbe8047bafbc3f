"""Log weights of particles: effective sample size, the next temperature, resampling, evidence increments.

All functions take log weights as float64 NumPy vectors on the host: there are a few hundred of them, and float32 loses
the answer when increments of 10⁶ rows are added up. Weights need not be normalised unless a function says so.
A log weight of -inf is a particle of weight zero.
"""

import jax
import numpy as np
from blackjax.smc import resampling
from jaxtyping import Array, Float, Int
from numpy import ndarray

LogWeights = Float[ndarray, " particles"]


def log_sum_exp(log_weights: LogWeights) -> float:
    """log Σ exp(log_weights), without overflow; -inf if every weight is zero."""
    largest = np.max(log_weights)
    if largest == -np.inf:
        return -np.inf
    return float(largest + np.log(np.sum(np.exp(log_weights - largest))))


def log_mean(log_weights: LogWeights) -> float:
    """Log of the mean weight: of independent importance weights, the log evidence in nats."""
    return log_sum_exp(log_weights) - float(np.log(len(log_weights)))


def normalise(log_weights: LogWeights) -> LogWeights:
    """Log weights that sum to one on the natural scale."""
    return log_weights - log_sum_exp(log_weights)


def ess(log_weights: LogWeights) -> float:
    """Effective sample size (Σ w)² / Σ w², between 1 and the number of particles; 0 if every weight is zero."""
    if np.max(log_weights) == -np.inf:
        return 0.0
    return float(np.exp(2 * log_sum_exp(log_weights) - log_sum_exp(2 * log_weights)))


def relative_variance(log_weights: LogWeights) -> float:
    """Estimated variance of the mean weight over its square, (M / ESS - 1) / M: that of its logarithm, in nats².

    NaN if every weight is zero.
    """
    count, effective = len(log_weights), ess(log_weights)
    # Rounding must not make it negative where all weights are equal; NaN where there is no weight.
    return max((count / effective - 1) / count, 0.0) if effective else float("nan")


def family_variance(log_weights: LogWeights, ancestors: Int[ndarray, " particles"]) -> float:
    """`relative_variance` where particles with the same ancestor count as one: Σ (F_a - 1/M)², F_a a family's weight.

    Particles that descend from one ancestor by resampling and moves are alike as far as the moves are short, so errors of
    one stretch come back in the next. Source: Chan and Lai (2013), Annals of Statistics 41, Eq. 2.15; Lee and Whiteley
    (2018), Biometrika 105, section 3.
    """
    families = np.bincount(ancestors, np.exp(normalise(log_weights)), len(log_weights))
    return float(np.sum(families**2) - 1 / len(log_weights))


def log_evidence_increment(log_weights: LogWeights, increments: LogWeights) -> float:
    """log Σ W exp(increments) under normalised weights W: what a reweighting adds to the log evidence, in nats."""
    return log_sum_exp(log_weights + increments) - log_sum_exp(log_weights)


def next_temperature(
    log_weights: LogWeights, log_likelihoods: LogWeights, temperature: float, target: float
) -> float:
    """The temperature λ' in (λ, 1] at which reweighting by L^(λ' - λ) leaves the effective sample size at `target`.

    `target` is a number of particles. Returns 1.0 if the whole step keeps at least that many; otherwise λ' by
    bisection. Particles with a log-likelihood of -inf are lost at any step, so where fewer than `target` survive the
    step is chosen to keep nine tenths of the survivors, or the share that `target` is if that is more.
    Source: SGAIS, Algorithm 1, line "find Δ such that ESS(Δ) = ESS*".
    """

    def ess_after(step: float) -> float:
        return ess(log_weights + step * log_likelihoods)

    remaining = 1.0 - temperature
    survivors = np.where(log_likelihoods == -np.inf, -np.inf, log_weights)
    target = min(target, max(0.9, target / len(log_weights)) * ess(survivors))
    if ess_after(remaining) >= target:
        return 1.0
    low, high = 0.0, remaining
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ess_after(middle) > target else (low, middle)
    return temperature + high


SCHEMES = {
    "systematic": resampling.systematic,
    "stratified": resampling.stratified,
    "residual": resampling.residual,
    "multinomial": resampling.multinomial,
}


def resample(
    key: Array, log_weights: LogWeights, count: int | None = None, scheme: str = "systematic"
) -> Int[Array, " count"]:
    """`count` ancestors, by default as many as particles, drawn by a scheme of `SCHEMES`.

    Particle i occurs count Wᵢ times on average under each; systematically ⌊count Wᵢ⌋ or ⌈count Wᵢ⌉ times.

    Source: Carpenter, Clifford, Fearnhead (1999); Douc, Cappé (2005), a comparison; the schemes are BlackJAX's.
    """
    weights = jax.numpy.asarray(np.exp(normalise(log_weights)), jax.numpy.float32)
    return SCHEMES[scheme](key, weights, count or len(weights))


def pareto_shape(log_weights: Float[np.ndarray, " particles"]) -> float:
    """Shape k of the generalised Pareto distribution that fits the largest importance weights (ArviZ's fit).

    The weights have a finite variance for k < 1/2. Up to k = 0.7 their mean still settles with feasible numbers of draws.
    Weights of zero do not count.

    Source: Vehtari, Simpson, Gelman, Yao, Gabry (2024), Journal of Machine Learning Research 25(72), sections 2.3 and 3.
    """
    from arviz import psislw  # it loads much

    with np.errstate(over="ignore"):  # in candidates of the fit that it then gives no weight
        return float(psislw(log_weights[np.isfinite(log_weights)])[1])
