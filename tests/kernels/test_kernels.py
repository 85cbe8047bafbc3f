"""Kernels: each leaves a Gaussian target invariant, within its discretisation error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.kernels import BAOAB, HMC, SGHMC, ULA, Density, Scale, Unscaled, posterior_scale
from tests.kernels import targets

NUM_PARTICLES = 20_000
COVARIANCE = np.array([[1.0, 0.9 * 0.03], [0.9 * 0.03, 0.0009]])


def gaussian_gradient(key, positions):
    return -positions @ jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)


def target_draws(key):
    return jax.random.normal(key, (NUM_PARTICLES, 2)) @ np.linalg.cholesky(COVARIANCE).T.astype(np.float32)


def whitened_covariance(positions):
    white = np.linalg.solve(np.linalg.cholesky(COVARIANCE), np.asarray(positions, np.float64).T)
    return np.cov(white)


SAMPLING_ERROR = 4 * np.sqrt(2 / NUM_PARTICLES)  # four standard errors of a variance of one


@pytest.mark.slow
def test_baoab_keeps_a_gaussian_exactly_even_at_a_large_step():
    scale = Scale(jnp.asarray(np.linalg.cholesky(COVARIANCE), jnp.float32), 1)
    kernel = BAOAB(step_size=1.0, num_steps=10)
    moved = targets.moved_along(
        kernel, jax.random.key(0), target_draws(jax.random.key(1)), gaussian_gradient, scale
    )
    np.testing.assert_allclose(whitened_covariance(moved), np.eye(2), atol=SAMPLING_ERROR)


@pytest.mark.slow
def test_baoab_reaches_the_target_from_elsewhere():
    scale = Scale(jnp.asarray(np.linalg.cholesky(COVARIANCE), jnp.float32), 1)
    start = jnp.full((NUM_PARTICLES, 2), 0.02)
    moved = targets.moved_along(BAOAB(num_steps=40), jax.random.key(0), start, gaussian_gradient, scale)
    np.testing.assert_allclose(whitened_covariance(moved), np.eye(2), atol=SAMPLING_ERROR)
    np.testing.assert_allclose(
        np.mean(moved, 0) / np.sqrt(np.diag(COVARIANCE)), 0, atol=4 / np.sqrt(NUM_PARTICLES)
    )


def test_baoab_forgets_where_it_started():
    scale = Scale(jnp.asarray(np.linalg.cholesky(COVARIANCE), jnp.float32), 1)
    start = target_draws(jax.random.key(1))
    moved = targets.moved_along(BAOAB(), jax.random.key(0), start, gaussian_gradient, scale)
    assert abs(np.corrcoef(start[:, 0], moved[:, 0])[0, 1]) < 0.3


@pytest.mark.slow
def test_baoab_comes_back_from_a_steep_wall():
    def wall(key, positions):  # log density -x - e^{-x}, of standard deviation 1.3: at -12 the force is e^12
        return -1 + jnp.exp(-positions)

    bulk = -jnp.log(jax.random.exponential(jax.random.key(1), (900, 1)))
    start = jnp.concatenate([bulk, jnp.full((100, 1), -12.0)])
    moved = targets.moved_along(
        BAOAB(num_steps=100), jax.random.key(0), start, wall, Scale(jnp.full((1, 1), 1.3), 1)
    )
    assert np.all(np.isfinite(moved))
    assert np.quantile(moved[900:], 0.1) > -3


@pytest.mark.slow
def test_baoab_takes_steps_of_the_size_of_the_modes_it_sits_in():
    # Two modes of width 0.01 at -1 and 1, with scale 1: the whitened curvature is 10⁴, so the step
    # shrinks 100-fold.
    def two_modes(key, positions):
        return -(positions - jnp.sign(positions)) / 0.01**2

    signs = jnp.sign(jax.random.normal(jax.random.key(1), (5000, 1)))
    start = signs + 0.01 * jax.random.normal(jax.random.key(2), (5000, 1))
    moved = targets.moved_along(BAOAB(), jax.random.key(0), start, two_modes, Scale(jnp.ones((1, 1)), 1))
    np.testing.assert_array_equal(np.sign(moved), signs)
    # The median of |f|² is 0.45 times its mean, so the step is 0.74, not 0.5: exact on each mode.
    assert np.std(moved - signs) == pytest.approx(0.01, rel=4 / np.sqrt(2 * 5000))


def test_baoab_leaves_a_particle_whose_path_is_not_finite():
    def broken(key, positions):
        return jnp.where(positions > 0, jnp.nan, -positions)

    start = jnp.array([[1.0], [-8.0]])
    moved = targets.moved_along(
        BAOAB(num_steps=1, step_size=0.1), jax.random.key(0), start, broken, Scale(jnp.ones((1, 1)), 1)
    )
    assert moved[0] == start[0] and moved[1] != start[1]


def test_sghmc_has_the_published_stationary_spread():
    # For θ ~ N(0, 1/n) and η = 0.1/n the covariance of the linear recursion solves a Lyapunov
    # equation.
    n, learning_rate, friction = 50, 0.1, 0.2
    transition = np.array([[1 - learning_rate, 1 - friction], [-learning_rate, 1 - friction]])
    noise = 2 * friction * learning_rate / n * np.ones((2, 2))
    covariance = np.zeros((2, 2))
    for _ in range(2000):
        covariance = transition @ covariance @ transition.T + noise
    kernel = SGHMC(learning_rate=learning_rate, friction=friction, num_steps=300)
    start = jnp.zeros((NUM_PARTICLES, 1))
    moved = targets.moved_along(
        kernel, jax.random.key(0), start, lambda key, x: -n * x, Scale(jnp.ones((1, 1)), n)
    )
    assert np.var(moved) == pytest.approx(covariance[0, 0], rel=SAMPLING_ERROR)


def test_a_noise_estimate_makes_up_for_noisy_gradients():
    # Noise of variance 2 β̂ / η in the gradient gives each kick what β̂ takes from the noise.
    n, rate, share = 50, 0.1 / 50, 0.15
    scale, start = Scale(jnp.ones((1, 1)), n), jnp.zeros((NUM_PARTICLES, 1))

    def noisy(key, x):
        return -n * x + jnp.sqrt(2 * share / rate) * jax.random.normal(key, x.shape)

    kernel = SGHMC(num_steps=300, noise_estimate=share)
    spreads = [
        np.var(targets.moved_along(each, jax.random.key(0), start, gradient, scale))
        for each, gradient in ((SGHMC(num_steps=300), lambda key, x: -n * x), (kernel, noisy))
    ]
    assert spreads[1] == pytest.approx(spreads[0], rel=2 * SAMPLING_ERROR)
    differences = jnp.sqrt(4 * share / rate) * jax.random.normal(jax.random.key(1), (NUM_PARTICLES, 1))
    assert SGHMC().noise_share(differences, scale) == pytest.approx(share / 0.2, rel=0.1)
    assert kernel.noise_share(differences, scale) == pytest.approx(0.0, abs=0.1)
    with pytest.raises(
        ConfigurationError,
        match=r"noise_estimate must lie between 0 and friction = 0\.2, or be 'measured'; got 0\.3",
    ):
        SGHMC(noise_estimate=0.3)


def test_a_measured_noise_estimate_makes_up_for_noise_that_differs_between_coordinates():
    n, rate = 50, 0.1 / 50
    shares = jnp.array([0.02, 0.15])  # the β̂ of each coordinate
    scale, start = Scale(jnp.eye(2), n), jnp.zeros((NUM_PARTICLES, 2))

    def noisy(key, x):
        return -n * x + jnp.sqrt(2 * shares / rate) * jax.random.normal(key, x.shape)

    exact = targets.moved_along(SGHMC(num_steps=300), jax.random.key(0), start, lambda key, x: -n * x, scale)
    kernel = SGHMC(num_steps=300, noise_estimate="measured")
    found = targets.moved_along(kernel, jax.random.key(0), start, noisy, scale)
    np.testing.assert_allclose(np.var(found, axis=0), np.var(exact, axis=0), rtol=2 * SAMPLING_ERROR)
    differences = jnp.sqrt(4 * 0.4 / rate) * jax.random.normal(jax.random.key(1), (NUM_PARTICLES, 1))
    assert kernel.noise_share(differences, scale) == pytest.approx(0.4 / 0.2 - 0.95, rel=0.1)


@pytest.mark.slow
def test_an_unscaled_kernel_ignores_the_covariance():
    plain = HMC(num_trajectories=20, num_steps=10, smallest_step=0.05, largest_step=0.05)
    density = Density(lambda x: -0.5 * jnp.sum(x**2) * 16, lambda key, x: -16 * x)
    start = 0.25 * jax.random.normal(jax.random.key(1), (NUM_PARTICLES, 1))
    moved = [
        kernel.move(jax.random.key(0), start, density, Scale(jnp.full((1, 1), factor), 10)).positions
        for kernel, factor in ((Unscaled(plain), 1e3), (Unscaled(plain), 1e-3), (plain, 1.0))
    ]
    np.testing.assert_array_equal(moved[0], moved[1])
    np.testing.assert_array_equal(moved[0], moved[2])
    assert np.var(moved[0]) == pytest.approx(1 / 16, rel=SAMPLING_ERROR)
    with pytest.raises(ConfigurationError, match="kernel must be a move that uses the exact log density"):
        Unscaled(SGHMC())
    with pytest.raises(ConfigurationError, match="kernel must have a Metropolis correction"):
        Unscaled(ULA())


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [BAOAB(), SGHMC()])
def test_different_keys_give_different_moves(kernel):
    scale, start = Scale(jnp.ones((1, 1)), 10), jnp.zeros((3, 1))
    first, second = (
        targets.moved_along(kernel, jax.random.key(seed), start, lambda key, x: -x, scale) for seed in (0, 1)
    )
    assert not np.any(np.asarray(first) == np.asarray(second))


def test_the_scale_is_the_weighted_covariance():
    rng = np.random.default_rng(0)
    positions, weights = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)), rng.dirichlet(np.ones(200))
    factor = np.asarray(posterior_scale(positions, weights, None, 10).factor, np.float64)
    expected = np.cov(positions.T, aweights=weights, ddof=0)
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-5)


def test_the_scale_survives_correlations_that_float32_cannot_hold():
    rng = np.random.default_rng(0)
    common, difference = rng.normal(size=(500, 1)), 1e-3 * rng.normal(size=(500, 2))
    positions = common + difference
    factor = np.asarray(posterior_scale(positions, np.full(500, 1 / 500), None, 10).factor)
    assert factor[1, 1] == pytest.approx(np.sqrt(2) * 1e-3, rel=4 / np.sqrt(1000))


def test_the_scale_of_few_particles_is_diagonal():
    positions = np.random.default_rng(0).normal(size=(10, 4))
    factor = np.asarray(posterior_scale(positions, np.full(10, 0.1), None, 10).factor)
    np.testing.assert_array_equal(factor, np.diag(np.diag(factor)))


def test_the_scale_is_the_inverse_of_a_curvature_that_agrees_with_the_particles():
    rng = np.random.default_rng(0)
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    positions = rng.multivariate_normal([1.0, 2.0], covariance, size=400)
    weights = np.full(400, 1 / 400)
    factor = np.asarray(posterior_scale(positions, weights, np.linalg.inv(covariance), 10).factor)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-5)
    particles_alone = np.asarray(posterior_scale(positions, weights, None, 10).factor)
    for wrong in (np.linalg.inv(covariance) / 5, 5 * np.linalg.inv(covariance), -np.eye(2)):
        factor = np.asarray(posterior_scale(positions, weights, wrong, 10).factor)
        np.testing.assert_array_equal(factor, particles_alone)


@pytest.mark.parametrize(
    ("kernel", "fields", "message"),
    [
        (BAOAB, {"step_size": 2.0}, r"step_size must lie in \(0, 2\), the stable range; got 2\.0\."),
        (BAOAB, {"friction": 0.0}, r"friction must be positive; got 0\.0\."),
        (BAOAB, {"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
        (SGHMC, {"learning_rate": 0.0}, r"learning_rate must be positive; got 0\.0\."),
        (SGHMC, {"friction": 1.5}, r"friction must lie in \(0, 1\]; got 1\.5\."),
        (SGHMC, {"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
    ],
)
def test_impossible_configurations_are_refused(kernel, fields, message):
    with pytest.raises(ConfigurationError, match=message):
        kernel(**fields)
