"""Nested sampling moves: each leaves a prior inside a contour invariant, with known moments."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from evidentia.errors import ConfigurationError
from evidentia.kernels import (
    ConstrainedDifferentialEvolution,
    ConstrainedSlice,
    ConstrainedWalk,
    Points,
    ReflectingSGHMC,
    Region,
    Rejection,
)

pytestmark = pytest.mark.reference

NUM_POINTS = 20_000
FOUR_ERRORS = 4 / np.sqrt(NUM_POINTS)
KERNELS = [
    ReflectingSGHMC(),
    ConstrainedWalk(),
    ConstrainedDifferentialEvolution(),
    ConstrainedSlice(),
    Rejection(),
]


def ball(radius):
    """N(0, 1) in the ball |θ| < r, with likelihood -|θ|²."""
    return Region(
        threshold=-(radius**2),
        label=0.5,
        log_likelihood=lambda positions: -jnp.sum(positions**2, axis=1),
        likelihood_gradient=lambda positions: -2 * positions,
        log_density=lambda positions: -0.5 * jnp.sum(positions**2, axis=1),
        slope=lambda key, positions: (-0.5 * jnp.sum(positions**2, axis=1), -positions),
        draw=lambda key, count: jax.random.normal(key, (count, 3)),
    )


def draws_in(radius, size=3, count=NUM_POINTS):
    """Exact draws: the squared radius is a truncated χ² variable."""
    generator = np.random.default_rng(0)
    squares = chi2.ppf(generator.uniform(0, chi2.cdf(radius**2, size), count), size)
    directions = generator.normal(size=(count, size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (directions * np.sqrt(squares)[:, None]).astype(np.float32)


def moved(kernel, radius, start, step=0.7):
    region = ball(radius)._replace(live=jnp.asarray(start))
    points = Points(start, region.log_likelihood(start), jnp.full(len(start), 0.7))
    factor = step * jnp.diag(jnp.std(start, axis=0))
    return jax.jit(lambda key, points: kernel.move(key, points, region, factor)[:2])(
        jax.random.key(1), points
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("radius", [1.0, 3.0])
def test_the_prior_inside_the_contour_is_kept(kernel, radius):
    start = draws_in(radius)
    points, acceptance = moved(kernel, radius, start)
    squares = np.sum(np.asarray(points.positions, np.float64) ** 2, axis=1)
    assert np.all(squares <= radius**2) and np.all(acceptance > 0)
    # E|θ|² of a truncated χ²: d P(χ²_{d+2} < r²) / P(χ²_d < r²), and likewise E|θ|⁴.
    mass, second, fourth = (chi2.cdf(radius**2, 3 + extra) for extra in (0, 2, 4))
    mean, square = 3 * second / mass, 15 * fourth / mass
    assert np.mean(squares) == pytest.approx(mean, abs=FOUR_ERRORS * np.sqrt(square - mean**2))
    deviation = np.sqrt(mean / 3)
    np.testing.assert_allclose(np.mean(points.positions, axis=0), 0, atol=FOUR_ERRORS * deviation)
    # The start is forgotten, so the kernel itself keeps the density.
    correlation = np.corrcoef(np.sum(start**2, axis=1), squares)[0, 1]
    assert abs(correlation) < 0.1 + FOUR_ERRORS
    np.testing.assert_allclose(points.log_likelihoods, -squares, atol=1e-4)


def test_the_published_steps_keep_the_prior_to_their_discretisation():
    start = draws_in(0.5)
    points, _ = moved(ReflectingSGHMC(num_steps=200, learning_rate=1e-3), 0.5, start)
    squares = np.sum(np.asarray(points.positions, np.float64) ** 2, axis=1)
    mean = 3 * chi2.cdf(0.25, 5) / chi2.cdf(0.25, 3)
    # Noise of 2αη with friction α widens velocities by 1/(1 - α/2): 5% of a force that varies by
    # 12% in the ball.
    assert np.mean(squares) == pytest.approx(mean, rel=0.01)


def test_with_the_gradient_alone_a_gaussian_is_kept_to_the_discretisation():
    everywhere = ball(1e3)
    region = everywhere._replace(log_density=None, slope=lambda key, positions: (None, -positions))
    start = jax.random.normal(jax.random.key(2), (NUM_POINTS, 2))
    points = Points(start, region.log_likelihood(start), jnp.full(NUM_POINTS, 0.7))
    kernel = ReflectingSGHMC(num_steps=400)
    result, _, _ = kernel.move(jax.random.key(1), points, region, 0.5 * jnp.eye(2))
    # A leapfrog step h widens a unit Gaussian to variance 1 / (1 - h²/4): 1.067.
    assert np.var(result.positions) == pytest.approx(1 / (1 - 0.5**2 / 4), rel=FOUR_ERRORS)


def test_a_reflection_goes_back_where_it_came_from():
    # On a line with a wall at 1: from 0.9 with velocity 0.2 to 1.1, outside, and back to 0.9.
    region = ball(1.0)._replace(
        log_density=lambda positions: jnp.zeros(len(positions)),
        slope=lambda key, positions: (jnp.zeros(len(positions)), 0 * positions),
    )
    start = jnp.tile(jnp.asarray([[0.9, 0.0, 0.0]]), (200, 1))
    points = Points(start, region.log_likelihood(start), jnp.ones(200))
    kernel = ReflectingSGHMC(num_steps=1, friction=1e-6)
    factor = jnp.diag(jnp.asarray([0.2, 0.0, 0.0]))
    move = jax.jit(partial(kernel.move, region=region, factor=factor))
    there, taken, free = move(jax.random.key(0), points)
    x = np.asarray(there.positions)[:, 0]
    assert np.all(taken == 1.0)
    reflected = np.isclose(x, 0.9, atol=1e-6)
    np.testing.assert_array_equal(free, ~reflected)
    assert np.all(x[~reflected] <= 1.0) and 0.2 < reflected.mean() < 0.45  # P(N(0, 1) > 0.5) = 0.31


def test_labels_put_points_on_a_plateau_into_an_order():
    flat = ball(1.0)._replace(
        threshold=0.0,
        log_likelihood=lambda positions: jnp.zeros(len(positions)),
        likelihood_gradient=jnp.zeros_like,
    )
    start = draws_in(1.0, count=2000)
    flat = flat._replace(live=jnp.asarray(start))
    for kernel in KERNELS:
        points = Points(start, jnp.zeros(2000), jnp.full(2000, 0.7))
        there, *_ = jax.jit(partial(kernel.move, region=flat, factor=0.3 * jnp.eye(3)))(
            jax.random.key(0), points
        )
        assert np.all(there.positions != start)
        # New labels are uniform above the contour's, 1/2: their mean is 3/4 to 4 standard errors.
        assert np.all(there.labels > 0.5)
        assert np.mean(there.labels) == pytest.approx(0.75, abs=4 * 0.5 / np.sqrt(12 * 2000))


def test_rejection_leaves_points_where_they_were_when_it_gives_up():
    start = draws_in(0.01, count=4)
    points, acceptance = moved(Rejection(max_draws=64), 0.01, start)
    np.testing.assert_array_equal(points.positions, start)
    assert np.all(acceptance == 0)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_different_keys_give_different_moves(kernel):
    start = draws_in(1.0, count=100)
    region = ball(3.0)._replace(live=jnp.asarray(start))
    points = Points(start, region.log_likelihood(start), jnp.ones(100))
    move = jax.jit(partial(kernel.move, region=region, factor=0.3 * jnp.eye(3)))
    first, second = (move(jax.random.key(seed), points)[0].positions for seed in (0, 1))
    assert not np.any(np.asarray(first) == np.asarray(second))


@pytest.mark.parametrize(
    ("kernel", "fields", "message"),
    [
        (ReflectingSGHMC, {"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
        (ReflectingSGHMC, {"friction": 0.0}, r"friction must lie in \(0, 1\]; got 0\.0\."),
        (
            ReflectingSGHMC,
            {"learning_rate": -1.0},
            r"learning_rate must be positive, or None .*; got -1\.0\.",
        ),
        (ConstrainedWalk, {"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
        (
            ConstrainedDifferentialEvolution,
            {"num_steps": 0},
            r"num_steps must be an integer of at least 1; got 0\.",
        ),
        (Rejection, {"max_draws": 0}, r"max_draws must be an integer of at least 1; got 0\."),
    ],
)
def test_impossible_fields_are_refused(kernel, fields, message):
    with pytest.raises(ConfigurationError, match=message):
        kernel(**fields)
