"""The estimators' peers: nested samplers with a jitted likelihood, and a bare pass over the data.

A peer prepares a problem and returns a function of the seed: `run = nautilus(problem)`,
`run(seed)`. All use the settings that their documentation recommends, except where noted. The
tempered samplers are in `tempered_peers.py`.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from small_problems import SmallProblem

from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Window


class PeerRun(NamedTuple):
    """One run of a peer; None where the peer does not report a value."""

    log_evidence: float
    standard_error: float | None
    evaluations: int | None  # of the whole likelihood, or of its gradient


Runner = Callable[[int], PeerRun]  # takes a seed


class Likelihood:
    """Jitted log-likelihood of all rows, at one position or many; counts its evaluations."""

    def __init__(self, model: BoundModel, arrays: Any):
        self.num_parameters = model.num_parameters
        self.evaluations = 0
        self._one = jax.jit(lambda position: model.log_likelihood(position, arrays).sum())
        self._many = jax.jit(jax.vmap(self._one))

    def one(self, position: np.ndarray) -> float:
        """The log-likelihood at one position."""
        self.evaluations += 1
        return float(self._one(np.asarray(position, np.float32)))

    def many(self, positions: np.ndarray) -> np.ndarray:
        """The log-likelihood at many positions, padded to a power of two to compile rarely."""
        count = len(positions)
        self.evaluations += count
        padding = (1 << (count - 1).bit_length()) - count
        padded = np.pad(np.asarray(positions, np.float32), ((0, padding), (0, 0)), mode="edge")
        return np.asarray(self._many(padded), float)[:count]


def bare_pass(
    model: BoundModel,
    rows: Window,
    num_particles: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds to evaluate every row once at `num_particles` particles, already compiled."""
    positions = 0.1 * model.sample_prior(jax.random.key(0), num_particles)
    rows.part(0, 1).log_likelihoods(model, positions)
    started = clock()
    rows.log_likelihoods(model, positions)
    return clock() - started


def run_dynesty(
    likelihood: Likelihood,
    quantiles: Callable[[np.ndarray], np.ndarray],
    *,
    num_live: int,
    seed: int,
    limit_seconds: float = math.inf,
) -> PeerRun:
    """Static nested sampling; NaN for both numbers if it exceeds the time limit."""
    import dynesty as package

    started, before = time.perf_counter(), likelihood.evaluations
    sampler = package.NestedSampler(
        likelihood.one,
        quantiles,
        likelihood.num_parameters,
        nlive=num_live,
        rstate=np.random.default_rng(seed),
    )
    for _ in sampler.sample(dlogz=0.01 + 1e-3 * (num_live - 1)):
        if time.perf_counter() - started > limit_seconds:
            return PeerRun(math.nan, math.nan, likelihood.evaluations - before)
    for _ in sampler.add_live_points():
        pass
    results = sampler.results
    return PeerRun(float(results.logz[-1]), float(results.logzerr[-1]), likelihood.evaluations - before)


def dynesty(problem: SmallProblem) -> Runner:
    """Static nested sampling with dynesty's defaults: 500 live points."""
    likelihood = _likelihood(problem)
    return lambda seed: run_dynesty(likelihood, problem.quantiles, num_live=500, seed=seed)


def nautilus(problem: SmallProblem) -> Runner:
    """Importance nested sampling with neural bounds: 2,000 live points, 10,000 effective draws.

    The exploration draws are discarded, as nautilus recommends for an unbiased evidence. It
    reports no error; one over the square root of its effective sample size is used.
    """
    import nautilus as package

    likelihood = _likelihood(problem)

    def run(seed: int) -> PeerRun:
        before = likelihood.evaluations
        sampler = package.Sampler(
            problem.quantiles,
            likelihood.many,
            n_dim=likelihood.num_parameters,
            vectorized=True,
            pass_dict=False,
            seed=seed,
        )
        sampler.run(discard_exploration=True)
        return PeerRun(float(sampler.log_z), float(sampler.n_eff**-0.5), likelihood.evaluations - before)

    return run


def ultranest(problem: SmallProblem) -> Runner:
    """Reactive nested sampling with 400 live points.

    Above 10 parameters it takes slices of two steps per parameter, as its manual recommends.
    """
    import ultranest as package
    from ultranest import stepsampler

    likelihood = _likelihood(problem)
    names = [f"parameter {index}" for index in range(likelihood.num_parameters)]

    def run(seed: int) -> PeerRun:
        before = likelihood.evaluations
        np.random.seed(seed)  # noqa: NPY002 (UltraNest draws from NumPy's global generator)
        sampler = package.ReactiveNestedSampler(names, likelihood.many, problem.quantiles, vectorized=True)
        sampler.logger.setLevel(logging.ERROR)
        if len(names) > 10:
            sampler.stepsampler = stepsampler.SliceSampler(
                nsteps=2 * len(names), generate_direction=stepsampler.generate_mixture_random_direction
            )
        result = sampler.run(show_status=False, viz_callback=None)
        return PeerRun(float(result["logz"]), float(result["logzerr"]), likelihood.evaluations - before)

    return run


def nss(problem: SmallProblem) -> Runner:
    """Nested slice sampling by BlackJAX: 500 live points, of which 50 are replaced at a time.

    A new point takes 2 d slices, at least 5, as its documentation recommends. It ends when the
    live points hold e⁻³ of the evidence, and the error is the spread over 100 simulated prior
    volumes. Not every version of BlackJAX has `nss`.
    """
    import blackjax as package
    from blackjax.ns.utils import finalise, log_weights

    bound, arrays = problem.model.bind(problem.data), jax.tree.map(jnp.asarray, problem.data)
    algorithm = package.nss(
        logprior_fn=bound.log_prior,
        loglikelihood_fn=lambda position: bound.log_likelihood(position, arrays).sum(),
        num_inner_steps=max(5, 2 * bound.num_parameters),
        num_delete=50,
    )
    init, step = jax.jit(algorithm.init), jax.jit(algorithm.step)

    def run(seed: int) -> PeerRun:
        key, prior_key, volumes_key = jax.random.split(jax.random.key(seed), 3)
        state, dead = init(bound.sample_prior(prior_key, 500)), []
        while not state.integrator.logZ_live - state.integrator.logZ < -3:
            key, step_key = jax.random.split(key)
            state, info = step(step_key, state)
            dead.append(info)
        weights = log_weights(volumes_key, finalise(state, dead, update_info=False), 100)
        sums = np.asarray(jax.nn.logsumexp(weights, axis=0), float)
        return PeerRun(float(sums.mean()), float(sums.std(ddof=1)), None)

    return run


def _likelihood(problem: SmallProblem) -> Likelihood:
    return Likelihood(problem.model.bind(problem.data), jax.tree.map(jnp.asarray, problem.data))
