"""Samplers of other packages at their defaults on the eight problems, each run in a process.

    pip install . "dynesty>=3" nautilus-sampler pocomc jaxns tfp-nightly "jax<0.10"
    python benchmarks/today_peers.py --minutes 60        # adds to results/today-peers.jsonl
    python benchmarks/today_peers.py --page              # docs/peers.md of it

A run has one thread and --cap seconds of processor time, counted from after the imports, with all
compilation. A pair whose run exceeded the cap is not run again.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from today_problems import PROBLEMS, Problem

FILE = Path(__file__).parent / "results" / "today-peers.jsonl"
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "JAX_PLATFORMS": "cpu",
}


class Found(NamedTuple):
    """What a sampler reports; None where it does not."""

    log_evidence: float
    standard_error: float | None
    evaluations: int | None
    word: str = ""  # of evidentia's verdict


class Counted:
    """The log-likelihood of NumPy arrays, jitted, at one position or many."""

    def __init__(self, problem: Problem):
        import jax

        self.count = 0
        self._one = jax.jit(problem.log_likelihood)
        self._many = jax.jit(jax.vmap(problem.log_likelihood))

    def one(self, x: np.ndarray) -> float:
        self.count += 1
        return float(self._one(np.asarray(x, np.float32)))

    def many(self, x: np.ndarray) -> np.ndarray:
        """Padded to a power of two, as each shape is compiled."""
        self.count += len(x)
        more = (1 << (len(x) - 1).bit_length()) - len(x)
        padded = np.pad(np.asarray(x, np.float32), ((0, more), (0, 0)), mode="edge")
        return np.asarray(self._many(padded), float)[: len(x)]


def evidentia(problem: Problem, seed: int) -> Found:
    import numpyro.distributions as dist

    import evidentia as ev

    kind = dist.Normal if problem.is_normal else dist.Uniform
    prior = {"x": kind(problem.low, problem.high).expand([problem.size]).to_event(1)}
    model = ev.Model(prior, lambda params, _: problem.log_likelihood(params["x"]), pointwise=False)
    found = ev.estimate(model, {"no_data": np.zeros(1)}, seed=seed)
    return Found(found.log_evidence, found.standard_error, None, found.verdict.word)


def evidentia_without_gradients(problem: Problem, seed: int) -> Found:
    import evidentia as ev

    likelihood = Counted(problem)
    model = ev.Model.from_callable(
        likelihood.many, problem.from_cube, num_parameters=problem.size, vectorized=True
    )
    found = ev.estimate(model, seed=seed)
    return Found(found.log_evidence, found.standard_error, likelihood.count, found.verdict.word)


def dynesty(problem: Problem, seed: int) -> Found:
    import dynesty as package

    likelihood = Counted(problem)
    sampler = package.NestedSampler(
        likelihood.one, problem.from_cube, problem.size, rstate=np.random.default_rng(seed)
    )
    sampler.run_nested(print_progress=False)
    found = sampler.results
    return Found(float(found.logz[-1]), float(found.logzerr[-1]), likelihood.count)


def nautilus(problem: Problem, seed: int) -> Found:
    """It states no error; one over the square root of its effective sample size is used."""
    import nautilus as package

    likelihood = Counted(problem)
    sampler = package.Sampler(
        problem.from_cube,
        likelihood.many,
        n_dim=problem.size,
        vectorized=True,
        pass_dict=False,
        seed=seed,
    )
    sampler.run()
    return Found(float(sampler.log_z), float(sampler.n_eff**-0.5), likelihood.count)


def pocomc(problem: Problem, seed: int) -> Found:
    import pocomc as package
    from scipy import stats

    likelihood, width = Counted(problem), problem.high - problem.low
    one = stats.norm(problem.low, problem.high) if problem.is_normal else stats.uniform(problem.low, width)
    prior = package.Prior([one] * problem.size)
    sampler = package.Sampler(prior, likelihood.many, vectorize=True, random_state=seed)
    sampler.run(progress=False)
    log_evidence, error = sampler.evidence()
    return Found(float(log_evidence), float(error), likelihood.count)


def jaxns(problem: Problem, seed: int) -> Found:
    import jax
    from jaxns.core import NestedSampler
    from jaxns.model import Model
    from jaxns.priors import Prior
    from tensorflow_probability.substrates import jax as tfp

    def prior_model():
        kind, shape = (
            tfp.distributions.Normal if problem.is_normal else tfp.distributions.Uniform,
            (problem.size,),
        )
        low, high = (jax.numpy.full(shape, value, jax.numpy.float32) for value in (problem.low, problem.high))
        return problem.log_likelihood(Prior(kind(low, high), name="x").realise())

    state = NestedSampler(model=Model(prior_model=prior_model)).run(key=jax.random.PRNGKey(seed))
    found = state.to_result()
    return Found(
        float(found.log_Z_mean), float(found.log_Z_uncert), int(found.total_num_likelihood_evaluations)
    )


def blackjax_nss(problem: Problem, seed: int) -> Found:
    """500 live points, of which 50 are replaced at a time by 2 d slices (at least 5).

    It ends when the live points hold e⁻³ of the evidence; the error is the spread of 100 simulated
    prior volumes. The package leaves all but the number of slices to its user.
    """
    import blackjax as package
    import jax
    from blackjax.ns.utils import finalise, log_weights

    algorithm = package.nss(
        logprior_fn=_log_prior(problem),
        loglikelihood_fn=problem.log_likelihood,
        num_inner_steps=max(5, 2 * problem.size),
        num_delete=50,
    )
    step = jax.jit(algorithm.step)
    key, of_prior, of_volumes = jax.random.split(jax.random.key(seed), 3)
    state, dead = jax.jit(algorithm.init)(_prior_draws(problem, of_prior, 500)), []
    while not state.integrator.logZ_live - state.integrator.logZ < -3:
        key, of_step = jax.random.split(key)
        state, info = step(of_step, state)
        dead.append(info)
    weights = log_weights(of_volumes, finalise(state, dead, update_info=False), 100)
    sums = np.asarray(jax.nn.logsumexp(weights, axis=0), float)
    return Found(float(sums.mean()), float(sums.std(ddof=1)), None)


def persistent_sampling(problem: Problem, seed: int) -> Found:
    """By BlackJAX: 1,024 particles, a target ESS of 3 and 10 moves, its defaults.

    The move is a random walk with the covariance of the particles times 2.38²/d, which BlackJAX
    leaves to its user. It reports no error.
    """
    import jax
    from blackjax import additive_step_random_walk
    from blackjax.smc import adaptive_persistent_sampling as package
    from blackjax.smc.resampling import systematic

    most, count, num_moves = 200, 1024, 10
    walk = additive_step_random_walk.build_kernel()

    def move(key, state, log_density, root):
        return walk(key, state, log_density, lambda k, x: root @ jax.random.normal(k, x.shape))

    kernel = package.build_kernel(
        _log_prior(problem), problem.log_likelihood, move, additive_step_random_walk.init, systematic, 3.0
    )

    @jax.jit
    def step(key, state):
        covariance = jax.numpy.atleast_2d(jax.numpy.cov(state.particles.T))
        root = 2.38 / problem.size**0.5 * jax.numpy.linalg.cholesky(covariance)
        return kernel(key, state, num_moves, {"root": jax.numpy.broadcast_to(root, (1, *root.shape))})[0]

    key, of_prior = jax.random.split(jax.random.key(seed))
    state = package.init(_prior_draws(problem, of_prior, count), problem.log_likelihood, most)
    while state.tempering_param < 1.0 and state.iteration < most:
        key, of_step = jax.random.split(key)
        state = step(of_step, state)
    evaluations = count * (1 + num_moves * int(state.iteration))
    return Found(float(state.log_Z), None, evaluations)


def _log_prior(problem: Problem) -> Callable[[Any], Any]:
    from jax.scipy import stats

    if problem.is_normal:
        return lambda x: stats.norm.logpdf(x, problem.low, problem.high).sum()
    return lambda x: stats.uniform.logpdf(x, problem.low, problem.high - problem.low).sum()


def _prior_draws(problem: Problem, key: Any, count: int) -> Any:
    import jax

    if problem.is_normal:
        return problem.low + problem.high * jax.random.normal(key, (count, problem.size))
    return jax.random.uniform(key, (count, problem.size), minval=problem.low, maxval=problem.high)


SAMPLERS: dict[str, tuple[Callable[[Problem, int], Found], tuple[str, ...]]] = {  # and what they import
    "evidentia": (evidentia, ("numpyro", "evidentia")),
    "evidentia, no gradient": (evidentia_without_gradients, ("numpyro", "evidentia")),
    "blackjax.nss": (blackjax_nss, ("blackjax",)),
    "persistent sampling": (persistent_sampling, ("blackjax",)),
    "jaxns": (jaxns, ("jaxns.core", "tensorflow_probability.substrates.jax")),
    "nautilus": (nautilus, ("nautilus",)),
    "dynesty": (dynesty, ("dynesty",)),
    "pocoMC": (pocomc, ("pocomc",)),
}


def run_here(sampler: str, problem: str, seed: int, cap: float) -> None:
    """One run; its record is the last line of the output."""
    run, imports = SAMPLERS[sampler]
    for name in ("jax", *imports):
        import_module(name)
    posed = PROBLEMS[problem]()
    started = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (round(started + cap), resource.RLIM_INFINITY))
    found = run(posed, seed)
    print(json.dumps(found._asdict() | {"seconds": time.process_time() - started}))


def run_apart(sampler: str, problem: str, seed: int, cap: float) -> dict:
    """The record of a run in a process of its own, or why there is no result."""
    command = [sys.executable, __file__, "--run", sampler, problem, str(seed), str(cap)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    if done.returncode == -signal.SIGXCPU:
        return {"failure": "not finished"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["it died"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cap", type=float, default=120.0, help="seconds of processor time of a run")
    parser.add_argument("--minutes", type=float, default=60.0, help="no run starts later")
    parser.add_argument("--samplers", help="names, with semicolons; all by default")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--page", action="store_true", help="write the page of the results and end")
    options = parser.parse_args()
    if options.run:
        run_here(*options.run[:2], int(options.run[2]), float(options.run[3]))
        return
    if options.page:
        import today_page

        today_page.write(FILE)
        return
    done = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    known = {(one["sampler"], one["problem"], one["seed"]) for one in done}
    hopeless = {(one["sampler"], one["problem"]) for one in done if "failure" in one}
    ends = time.monotonic() + 60 * options.minutes
    samplers = options.samplers.split(";") if options.samplers else list(SAMPLERS)
    with FILE.open("a") as lines:
        for seed in range(options.seeds):
            for problem in PROBLEMS:
                for sampler in samplers:
                    pair = sampler, problem
                    if (*pair, seed) in known or pair in hopeless or time.monotonic() > ends:
                        continue
                    record = run_apart(*pair, seed, options.cap)
                    hopeless |= {pair} if "failure" in record else set()
                    call = {"sampler": sampler, "problem": problem, "seed": seed, "cap": options.cap}
                    lines.write(json.dumps(call | record) + "\n")
                    lines.flush()


if __name__ == "__main__":
    main()
