"""SGLD: stationary law of its recursion on a Gaussian, a skewed target, invalid fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.kernels import SGLD
from tests.kernels import targets


def test_noise_of_the_gradient_adds_to_that_of_the_step():
    # Gradient noise of variance 4/η moves θ by as much as N(0, η) does, independently.
    rate, start = 0.1, jnp.zeros((targets.NUM_PARTICLES, 1))

    def gradient(key, positions):
        return 2 * jax.random.normal(key, positions.shape) / jnp.sqrt(rate)

    moved = targets.moved_along(SGLD(rate, num_steps=1), jax.random.key(0), start, gradient, targets.scale(1))
    assert np.var(moved) == pytest.approx(2 * rate, rel=targets.SAMPLING_ERROR)


def test_reaches_the_variance_of_its_recursion():
    # On N(0, 1/n) the recursion is linear, θ ← (1 - n η/2) θ + N(0, η). Of an offset of seven
    # standard deviations, 200 steps leave 7 × 0.95²⁰⁰, less than 0.001.
    rate, start = 0.1, jnp.ones((targets.NUM_PARTICLES, 1))
    kernel = SGLD(rate, num_steps=200)
    scale = targets.scale(targets.NUM_OBSERVATIONS)
    moved = targets.moved_along(kernel, jax.random.key(0), start, targets.gaussian_gradient, scale)
    spread = np.sqrt(1 / targets.NUM_OBSERVATIONS / (1 - rate / 4))
    assert np.mean(moved) == pytest.approx(0, abs=4 * spread / np.sqrt(targets.NUM_PARTICLES))
    assert np.var(moved) == pytest.approx(spread**2, rel=targets.SAMPLING_ERROR)


def test_a_noise_estimate_makes_up_for_noisy_gradients():
    # Noise of variance 4 β̂ / η in the gradient gives each step what β̂ takes from the noise.
    rate, share, start = 0.1, 0.5, jnp.zeros((targets.NUM_PARTICLES, 1))

    def gradient(key, positions):
        return jnp.sqrt(4 * share / rate) * jax.random.normal(key, positions.shape)

    kernel = SGLD(rate, num_steps=1, noise_estimate=share)
    moved = targets.moved_along(kernel, jax.random.key(0), start, gradient, targets.scale(1))
    assert np.var(moved) == pytest.approx(rate, rel=targets.SAMPLING_ERROR)


def test_a_measured_noise_estimate_makes_up_for_noisy_gradients():
    rate, share, start = 0.1, 0.5, jnp.zeros((targets.NUM_PARTICLES, 1))

    def gradient(key, positions):
        return jnp.sqrt(4 * share / rate) * jax.random.normal(key, positions.shape)

    kernel = SGLD(rate, num_steps=1, noise_estimate="measured")
    moved = targets.moved_along(kernel, jax.random.key(0), start, gradient, targets.scale(1))
    assert np.var(moved) == pytest.approx(rate, rel=targets.SAMPLING_ERROR)


def test_steps_that_decrease_take_away_the_error_of_discretisation():
    # On N(0, 1/n) the variance v follows v ← (1 - nη/2)² v + η, from 0.
    rate, decay, expected = 1.0, 0.6, 0.0
    for index in range(300):
        step = rate * (1 + index) ** -decay
        expected = (1 - step / 2) ** 2 * expected + step
    kernel = SGLD(rate, num_steps=300, decay=decay)
    start, scale = jnp.zeros((targets.NUM_PARTICLES, 1)), targets.scale(targets.NUM_OBSERVATIONS)
    moved = targets.moved_along(kernel, jax.random.key(0), start, targets.gaussian_gradient, scale)
    found = targets.NUM_OBSERVATIONS * np.var(moved)
    assert found == pytest.approx(expected, rel=targets.SAMPLING_ERROR)
    assert expected < 1.02 < 1 / (1 - rate / 4)  # constant steps end 33% too wide


def test_keeps_a_skewed_target():
    # To first order, Euler steps multiply the density by 1 + η (U'²/8 - U''/4), with
    # U = x + e^{-x}: the mean grows by η/8 and the variance by η/4.
    rate = 0.05
    targets.assert_keeps_a_skewed_target(SGLD(rate, num_steps=500), rate / 8, rate / 4)


def test_step_size_shrinks_with_the_rows():
    targets.assert_follows_the_number_of_rows(SGLD())


def test_different_keys_give_different_moves():
    targets.assert_keys_matter(SGLD())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rate": 0.0}, r"learning_rate must be positive; got 0\.0\."),
        ({"noise_estimate": 1.0}, r"noise_estimate must lie in \[0, 1\), or be 'measured'; got 1\.0\."),
        ({"noise_estimate": "guessed"}, r"noise_estimate must lie in .* or be 'measured'; got 'guessed'\."),
        ({"decay": 1.5}, r"decay must lie in \[0, 1\]; got 1\.5\."),
        ({"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
    ],
)
def test_impossible_configurations_are_refused(fields, message):
    with pytest.raises(ConfigurationError, match=message):
        SGLD(**fields)
