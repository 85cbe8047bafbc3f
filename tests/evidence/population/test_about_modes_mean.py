"""Tests of the Gaussian at the mean of a posterior."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import digamma

import evidentia as ev
from evidentia.evidence.population.about_modes import about_mean, is_apart
from evidentia.evidence.population.importance import Sampling
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window

SIZE = 30


def poisson(y, prior_scale=10.0):
    """Independent log rates: their posterior is that of the logarithm of a gamma variable."""
    model = ev.Model(
        {"log_rate": dist.Normal(jnp.zeros(SIZE), prior_scale).to_event(1)},
        lambda params, y: dist.Poisson(jnp.exp(params["log_rate"])).log_prob(y).sum(-1),
    )
    return model.bind(y), Window(jnp.asarray(y), 0, len(y))


@pytest.fixture(scope="module")
def counts():
    return np.random.default_rng(0).poisson(2.0, (20, SIZE)).astype(np.float32)


def test_the_centre_moves_from_the_mode_to_the_mean(counts):
    model, rows = poisson(counts)
    mode = newton(model, rows, np.zeros(SIZE), tolerance=1e-9)
    found = about_mean(Sampling(model, rows, np.random.default_rng(0), 100), mode)
    totals = counts.sum(0)
    to_mean = digamma(totals) - np.log(totals)  # from the mode, but for the wide prior
    shift = found.centre - mode.centre
    assert shift.mean() == pytest.approx(to_mean.mean(), rel=0.05)
    # A pair ±δ estimates the shift as proportional to δ², whose relative deviation is √2.
    assert np.all(np.abs(shift / to_mean - 1) < 4 * np.sqrt(2 / 32))
    assert np.trace(found.precision) / np.trace(mode.precision) == pytest.approx(1.0, abs=0.05)


def test_it_matters_with_many_parameters_and_few_rows(counts):
    model, rows = poisson(counts)
    assert is_apart(model, rows)
    assert not is_apart(model, Window(rows.arrays, 0, len(counts), weight=500.0))  # 10,000 rows


def test_a_posterior_unlike_a_gaussian_is_left_alone():
    model = ev.Model(
        {"x": dist.Normal(jnp.zeros(SIZE), 1.0).to_event(1)},
        lambda params, y: -100.0 * jnp.sum(params["x"] ** 4) + 0.0 * y,  # far steeper than at its mode
    )
    y = np.zeros(5, np.float32)
    bound, rows = model.bind(y), Window(jnp.asarray(y), 0, 5)
    mode = newton(bound, rows, np.full(SIZE, 0.01))
    assert about_mean(Sampling(bound, rows, np.random.default_rng(0), 100), mode) is mode
