"""Proposals: density and draws agree; modes are found, kept and dropped."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.population.about_modes import (
    about,
    about_many_modes,
    about_one_mode,
    modes_near,
    modes_of_more_rows,
)
from evidentia.evidence.population.importance import Sampling
from evidentia.evidence.population.mixture import Mixture
from evidentia.evidence.population.particles import Particles
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Window


def two_modes(advantage):
    """Modes at -1 and 1; the one at 1 has `advantage` nats more for each row: no symmetry."""
    return ev.Model(
        prior={"m": dist.Normal(0, 1)},
        log_likelihood=lambda params, y: (
            -0.5 * (jnp.abs(params["m"]) - 1 - 0 * y) ** 2 + advantage * (params["m"] > 0)
        ),
        name="two modes",
    )


def sampling_of(model, rows):
    return Sampling(model, rows, np.random.default_rng(0), 100)


@pytest.fixture(scope="module")
def problem():
    y = np.zeros(100, np.float32)
    return two_modes(1e-5).bind(y), Window(jnp.asarray(y), 0, 100)


@pytest.fixture(scope="module")
def particles():
    positions = 0.1 * np.random.default_rng(0).standard_normal((200, 1))
    positions += np.where(np.arange(200) < 60, -1, 1)[:, None]
    return Particles(positions, np.full(200, 1 / 200))


def test_draws_follow_the_density():
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    near, far = np.zeros(2), np.array([5.0, 5.0])
    first = Mixture((LocalGaussian(near, precision, 0.0), LocalGaussian(far, precision, 4.0)))
    np.testing.assert_allclose(first.shares, np.array([1, np.exp(2)]) / (1 + np.exp(2)))
    second = Mixture((LocalGaussian(near, precision / 2, 0.0), LocalGaussian(far, precision / 2, 0.0)))
    draws = np.asarray(first.draw(np.random.default_rng(0), 50_000), np.float64)
    assert abs(np.mean(draws[:, 0] > 2.5) - first.shares[1]) < 5 * np.sqrt(0.25 / 50_000)
    ratios = np.exp(second.log_density(draws) - first.log_density(draws))
    assert abs(np.mean(ratios) - 1) < 5 * np.std(ratios) / np.sqrt(50_000)


def test_modes_are_found_from_particles(problem, particles):
    one = about_one_mode(sampling_of(*problem), particles)
    assert len(one.components) == 1
    many = about_many_modes(sampling_of(*problem), particles)
    found = sorted(mode.centre[0] for mode in many.components)
    # The prior N(0, 1) is equivalent to one row at zero.
    np.testing.assert_allclose(found, [-100 / 101, 100 / 101], atol=0.1 / np.sqrt(101))
    np.testing.assert_allclose(many.shares, 0.5, atol=0.01)


def test_modes_are_followed_and_the_smallest_forgotten(particles):
    y = np.zeros(200, np.float32)
    rows = Window(jnp.asarray(y), 0, 200)
    for advantage, num_modes in ((0.01, 2), (0.2, 1)):  # two nats, and forty
        model = two_modes(advantage).bind(y)
        earlier = about_many_modes(sampling_of(model, Window(rows.arrays, 0, 20)), particles)
        assert len(earlier.components) == 2
        sampling = sampling_of(model, rows)
        later = about(sampling, modes_of_more_rows(sampling, earlier.components, 10.0))
        assert len(later.components) == num_modes
        assert later.components[0].centre == pytest.approx(200 / 201, abs=0.1 / np.sqrt(201))


def test_particles_of_which_none_leads_to_a_mode(particles):
    # The density is unbounded: Newton's method does not converge.
    model = ev.Model(
        prior={"m": dist.Normal(0, 1)}, log_likelihood=lambda params, y: params["m"] ** 2 + 0 * y
    )
    y = np.zeros(10, np.float32)
    rows = Window(jnp.asarray(y), 0, 10)
    assert about_many_modes(sampling_of(model.bind(y), rows), particles) is None


def test_few_rows_of_a_stream_are_searched_however_many_they_represent(problem, particles):
    model, rows = problem
    stream = replace(rows, weight=3e3)
    assert stream.num_observations == 300_000
    assert len(about_many_modes(sampling_of(model, stream), particles).components) == 2


def test_every_mode_that_particles_show_is_found():
    """Nine modes, one with a fiftieth of the particles; 16 random starts often miss some."""
    places = np.arange(9.0, dtype=np.float32)
    share = np.array([0.02, *[0.98 / 8] * 8])

    def log_likelihood(params, y):
        return jnp.logaddexp.reduce(-0.5 * ((params["m"] - places) / 0.01) ** 2) + 0 * y

    y = np.zeros(1, np.float32)
    model = ev.Model({"m": dist.Normal(4, 4)}, log_likelihood).bind(y)
    for seed in range(10):
        generator = np.random.default_rng(seed)
        positions = generator.choice(places, 400, p=share) + 0.01 * generator.standard_normal(400)
        found = modes_near(
            Sampling(model, Window(jnp.asarray(y), 0, 1), generator, 400), Particles.equal(positions[:, None])
        )
        assert len(found) == 9
        assert sorted(round(float(mode.centre[0])) for mode in found) == list(range(9))
