"""HMC: exact on a Gaussian, a skewed target and a funnel; invalid fields are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.kernels import BAOAB, HMC
from tests.kernels import targets


def as_gradient(log_density):
    return lambda key, positions: jax.vmap(jax.grad(log_density))(positions)


def gumbel(position):
    return jnp.sum(-position - jnp.exp(-position))


def funnel(position):
    """Neal's funnel: v ~ N(0, 1), x ~ N(0, e^{3v})."""
    v, x = position
    return -0.5 * v**2 - 0.5 * x**2 * jnp.exp(-3 * v) - 1.5 * v


@pytest.mark.slow
def test_reaches_a_gaussian_from_elsewhere():
    start = jnp.full((targets.NUM_PARTICLES, 1), 3.0)
    moved = targets.moved_under(
        HMC(num_trajectories=60), jax.random.key(0), start, lambda x: -0.5 * jnp.sum(x**2), targets.scale(1)
    )
    assert np.mean(moved) == pytest.approx(0, abs=4 / np.sqrt(targets.NUM_PARTICLES))
    assert np.var(moved) == pytest.approx(1, rel=targets.SAMPLING_ERROR)


@pytest.mark.reference
def test_keeps_a_skewed_target_without_bias():
    class OfDensity:
        def move(self, key, positions, density, scale):
            return HMC(num_trajectories=100).move(key, positions, targets.density(gumbel), scale)

    targets.assert_keeps_a_skewed_target(OfDensity(), 0.0, 0.0)


@pytest.mark.reference
def test_keeps_a_funnel_that_baoab_does_not():
    key_v, key_x = jax.random.split(jax.random.key(1))
    v = jax.random.normal(key_v, (targets.NUM_PARTICLES,))
    x = jnp.exp(1.5 * v) * jax.random.normal(key_x, v.shape)
    start = jnp.stack([v, x], axis=1)
    scale = targets.scale(1)._replace(factor=jnp.eye(2))
    moved = targets.moved_under(HMC(num_trajectories=20), jax.random.key(0), start, funnel, scale)
    error = 4 / np.sqrt(targets.NUM_PARTICLES)
    assert np.mean(moved[:, 0]) == pytest.approx(0, abs=error)
    assert np.var(moved[:, 0]) == pytest.approx(1, rel=targets.SAMPLING_ERROR)
    biased = targets.moved_along(BAOAB(num_steps=80), jax.random.key(0), start, as_gradient(funnel), scale)
    assert abs(np.mean(biased[:, 0])) > 4 * error


@pytest.mark.slow
def test_where_the_density_is_not_defined_no_particle_goes():
    start = jnp.full((1000, 1), 0.5)
    moved = targets.moved_under(
        HMC(), jax.random.key(0), start, lambda x: jnp.sum(jnp.log(x)), targets.scale(1)
    )
    assert np.all(moved > 0) and np.std(moved) > 0.1


@pytest.mark.slow
def test_different_keys_give_different_moves():
    start = jnp.zeros((1000, 1))
    first, second = (
        targets.moved_under(HMC(), jax.random.key(seed), start, gumbel, targets.scale(1)) for seed in (0, 1)
    )
    assert np.mean(np.asarray(first) == np.asarray(second)) < 0.01


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"num_trajectories": 0},
            r"num_trajectories must be an integer of at least 1; got 0\.",
        ),
        ({"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
        (
            {"smallest_step": 0.0},
            r"smallest_step must be positive and at most largest_step; got 0\.0 and 0\.8\.",
        ),
        (
            {"largest_step": 0.01},
            r"smallest_step must be positive and at most largest_step; got 0\.08 and 0\.01\.",
        ),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ConfigurationError, match=message):
        HMC(**fields)
