"""Peers that temper the likelihood, by BlackJAX and PyMC (see `peers.py`)."""

import logging
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peers import PeerRun, Runner
from small_problems import SmallProblem

NUM_PARTICLES = 512
NUM_MOVES = 5  # HMC moves at each temperature
LEAPFROG_STEPS = 4
# In standard deviations. Four steps are a quarter of a Gaussian's period; half a period would only
# reflect it.
STEP_SIZE = 0.3
NUM_CHAINS = 4  # of PyMC


def blackjax(problem: SmallProblem) -> Runner:
    """`adaptive_tempered_smc` with 512 particles and HMC moves.

    HMC's inverse mass matrix is the particles' covariance. The target effective sample size is
    half of the particles. It reports no standard error.
    """
    import blackjax as package
    from blackjax.smc import extend_params
    from blackjax.smc.resampling import systematic
    from blackjax.smc.tuning.from_particles import particles_covariance_matrix

    bound, arrays = problem.model.bind(problem.data), jax.tree.map(jnp.asarray, problem.data)

    def settings(particles):
        covariance = jnp.atleast_2d(particles_covariance_matrix(particles))
        return extend_params({"step_size": STEP_SIZE, "inverse_mass_matrix": covariance})

    def algorithm(initial):
        return package.inner_kernel_tuning(
            smc_algorithm=package.adaptive_tempered_smc,
            logprior_fn=bound.log_prior,
            loglikelihood_fn=lambda position: bound.log_likelihood(position, arrays).sum(),
            mcmc_step_fn=partial(package.hmc.build_kernel(), num_integration_steps=LEAPFROG_STEPS),
            mcmc_init_fn=package.hmc.init,
            resampling_fn=systematic,
            mcmc_parameter_update_fn=lambda key, state, info: settings(state.particles),
            initial_parameter_value=initial,
            num_mcmc_steps=NUM_MOVES,
            target_ess=0.5,
        )

    step = jax.jit(lambda key, state: algorithm(None).step(key, state))

    def run(seed: int) -> PeerRun:
        key, prior_key = jax.random.split(jax.random.key(seed))
        particles = bound.sample_prior(prior_key, NUM_PARTICLES)
        state = algorithm(settings(particles)).init(particles)
        log_evidence, evaluations = 0.0, 0
        while state.sampler_state.tempering_param < 1:
            key, step_key = jax.random.split(key)
            state, info = step(step_key, state)
            log_evidence += float(info.log_likelihood_increment)
            evaluations += NUM_PARTICLES * (NUM_MOVES * LEAPFROG_STEPS + 1)
        return PeerRun(log_evidence, None, evaluations)

    return run


def pymc(problem: SmallProblem) -> Runner:
    """`sample_smc` with PyMC's own operations and settings, 2,000 draws and 4 chains.

    The error is the spread of the chains.
    """
    import pymc as package

    logging.getLogger("pymc").setLevel(logging.ERROR)
    model = _PYMC_MODELS[problem.name](package, problem.data)

    def run(seed: int) -> PeerRun:
        with warnings.catch_warnings(), model:
            warnings.simplefilter("ignore")
            result = package.sample_smc(
                chains=NUM_CHAINS, random_seed=seed, progressbar=False, compute_convergence_checks=False
            )
        # Only the last stage of a chain has a number; the shape depends on whether all chains took
        # equally many stages.
        stages = np.hstack(result.sample_stats["log_marginal_likelihood"].values.ravel().tolist())
        estimates = stages[np.isfinite(stages)].astype(float)
        assert len(estimates) == NUM_CHAINS, stages
        ratios = np.exp(
            estimates - estimates.max()
        )  # average the evidence, which is unbiased, not its logarithm
        log_evidence = float(estimates.max() + np.log(ratios.mean()))
        return PeerRun(log_evidence, float(ratios.std(ddof=1) / ratios.mean() / np.sqrt(len(ratios))), None)

    return run


def _linear(pm, data):
    with pm.Model() as model:
        weights, intercept = pm.Normal("weights", 0, 1, shape=5), pm.Normal("intercept", 0, 1)
        pm.Normal("y", pm.math.dot(data["x"], weights) + intercept, 1.0, observed=data["y"])
    return model


def _scale(pm, data):
    with pm.Model() as model:
        scale = pm.math.sqrt(pm.InverseGamma("variance", 3.0, 2.0))
        pm.Normal("y", pm.Normal("scaled_mean", 0, 2) * scale, scale, observed=data["y"])
    return model


def _mixture(pm, data):
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        scales = pm.math.sqrt(pm.InverseGamma("variances", 1.0, 1.0, shape=3))
        means = pm.Normal("means", 0.0, 2.0 * scales, shape=3)
        pm.NormalMixture("y", weights, means, sigma=scales, observed=data["y"][:, 0])
    return model


def _softmax(pm, data):
    with pm.Model() as model:
        weights, intercept = pm.Normal("weights", 0, 1, shape=(4, 3)), pm.Normal("intercept", 0, 1, shape=3)
        pm.Categorical("y", logit_p=pm.math.dot(data["x"], weights) + intercept, observed=data["y"])
    return model


_PYMC_MODELS: dict[str, Any] = {
    "linear": _linear,
    "scale": _scale,
    "mixture": _mixture,
    "softmax": _softmax,
}
