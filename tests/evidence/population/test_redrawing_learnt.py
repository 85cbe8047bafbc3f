"""Redraws after one whose proposal was learnt, where modes nearly suffice."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad

import evidentia as ev
from evidentia.data.arrays import on_device
from evidentia.evidence.population.adapt import learn
from evidentia.evidence.population.mixture import mixture_of
from evidentia.evidence.population.particles import Population
from evidentia.evidence.population.redrawing import draw_anew
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.rows import Window
from evidentia.weights import relative_variance

COUNT, NUM_ROWS, WIDTH = 512, 100, 3.0


def few_events(size):
    """Rates of which each has one event, so that posteriors of their logarithms are skewed."""

    def log_likelihood(params, batch):
        return jnp.sum(batch["y"] * params["log_rate"] - jnp.exp(params["log_rate"]), -1)

    prior = {"log_rate": dist.Normal(0, WIDTH).expand([size]).to_event(1)}
    model = ev.Model(prior, log_likelihood, name="few events")
    data = {"y": (np.arange(NUM_ROWS) == 0).astype(np.float32)[:, None].repeat(size, axis=1)}
    return model.bind(data), Window(on_device(data), 0, NUM_ROWS)


def exact_for(size):
    def density(x):
        return np.exp(x - NUM_ROWS * np.exp(x) - 0.5 * (x / WIDTH) ** 2) / np.sqrt(2 * np.pi) / WIDTH

    return size * np.log(quad(density, -30, 3, points=[-5])[0])


@pytest.mark.slow
@pytest.mark.parametrize(("size", "is_beside"), [(5, True), (30, False)])
def test_modes_that_nearly_suffice_stand_beside_an_earlier_proposal(monkeypatch, size, is_beside):
    bound, rows = few_events(size)
    generator, starts = np.random.default_rng(0), []
    wide = LocalGaussian(np.full(size, -5.0), np.eye(size) / 4, 0.0)
    previous = mixture_of([wide], np.zeros(1))
    positions = jnp.asarray(wide.draw(generator, COUNT), jnp.float32)

    def recorded(sampling, start):
        starts.append(start)
        return learn(sampling, start)

    monkeypatch.setattr("evidentia.evidence.population.redrawing.learn", recorded)
    found = draw_anew(bound, rows, Population(jax.random.key(0), positions, np.zeros(COUNT)), previous)
    assert [len(start.components) for start in starts] == [2 if is_beside else 1]
    assert starts[0].is_checked == previous.is_checked
    if is_beside:
        assert found is not None
        error = np.sqrt(relative_variance(found.draws.log_weights))
        assert abs(found.draws.log_evidence - exact_for(size)) < 4 * error < 0.1
