"""Log weights of particles and models: effective sample size, temperatures, resampling.

All functions take log weights as float64 NumPy vectors on the host: there are a few hundred of
them, and float32 loses the answer when increments of 10⁶ rows are added up. Weights need not be
normalised unless a function says so. A log weight of -inf is a particle of weight zero.
"""

import math
from functools import partial

import jax
import numpy as np
from blackjax.smc import resampling
from jaxtyping import Array, Float, Int
from numpy import ndarray

from evidentia import arviz_bridge

LogWeights = Float[ndarray, " particles"]

FEW_EFFECTIVE = 100.0  # draws; with fewer, even the variance of the weights is unknown
MAX_PARETO_SHAPE = 0.7  # of the largest weights; above it, their mean is unstable (`pareto_shape`)


def log_sum_exp(log_weights: Float[ndarray, "..."]) -> float:
    """log Σ exp(log_weights) over all axes, without overflow; -inf if every weight is zero."""
    largest = np.max(log_weights)
    if largest == -np.inf:
        return -np.inf
    return float(largest + np.log(np.sum(np.exp(log_weights - largest))))


def log_mean(log_weights: LogWeights) -> float:
    """Log of the mean weight: for independent importance weights, the log evidence in nats."""
    return log_sum_exp(log_weights) - float(np.log(len(log_weights)))


def normalise(log_weights: LogWeights) -> LogWeights:
    """Log weights shifted so that the weights sum to one."""
    return log_weights - log_sum_exp(log_weights)


def ess(log_weights: LogWeights) -> float:
    """Effective sample size (Σ w)² / Σ w² in particles; 0 if every weight is zero."""
    largest = np.max(log_weights)
    if largest == -np.inf:
        return 0.0
    shares = np.exp(log_weights - largest)
    return float(np.sum(shares) ** 2 / np.sum(shares**2))


def relative_variance(log_weights: LogWeights) -> float:
    """Estimated variance of the mean weight over its square, (M / ESS - 1) / M.

    This is the variance of the logarithm, in nats². NaN if every weight is zero.
    """
    count, effective = len(log_weights), ess(log_weights)
    # Rounding must not make it negative if all weights are equal.
    return max((count / effective - 1) / count, 0.0) if effective else float("nan")


def family_variance(log_weights: LogWeights, ancestors: Int[ndarray, " particles"], count: int) -> float:
    """`relative_variance` with particles of one ancestor counted as one: Σ (F_a - 1/count)².

    F_a is the weight of the family of the ancestor a, one of `count`. Particles that descend from
    one ancestor by resampling and short moves are similar, so errors of one stretch recur in the
    next. Source: Chan and Lai (2013), Annals of Statistics 41, Eq. 2.15; Lee and Whiteley (2018),
    Biometrika 105, section 3.
    """
    families = np.bincount(ancestors, np.exp(normalise(log_weights)), count)
    return float(np.sum(families**2) - 1 / count)


def log_evidence_increment(log_weights: LogWeights, increments: LogWeights) -> float:
    """Log evidence increment of a reweighting, log Σ W exp(increments), W normalised, in nats."""
    return log_sum_exp(log_weights + increments) - log_sum_exp(log_weights)


def share_of_path(first: float, last: float) -> float:
    """Estimated share of a path to temperature 1, after steps from the `first` to the `last` one.

    Steps of equal effective sample size grow about as the temperature does.
    """
    if last == 1.0 or first == 0.0:  # zero where the log-likelihoods differ by more than floats can
        return last
    return 1.0 - math.log(last) / math.log(first)


def next_temperature(
    log_weights: LogWeights, log_likelihoods: LogWeights, temperature: float, target: float
) -> float:
    """The temperature λ' in (λ, 1] at which reweighting by L^(λ' - λ) gives an ESS of `target`.

    `target` is a number of particles. Returns 1.0 if the whole step keeps at least that many;
    otherwise λ' by bisection. Particles with a log-likelihood of -inf are lost at any step. If
    fewer than `target` survive, the step keeps nine tenths of the survivors, or the ratio of
    `target` to all particles if that is more. Source: SGAIS, Algorithm 1, line "find Δ such that
    ESS(Δ) = ESS*".
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


SCHEMES = "systematic", "stratified", "residual", "multinomial"


def resample(
    key: Array, log_weights: LogWeights, count: int | None = None, scheme: str = "systematic"
) -> Int[Array, " count"]:
    """Draw `count` ancestors (by default one per particle) by one of the `SCHEMES`.

    Particle i occurs count Wᵢ times on average under each scheme; under the systematic one,
    ⌊count Wᵢ⌋ or ⌈count Wᵢ⌉ times.

    Source: Carpenter, Clifford, Fearnhead (1999); Douc, Cappé (2005), a comparison; the schemes
        are BlackJAX's.
    """
    weights = np.asarray(np.exp(normalise(log_weights)), np.float32)
    return _resample(key, weights, count or len(weights), scheme)


@partial(jax.jit, static_argnames=("count", "scheme"))
def _resample(key, weights, count, scheme):
    return getattr(resampling, scheme)(key, weights, count)


def systematic(
    generator: np.random.Generator, log_weights: LogWeights, count: int | None = None
) -> Int[ndarray, " count"]:
    """As `resample` by the systematic scheme, on the host, in random order.

    It takes a tenth of the time that a call of a compiled program takes, and works in processes
    forked from one that has used JAX.
    """
    share = np.exp(normalise(np.asarray(log_weights, np.float64)))
    count = len(share) if count is None else count
    places = (generator.random() + np.arange(count)) / count
    return generator.permutation(np.minimum(np.searchsorted(np.cumsum(share), places), len(share) - 1))


def pareto_shape(log_weights: Float[np.ndarray, " particles"]) -> float:
    """Shape k of a generalised Pareto distribution fitted (by ArviZ) to the largest weights.

    Importance weights have a finite variance for k < 1/2. Up to k = 0.7 their mean still converges
    with a feasible number of draws. Weights of zero are ignored.

    Source: Vehtari, Simpson, Gelman, Yao, Gabry (2024), Journal of Machine Learning Research
        25(72), sections 2.3 and 3.
    """
    with np.errstate(over="ignore"):  # in candidates that the fit then gives no weight
        return arviz_bridge.pareto_shape(log_weights[np.isfinite(log_weights)])


def model_probabilities(
    log_evidence: Float[ndarray, " models"],
    standard_error: Float[ndarray, " models"],
    prior: Float[ndarray, " models"],
) -> tuple[Float[ndarray, " models"], Float[ndarray, " models"]]:
    """The models' probabilities and first-order errors; see `compare` for the equations."""
    probability = prior * np.exp(log_evidence - log_evidence.max())
    probability /= probability.sum()
    jacobian = probability[:, None] * (np.eye(len(probability)) - probability)
    first_order = np.sqrt(jacobian**2 @ standard_error**2)
    return probability, np.minimum(first_order, np.sqrt(probability * (1 - probability)))
