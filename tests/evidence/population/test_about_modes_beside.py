"""A narrow mode that the path has lost is found on rays from the one that it kept."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy.special import logsumexp

import evidentia as ev
from evidentia.evidence.population.about_modes import rises
from evidentia.evidence.population.importance import Sampling
from evidentia.evidence.population.mixture import Mixture
from evidentia.model.bound import BoundModel
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window

NUM = 5
CENTRES = np.array([[3.0, 2.0, 1.0, -4.0, -4.0], [-3.0, -4.0, -4.0, -1.0, 4.0]])
WIDTHS = np.array([0.9, 0.3])


def log_peaks(params, data):
    """Two normals of equal masses, a third as wide the second, in a cube of side 20."""
    centres, widths = jnp.asarray(CENTRES), jnp.asarray(WIDTHS)
    squares = jnp.sum((params["x"] - centres) ** 2, 1) / widths**2
    return logsumexp(-0.5 * squares - NUM * jnp.log(widths * jnp.sqrt(2 * jnp.pi))) + 0 * data[:, 0]


PRIOR = {"x": dist.Uniform(-10, 10).expand([NUM]).to_event(1)}
MODEL = ev.Model(PRIOR, log_peaks)
TRUTH = np.log(2) - NUM * np.log(20)
ONE_ROW = np.zeros((1, 1), np.float32)
ROWS = Window(jnp.asarray(ONE_ROW), 0, 1)


def proposal_at(*modes: int) -> tuple[BoundModel, Mixture]:
    """Proposals at the modes with these numbers, on the unconstrained scale."""
    model = MODEL.bind(ONE_ROW)
    starts = [np.log((10 + CENTRES[mode]) / (10 - CENTRES[mode])) for mode in modes]
    return model, Mixture(tuple(newton(model, ROWS, start) for start in starts))


@pytest.mark.slow
def test_rays_from_the_wide_mode_meet_the_narrow_one():
    model, proposal = proposal_at(0)
    found = rises(Sampling(model, ROWS, np.random.default_rng(0), 512), proposal)
    modes = [newton(model, ROWS, start) for start in found]
    narrow = 20 / (1 + np.exp(-modes[0].centre)) - 10
    np.testing.assert_allclose(narrow, CENTRES[1], atol=0.1)


def test_nothing_rises_beside_the_modes_that_are_known():
    model, proposal = proposal_at(0, 1)
    assert len(rises(Sampling(model, ROWS, np.random.default_rng(0), 512), proposal)) == 0


@pytest.mark.slow
def test_rises_of_a_density_with_one_mode_are_none():
    model = ev.Model(
        {"x": dist.Normal(0, 1).expand([3]).to_event(1)},
        lambda params, y: -0.5 * (params["x"].sum() - y[:, 0]) ** 2,
    )
    bound = model.bind(ONE_ROW)
    proposal = Mixture((newton(bound, ROWS, np.ones(3)),))
    assert len(rises(Sampling(bound, ROWS, np.random.default_rng(0), 512), proposal)) == 0


def test_many_rows_are_not_looked_at():
    model, proposal = proposal_at(0)
    many = Window(jnp.zeros((1000, 1)), 0, 1000)
    assert len(rises(Sampling(model, many, np.random.default_rng(0), 512), proposal)) == 0


@pytest.mark.slow
def test_the_evidence_has_both_modes():
    errors = [ev.estimate(MODEL, ONE_ROW, seed=seed).log_evidence - TRUTH for seed in range(6)]
    assert np.abs(errors).max() < 0.03
