"""Moves that need the log density: exact on Gaussian and skewed targets; bad fields refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.kernels import MALA, ConstrainedSlice, DifferentialEvolution, RandomWalk, Slice
from tests.kernels import targets
from tests.kernels.test_hmc import gumbel

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("kernel", [MALA(num_steps=60), RandomWalk(num_steps=100), Slice(num_steps=20)])
def test_reaches_a_gaussian_from_elsewhere(kernel):
    start = jnp.full((targets.NUM_PARTICLES, 1), 3.0)
    moved = targets.moved_under(
        kernel, jax.random.key(0), start, lambda x: -0.5 * jnp.sum(x**2), targets.scale(1)
    )
    assert np.mean(moved) == pytest.approx(0, abs=4 / np.sqrt(targets.NUM_PARTICLES))
    assert np.var(moved) == pytest.approx(1, rel=targets.SAMPLING_ERROR)


@pytest.mark.parametrize(
    "kernel",
    [
        MALA(num_steps=100),
        RandomWalk(num_steps=150),
        Slice(num_steps=30),
        DifferentialEvolution(num_steps=150),
    ],
)
def test_keeps_a_skewed_target_without_bias(kernel):
    class OfDensity:
        def move(self, key, positions, density, scale):
            return kernel.move(key, positions, targets.density(gumbel), scale)

    targets.assert_keeps_a_skewed_target(OfDensity(), 0.0, 0.0)


@pytest.mark.parametrize("kernel", [MALA(), RandomWalk(), Slice(), DifferentialEvolution()])
def test_steps_are_measured_in_the_scale(kernel):
    """With its scale, a kernel treats a narrow correlated Gaussian as a unit Gaussian."""
    covariance = np.array([[1.0, 0.027], [0.027, 0.0009]])
    factor = jnp.asarray(np.linalg.cholesky(covariance), jnp.float32)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    unit = jax.random.normal(jax.random.key(1), (1000, 2))
    narrow = targets.moved_under(
        kernel,
        jax.random.key(0),
        unit @ factor.T,
        lambda x: -0.5 * x @ precision @ x,
        targets.scale(1)._replace(factor=factor),
    )
    wide = targets.moved_under(
        kernel, jax.random.key(0), unit, lambda x: -0.5 * x @ x, targets.scale(1)._replace(factor=jnp.eye(2))
    )
    white = np.linalg.solve(np.asarray(factor, np.float64), np.asarray(narrow, np.float64).T).T
    # Rounding changes a few acceptances; all others are the same.
    assert np.mean(np.abs(white - wide).max(1) < 0.01) > 0.98


@pytest.mark.parametrize("kernel", [MALA, RandomWalk, DifferentialEvolution])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"step_size": 0.0}, r"step_size must be positive; got 0\.0\."),
        ({"num_steps": 0}, r"num_steps must be an integer of at least 1; got 0\."),
    ],
)
def test_impossible_fields_are_refused(kernel, fields, message):
    with pytest.raises(ConfigurationError, match=message):
        kernel(**fields)


@pytest.mark.parametrize("kernel", [Slice, ConstrainedSlice])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0.0}, r"width must be positive; got 0\.0\."),
        ({"num_steps": 0}, "num_steps must be an integer"),
    ],
)
def test_impossible_slices_are_refused(kernel, fields, message):
    with pytest.raises(ConfigurationError, match=message):
        kernel(**fields)
