"""The evidence of one model for many small data sets at once, or the reason why not.

For each data set, Newton's method from likely prior draws finds the mode θ̂ and the precision A
of the posterior. Importance sampling from a mixture q of two Student t's about it,

    q = 0.9 t(θ̂, A⁻¹) + 0.1 t(θ̂, 9 A⁻¹),        θᵢ ~ q,        Ẑ = (1/M) Σ p(D | θᵢ) p(θᵢ) / q(θᵢ),

gives an unbiased estimate with a known error. The prior draws θⱼ of the search are a second look:
the part of the evidence above the envelope q maxᵢ wᵢ, which no draw has seen, is estimated,
without bias, by

    (1/P) Σ p(D | θⱼ) (1 - maxᵢ wᵢ / wⱼ)₊,        θⱼ ~ p(θ),        wⱼ = p(D | θⱼ) p(θⱼ) / q(θⱼ).

A data set that fails a check gets a sentence in place of an estimate; `estimate` then takes it.

Source: Geweke (1989), Econometrica 57, 1317 (importance sampling from a multivariate t).
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia import weights
from evidentia.evidence.method import Estimate
from evidentia.evidence.population.check import MISSED, missed_share
from evidentia.fleet.climbing import Lanes, climb, expander
from evidentia.fleet.students import Students
from evidentia.model.bound import BoundModel
from evidentia.posterior.gaussian import is_definite
from evidentia.system.compilation import compiled
from evidentia.system.interruption import check

NUM_DRAWS = 512  # as many as `SGAIS` has particles
NUM_STARTS = 6  # of the search for modes
MIN_LOG_MASS = -12.0  # nats, relative to the mode; smaller modes are left out
REGULAR = 0.5  # effective draws as a fraction, as `SGAIS` wants them of a mode
NEARLY_EVEN = 0.9  # the same, above which a heavy tail adds little and its fit is noise
ROUNDING = 0.01  # nats between heights in float32 and float64


class Weighted(NamedTuple):
    """Weighted draws of a posterior and what they say of its evidence."""

    estimate: Estimate
    positions: Float[ndarray, "draws parameters"]
    log_weights: Float[ndarray, " draws"]
    diagnostics: dict[str, float]


def batched(
    model: BoundModel, rows: Any, mask: Any, seeds: list[int], prior_seed: int
) -> list[Weighted | str]:
    """Weighted draws for each data set, or the reason why there are none.

    Args:
        model: without symmetries.
        rows: arrays (datasets, rows, ...), NumPy.
        mask: (datasets, rows), False where a row is padding.
        seeds: of the data sets. What is found for one does not depend on the others.
        prior_seed: of the prior draws, which all data sets share.
    """
    on_device = jax.tree.map(jnp.asarray, rows)
    prior = np.asarray(model.sample_prior(jax.random.key(prior_seed), NUM_DRAWS + 1))
    prior = np.broadcast_to(prior, (len(seeds), *prior.shape))
    log_likelihoods = _sums(model, prior, on_device, mask)
    starts, index = starts_of(prior, log_likelihoods, seeds)
    if not len(starts):
        return ["no prior draw is possible"] * len(seeds)
    lanes = climb(expander(model, rows, mask), starts, index)
    found = [_mode(lanes, np.flatnonzero(index == which)) for which in range(len(seeds))]
    size = model.num_parameters
    tops = [each if isinstance(each, Top) else Top(np.zeros(size), np.eye(size), 0.0) for each in found]
    proposal = Students(
        np.stack([top.centre for top in tops]), np.linalg.cholesky(np.stack([top.precision for top in tops]))
    )
    draws = _weighed(model, proposal, on_device, mask, seeds)
    log_ratio = log_likelihoods + _log_priors(model, prior) - proposal.log_density(prior)
    return [
        each if isinstance(each, str) else _checked(each, *parts)
        for each, *parts in zip(found, *draws, log_likelihoods, log_ratio, strict=True)
    ]


class Top(NamedTuple):
    """The only mode of a posterior, its precision and its height in float64."""

    centre: Float[ndarray, " parameters"]
    precision: Float[ndarray, "parameters parameters"]
    height: float


def _mode(lanes: Lanes, own: ndarray) -> Top | str:
    """The only mode that the lanes of a data set found, or a sentence."""
    tops = [lane for lane in own if lanes.is_top[lane] and is_definite(lanes.precision[lane])]
    if not tops:
        return "no mode was found"
    masses = [lanes.height[lane] - 0.5 * np.linalg.slogdet(lanes.precision[lane])[1] for lane in tops]
    best = tops[int(np.argmax(masses))]
    precision = lanes.precision[best]
    for lane, mass in zip(tops, masses, strict=True):
        away = lanes.position[lane] - lanes.position[best]
        if away @ precision @ away > 1 and mass - max(masses) > MIN_LOG_MASS:
            return "several modes were found"
    stuck = [lane for lane in own if not lanes.is_done[lane] or (lanes.is_top[lane] and lane not in tops)]
    if any(not lanes.height[lane] < lanes.height[best] + MIN_LOG_MASS for lane in stuck):
        return "a search for modes did not converge"
    return Top(lanes.position[best], precision, float(lanes.height[best]))


def starts_of(prior, log_likelihoods, seeds) -> tuple[ndarray, ndarray]:
    """Distinct prior draws for each data set, likely under a power of its likelihood, and whose.

    The power leaves an effective sample size of twice the number of starts, as in `find_modes`.
    """
    heights = np.where(np.isnan(log_likelihoods), -np.inf, log_likelihoods)
    largest = heights.max(axis=1, keepdims=True)
    heights = heights - np.where(np.isfinite(largest), largest, 0.0)
    low, high = np.full((len(seeds), 1), -40.0), np.zeros((len(seeds), 1))  # logs of the power
    for _ in range(30):
        middle = 0.5 * (low + high)
        share = np.exp(np.exp(middle) * heights)
        total = share.sum(axis=1, keepdims=True)
        is_many = total**2 > 2 * NUM_STARTS * np.sum(share**2, axis=1, keepdims=True)
        low, high = np.where(is_many, middle, low), np.where(is_many, high, middle)
    noise = np.stack([np.random.default_rng([seed, 1]).gumbel(size=heights.shape[1]) for seed in seeds])
    order = np.argsort(-(np.exp(high) * heights + noise), axis=1)[:, :NUM_STARTS]
    index = np.repeat(np.arange(len(seeds)), NUM_STARTS)
    is_possible = np.isfinite(np.take_along_axis(heights, order, 1)).ravel()
    return prior[index, order.ravel()][is_possible], index[is_possible]


def _weighed(model, proposal, rows, mask, seeds) -> tuple[ndarray, ndarray, ndarray]:
    """Draws of each data set with their log weights, and the height of its mode in float32."""
    each = zip(*proposal, seeds, strict=True)
    drawn = [
        Students(centre, root).draw(np.random.default_rng(seed), NUM_DRAWS) for centre, root, seed in each
    ]
    positions = np.stack(drawn).astype(np.float32)
    # The centre comes along, to compare precisions.
    extended = np.concatenate([np.asarray(proposal.centre, np.float32)[:, None], positions], axis=1)
    heights = _sums(model, extended, rows, mask) + _log_priors(model, extended)
    log_weights = heights[:, 1:] - proposal.log_density(positions)
    return positions, log_weights, heights[:, 0]


def _sums(model, positions, rows, mask) -> Float[ndarray, "datasets draws"]:
    check()
    return np.asarray(_sum_likelihoods(model, positions, rows, mask), np.float64)


@compiled(static_argnames="model")
def _sum_likelihoods(model, positions, rows, mask):
    def one_dataset(each):
        positions, batch, mask = each

        def one(position):
            return jnp.sum(model.log_likelihood(position, batch), where=mask)

        return jax.vmap(one)(positions)

    # One data set after the other: its draws fit the processor's cache, those of all do not
    # (0.2 instead of 0.7 ms a data set for 200 rows of a linear regression).
    return jax.lax.map(one_dataset, (positions, rows, mask))


def _log_priors(model: BoundModel, positions: ndarray) -> Float[ndarray, "datasets draws"]:
    flat = positions.reshape(-1, positions.shape[-1])
    return model.log_priors(jnp.asarray(flat, jnp.float32)).reshape(positions.shape[:-1])


def _checked(top, positions, log_weights, height, log_likelihoods, log_ratio) -> Weighted | str:
    """The weighted draws of a data set if they pass every check, or a sentence."""
    if not abs(height - top.height) < ROUNDING:
        return "float32 is too coarse"
    if not (log_weights < np.inf).all():
        return "a log-likelihood is not a number at a draw"
    ess = weights.ess(log_weights)
    if not ess >= REGULAR * NUM_DRAWS:
        return "the weights are uneven"
    shape = weights.pareto_shape(log_weights) if ess < NEARLY_EVEN * NUM_DRAWS else math.nan
    if shape > weights.MAX_PARETO_SHAPE:
        return "the largest weights have a heavy tail"
    raw = weights.log_mean(log_weights)
    if not missed_share(log_weights, log_likelihoods, log_ratio) < MISSED:
        return "prior draws lie where the proposal does not reach"
    diagnostics = {"ess": ess} if math.isnan(shape) else {"ess": ess, "pareto_shape": shape}
    estimate = Estimate(raw, weights.relative_variance(log_weights))
    return Weighted(estimate, positions, log_weights, diagnostics)
