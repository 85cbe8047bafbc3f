"""Populations: what copies of particles mean for the variance, and whether halves are alike."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.population.importance import WeightedDraws
from evidentia.evidence.population.particles import (
    Population,
    host_generator,
    in_mixed_halves,
    log_evidence_variance,
    reweighted,
    with_families,
)
from evidentia.weights import relative_variance

COUNT = 400


def test_copies_of_one_particle_do_not_count_as_independent():
    """A hundred particles, four times each, are worth a hundred; copying alone costs nothing."""
    positions = np.random.default_rng(0).standard_normal(COUNT // 4)
    chosen = np.repeat(np.arange(COUNT // 4), 4)
    alone = Population(jax.random.key(0), jnp.asarray(positions[chosen, None]), np.zeros(COUNT), 0.0, 0.01)
    found = with_families(alone, chosen)
    assert log_evidence_variance(found) == pytest.approx(0.01)
    gained = log_evidence_variance(reweighted(found, positions[chosen])) - 0.01
    assert gained == pytest.approx(relative_variance(positions), rel=0.01)
    assert log_evidence_variance(reweighted(alone, positions[chosen])) - 0.01 < 0.3 * gained


@pytest.mark.parametrize("factor", [1, 8])
def test_each_half_of_redrawn_particles_is_of_all_modes(factor):
    """Draws are ordered by mode, here two of equal mass."""
    positions = np.repeat([[-1.0], [1.0]], factor * COUNT // 2, axis=0)
    draws = WeightedDraws(jnp.asarray(positions), np.zeros(factor * COUNT), 0.0)
    found = draws.population(jax.random.key(0), COUNT)
    first, second = np.split(np.asarray(found.positions), 2)
    assert abs(first.mean()) < 0.02 and abs(second.mean()) < 0.02
    assert np.array_equal(np.sort(in_mixed_halves(7)), np.arange(7))


@pytest.mark.slow
def test_no_two_generators_have_the_same_key(monkeypatch):
    """Jumps, searches for modes and redraws each need numbers of their own."""
    keys = []

    def noted(key):
        keys.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
        return host_generator(key)

    for room in ("moves", "importance"):
        monkeypatch.setattr(f"evidentia.evidence.population.{room}.host_generator", noted)
    model = ev.Model(
        {"m": dist.Normal(0.1, 1.0)},
        lambda params, y: dist.Normal(jnp.abs(params["m"]) - 1, 1.0).log_prob(y),
    )
    ev.estimate(model, np.zeros(300, np.float32), method=ev.SGAIS(num_particles=64), seed=0)
    assert len(keys) > 3 and len(set(keys)) == len(keys)
