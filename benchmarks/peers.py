"""What the estimators are measured against: nested samplers with a jitted likelihood, and a bare
pass over the data.

A peer prepares itself for a problem, and then runs for a seed: `run = nautilus(problem)`,
`run(seed)`. All have the settings that their documentation recommends, apart from what is said
here. The tempered samplers are in `tempered_peers.py`.
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
    """One run of a peer; None where the peer does not tell."""

    log_evidence: float
    standard_error: float | None
    evaluations: int | None  # of the whole likelihood, or of its gradient


Runner = Callable[[int], PeerRun]  # of a seed


class Likelihood:
    """The jitted log-likelihood of all rows, at one position or at many, that counts its
    evaluations.
    """

    def __init__(self, model: BoundModel, arrays: Any):
        self.num_parameters = model.num_parameters
        self.evaluations = 0
        self._one = jax.jit(lambda position: model.log_likelihood(position, arrays).sum())
        self._many = jax.jit(jax.vmap(self._one))

    def one(self, position: np.ndarray) -> float:
        """Of a vector."""
        self.evaluations += 1
        return float(self._one(np.asarray(position, np.float32)))

    def many(self, positions: np.ndarray) -> np.ndarray:
        """Of the rows of a matrix; padded to a power of two, so that few shapes are compiled."""
        count = len(positions)
        self.evaluations += count
        padding = (1 << (count - 1).bit_length()) - count
        padded = np.pad(np.asarray(positions, np.float32), ((0, padding), (0, 0)), mode="edge")
        return np.asarray(self._many(padded), float)[:count]


def bare_pass(model: BoundModel, rows: Window, num_particles: int) -> float:
    """Seconds to evaluate every row's log-likelihood once at `num_particles` particles, compiled
    before.
    """
    positions = 0.1 * model.sample_prior(jax.random.key(0), num_particles)
    rows.part(0, 1).log_likelihoods(model, positions)
    started = time.perf_counter()
    rows.log_likelihoods(model, positions)
    return time.perf_counter() - started


def run_dynesty(
    likelihood: Likelihood,
    quantiles: Callable[[np.ndarray], np.ndarray],
    *,
    num_live: int,
    seed: int,
    limit_seconds: float = math.inf,
) -> PeerRun:
    """Static nested sampling; NaN for both numbers if it has not finished within the limit."""
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

    The draws of the exploration are discarded, as nautilus asks for an unbiased evidence. It
    reports no error; one over the root of its effective sample size stands for it.
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
    """Reactive nested sampling, 400 live points; above 10 parameters slices of two steps a
    parameter, as its manual says.
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


def _likelihood(problem: SmallProblem) -> Likelihood:
    return Likelihood(problem.model.bind(problem.data), jax.tree.map(jnp.asarray, problem.data))
