"""Posterior draws by Markov chains: several self-tuning NUTS chains in parallel.

Chains run on coordinates q that are whitened by the curvature at the largest mode, θ = θ̂ + L q
with L Lᵀ the inverse precision there, and start near the modes found. They run in float64: a log
density of 10⁶ rows is about -10⁶, where float32 has a resolution of 0.06 nats, and the Metropolis
correction would mistake rounding errors for the density.

Source: Hoffman and Gelman (2014), Journal of Machine Learning Research 15, 1593 (NUTS); Stan's
reference manual, section "HMC algorithm parameters" (warm-up in windows). BlackJAX implements
both.
"""

from collections.abc import Iterator
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.base import get_filter_adapt_info_fn
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.errors import EstimationError
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import host_generator
from evidentia.model.bound import BoundModel
from evidentia.posterior.modes import climb, few_of, find_modes, likely_draws
from evidentia.posterior.rows import Window
from evidentia.posterior.target import log_target, posterior
from evidentia.system.compilation import compiled

NUM_CHAINS = 4  # which must agree
MAX_RHAT = 1.05  # above which chains disagree
NUM_WEIGHTED = 512  # draws from the prior, some of which may be starting points

Chains = Float[np.ndarray, "chains draws parameters"]


class Frame(NamedTuple):
    """Coordinates q of a position θ = origin + factor q."""

    origin: Float[Array, " parameters"]
    factor: Float[Array, "parameters parameters"]


def chain_draws(model: BoundModel, rows: Window, count: int, key: Array) -> Iterator[Chains]:
    """Yield new draws from the posterior of `rows` in parts, at least `count` over all chains.

    Raises EstimationError if the log-likelihood is not finite at any draw of the prior.
    """
    key_start, key_warm, key_draw = jax.random.split(key, 3)
    frame, starts = _start(model, rows, key_start)
    num_draws = -(-count // NUM_CHAINS)
    per_part = -(-num_draws // 10)  # in ten parts
    with model.in_float64():
        frame = jax.tree.map(lambda part: jnp.asarray(np.asarray(part, np.float64)), frame)
        shifts = jnp.linalg.solve(frame.factor, (jnp.asarray(starts) - frame.origin).T).T
        states, tuned = _warm_up(model, key_warm, shifts, frame, rows)
    for part in range(-(-num_draws // per_part)):
        with model.in_float64():  # not while the caller runs
            keys = jax.random.fold_in(key_draw, part)
            states, positions = _sample(model, keys, states, tuned, frame, rows, per_part)
        yield np.asarray(positions)[:, : num_draws - part * per_part]


def _start(model: BoundModel, rows: Window, key: Array) -> tuple[Frame, np.ndarray]:
    """Starting points, and coordinates that whiten the posterior if a mode was found."""
    key_modes, key_draw = jax.random.split(key)
    modes = find_modes(model, rows, key_modes)
    if modes:
        factor = np.linalg.inv(np.linalg.cholesky(modes[0].precision)).T
        generator = host_generator(key_draw)
        starts = np.asarray(Mixture(modes).draw(generator, NUM_CHAINS), np.float64)
        return Frame(modes[0].centre, factor), starts  # pyright: ignore[reportArgumentType]
    starts = _starts_without_mode(model, rows, key_draw)
    if not len(starts):
        raise EstimationError(
            f"the log-likelihood of {rows.span} is -inf or NaN at every draw from the prior: no Markov "
            "chain can start. Widen the prior, or check the data against the model."
        )
    size = model.num_parameters
    return Frame(jnp.zeros(size), jnp.eye(size)), np.resize(starts, (NUM_CHAINS, size))


def _starts_without_mode(model: BoundModel, rows: Window, key: Array) -> np.ndarray:
    """Draws from the prior in proportion to their likelihood, or climbs from some where few count.

    A climb may end where the density has no bound and the posterior no mass: where the scale of
    effects that are centred at a parameter is zero.
    """
    positions = model.sample_prior(key, NUM_WEIGHTED)
    log_likelihoods, _ = rows.log_likelihoods(model, positions)
    log_likelihoods = np.where(np.isnan(log_likelihoods), -np.inf, log_likelihoods)
    if log_likelihoods.max() > -np.inf:
        log_weights = weights.normalise(log_likelihoods)
        if weights.ess(log_weights) >= 2.0 * NUM_CHAINS:  # so that chains start apart from each other
            chosen = host_generator(key).choice(NUM_WEIGHTED, NUM_CHAINS, p=np.exp(log_weights))
            return np.asarray(positions, np.float64)[chosen]
    few = few_of(model, rows)
    draws = likely_draws(model, few, key)[:NUM_CHAINS]
    return np.array([climb(model, few, start) for start in draws])


def _density(model: BoundModel, frame: Frame, rows: Window):
    log_posterior = log_target(model, posterior(rows))

    def density(shift):
        value = log_posterior(frame.origin + frame.factor @ shift)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    return density


@compiled(static_argnames="model")
def _warm_up(model, key, shifts, frame, rows):
    """Tune the chains in 500 steps; return the states, step sizes and inverse mass matrices."""
    adaptation = blackjax.window_adaptation(
        blackjax.nuts, _density(model, frame, rows), adaptation_info_fn=get_filter_adapt_info_fn()
    )

    def one(key, shift):
        result, _ = adaptation.run(key, shift, 500)  # pyright: ignore[reportCallIssue]
        return result.state, (result.parameters["step_size"], result.parameters["inverse_mass_matrix"])

    return jax.vmap(one)(jax.random.split(key, len(shifts)), shifts)


@compiled(static_argnames=("model", "num_draws"))
def _sample(model, key, states, tuned, frame, rows, num_draws):
    density, kernel = _density(model, frame, rows), blackjax.nuts.build_kernel()

    def one(key, state, tuned):
        def step(state, key):
            state, _ = kernel(key, state, density, *tuned)
            return state, frame.origin + frame.factor @ state.position

        return jax.lax.scan(step, state, jax.random.split(key, num_draws))

    return jax.vmap(one)(jax.random.split(key, NUM_CHAINS), states, tuned)
