"""SGNHT: Gaussian and skewed targets within its discretisation error; gradient noise absorbed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.kernels import SGHMC, SGNHT
from tests.kernels import targets

RATE, DIFFUSION = 0.02, 0.05
SCALE = targets.scale(targets.NUM_OBSERVATIONS)
SHAPE = (targets.NUM_PARTICLES // 4, 4)  # NUM_PARTICLES numbers in all, four per thermostat


def moved(kernel, start, gradient):
    """Positions after a move on N(0, 1/n); they and `start` are in standard deviations of it."""
    unit = np.sqrt(targets.NUM_OBSERVATIONS)
    return unit * targets.moved_along(kernel, jax.random.key(0), start / unit, gradient, SCALE)


def stationary_variance(noise):
    """1 - ξ̄/2, with ξ̄ (2 - ξ̄) = 2A + `noise`, the noise variance of a kick in units of η.

    The neglected variation of ξ around ξ̄, √(learning_rate / d), adds less than `learning_rate`.
    """
    friction = 1 - np.sqrt(1 - 2 * DIFFUSION - noise)
    return 1 - friction / 2


def test_first_step_is_the_equation():
    # θ moves by (1 - A) v, the gradient noise (here of variance 1/η) and N(0, 2Aη), independently.
    # In later steps the thermostat would hide an error in these.
    kernel = SGNHT(RATE, diffusion=0.4, num_steps=1)
    start = jnp.zeros((targets.NUM_PARTICLES, 1))

    def gradient(key, positions):
        return jax.random.normal(key, positions.shape) / jnp.sqrt(RATE)

    positions = targets.moved_along(kernel, jax.random.key(0), start, gradient, targets.scale(1))
    assert np.var(positions) / RATE == pytest.approx(0.6**2 + 1 + 2 * 0.4, rel=targets.SAMPLING_ERROR)


@pytest.mark.slow
def test_reaches_a_gaussian_from_elsewhere():
    kernel = SGNHT(RATE, DIFFUSION, num_steps=400)
    positions = moved(kernel, jnp.full(SHAPE, 2.0), targets.gaussian_gradient)
    assert np.mean(positions) == pytest.approx(0, abs=4 / np.sqrt(targets.NUM_PARTICLES))
    assert np.var(positions) == pytest.approx(stationary_variance(0), abs=targets.SAMPLING_ERROR + RATE)


def test_keeps_a_skewed_target():
    # E x U'(x) is about 1 - ξ̄/2 instead of 1, as at a temperature T of 1 - A/2. At T, x is -log
    # of a gamma variable of shape and rate 1/T: its mean changes by π²/6 - 1 times T - 1, its
    # variance by -ψ''(1) = 2.4 times T - 1. With 200,000 particles the biases are smaller.
    kernel = SGNHT(0.01, diffusion=0.05, num_steps=400)
    targets.assert_keeps_a_skewed_target(kernel, 0.025 * (np.pi**2 / 6 - 1), 0.025 * 2.4)


@pytest.mark.slow
def test_absorbs_noise_that_sghmc_does_not():
    # In a step, gradient noise adds 0.1 η to the variance of the velocities, as much as the 2 A η
    # of the diffusion, which gives SGHMC twice the variance. Every other particle has exact
    # gradients: each has its own thermostat.
    noise = 2 * DIFFUSION
    noisy = jnp.arange(SHAPE[0]) % 2 == 1

    def gradient(key, positions):
        spread = jnp.sqrt(targets.NUM_OBSERVATIONS * noise / RATE) * noisy[:, None]
        return targets.gaussian_gradient(key, positions) + spread * jax.random.normal(key, SHAPE)

    def variances(kernel):
        positions = moved(kernel, jax.random.normal(jax.random.key(1), SHAPE), gradient)
        return np.var(positions[~noisy]), np.var(positions[noisy])

    error = np.sqrt(2) * targets.SAMPLING_ERROR + RATE  # of half the particles
    expected = stationary_variance(0), stationary_variance(noise)  # 0.97 and 0.95
    assert variances(SGNHT(RATE, DIFFUSION, num_steps=300)) == pytest.approx(expected, abs=error)
    assert variances(SGHMC(RATE, DIFFUSION, num_steps=300)) == pytest.approx((1, 2), rel=error)


@pytest.mark.slow
def test_step_size_and_thermostat_follow_the_rows():
    targets.assert_follows_the_number_of_rows(SGNHT())


def test_different_keys_give_different_moves():
    targets.assert_keys_matter(SGNHT())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rate": -0.1}, r"learning_rate must be positive; got -0\.1\."),
        ({"diffusion": 0.0}, r"diffusion must lie in \(0, 0\.5\); got 0\.0\."),
        ({"diffusion": 0.5}, r"diffusion must lie in \(0, 0\.5\); got 0\.5\."),
        ({"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
    ],
)
def test_impossible_configurations_are_refused(fields, message):
    with pytest.raises(ConfigurationError, match=message):
        SGNHT(**fields)
