"""Moves of the particles: components are in order for whichever kernel moves them."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import evidentia as ev
from evidentia.evidence.population.moves import CORRELATED, PathSettings, StepInfo, move_particles
from evidentia.evidence.population.particles import from_prior
from evidentia.kernels import HMC, SGHMC
from evidentia.posterior.rows import Window
from evidentia.posterior.target import posterior

MODEL = ev.models.gaussian_mixture(num_components=2, num_features=1)


@pytest.mark.slow
@pytest.mark.parametrize(("exact_kernel", "is_ordered"), [(HMC(num_steps=1), True), (None, False)])
def test_components_are_put_in_order_if_a_kernel_needs_it(monkeypatch, exact_kernel, is_ordered):
    """SGHMC needs no order; HMC, which replaces it where the gradient is exact, needs one."""
    orders = []
    moves = sys.modules["evidentia.evidence.population.moves"]
    real = moves.move
    monkeypatch.setattr(moves, "move", lambda *args: orders.append(args[6]) or real(*args))
    arrays = {"y": jnp.asarray([[-1.0], [1.0], [2.0]])}
    bound = MODEL.bind(arrays)
    population = from_prior(bound, jax.random.key(0), 16)
    settings = PathSettings(0.5, SGHMC(num_steps=1), exact_kernel=exact_kernel)
    target = posterior(Window(arrays, 0, 3))
    move_particles(settings, bound, population, np.zeros(16), target, StepInfo(1.0))
    assert {order is not None for order in orders} == {is_ordered}


@pytest.mark.slow
def test_chains_that_no_jumps_decorrelate_are_not_begun_again(monkeypatch):
    """Few particles in many parameters have no fit to jump from; all states are kept once."""
    moves = sys.modules["evidentia.evidence.population.moves"]
    monkeypatch.setattr(moves, "fitted_jumps", lambda *_: None)
    arrays = {"y": jnp.asarray([[-1.0], [1.0], [2.0]])}
    bound = MODEL.bind(arrays)
    population = from_prior(bound, jax.random.key(0), 16)
    short = HMC(smallest_step=0.01, largest_step=0.01)  # so that moves are correlated
    settings = PathSettings(0.5, short, exact_kernel=short, resampling="systematic", chain_length=4)
    population, info = move_particles(
        settings, bound, population, np.zeros(16), posterior(Window(arrays, 0, 3)), StepInfo(1.0)
    )
    assert (len(population.positions), info.num_moves) == (16, 1) and info.correlation > CORRELATED


@pytest.mark.slow
def test_particles_are_not_moved_with_their_own_covariance():
    """Four particles per parameter. The mean was 1.1 too high when they were; 0.7 is 3 errors."""
    count, size, seeds = 60, 30, 6
    y = np.random.default_rng(0).normal(1.0, 1.0, (count, size)).astype(np.float32)
    model = ev.Model(
        {"mean": dist.Normal(jnp.zeros(size), 1.0).to_event(1)},
        lambda params, batch: dist.Normal(params["mean"], 1.0).log_prob(batch["y"]).sum(1),
    )
    exact = sum(
        stats.multivariate_normal.logpdf(column, np.zeros(count), np.eye(count) + 1)
        for column in y.T.astype(float)
    )
    method = ev.SMC(num_particles=4 * size + 8)
    found = [ev.estimate(model, {"y": y}, method=method, seed=seed).log_evidence for seed in range(seeds)]
    assert abs(np.mean(found) - exact) < 0.7
