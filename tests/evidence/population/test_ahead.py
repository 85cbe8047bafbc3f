"""A redraw far ahead of the path: moves by some of the rows show what draws about modes miss."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.data.arrays import on_device
from evidentia.evidence.population import about_modes, leaps
from evidentia.evidence.population.ahead import moved_by_sketch, redraw_ahead
from evidentia.evidence.population.leaps import over_leaps
from evidentia.evidence.population.particles import Population, from_prior
from evidentia.evidence.population.path import anneal, end_of
from evidentia.evidence.population.redrawing import draw_anew
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window
from evidentia.weights import relative_variance

COUNT, SIZE = 512, 3000
METHOD = ev.SGAIS(num_particles=COUNT)


@pytest.fixture(scope="module")
def linear():
    model = ev.models.linear_regression(num_features=2)
    data, _ = model.simulate(SIZE, 0)
    return model.bind(data), Window(on_device(data), 0, SIZE), model.exact_log_evidence(data)


def particles_of(model, rows):
    """Particles at the end of a path through some rows."""
    start = from_prior(model, jax.random.key(0), COUNT)
    return end_of(anneal(METHOD.path, model, start, rows.part(0, 0), rows)).population


@pytest.mark.slow
def test_moves_by_a_wrong_sketch_keep_the_posterior_of_all_rows(linear):
    model, rows, _ = linear
    exact = newton(model, rows, np.zeros(3))
    draws = exact.centre + np.random.default_rng(0).standard_normal((COUNT, 3)) @ np.linalg.inv(
        np.linalg.cholesky(exact.precision)
    )
    population = Population(jax.random.key(1), jnp.asarray(draws, jnp.float32), np.zeros(COUNT))
    half = Window(rows.arrays, 0, SIZE // 2, weight=2.0)  # its posterior is elsewhere
    moved = moved_by_sketch(METHOD.path, model, rows, half, population, np.random.default_rng(2))
    moved = np.asarray(moved.positions, np.float64)
    white = (moved - exact.centre) @ np.linalg.cholesky(exact.precision)
    assert np.mean(np.any(moved != np.float32(draws), axis=1)) > 0.5
    assert np.max(np.abs(white.mean(0))) < 4 / np.sqrt(COUNT)
    assert np.max(np.abs(white.var(0) - 1)) < 4 * np.sqrt(2 / COUNT)


@pytest.mark.slow
def test_the_evidence_of_all_rows_is_exact_from_particles_of_few(linear):
    model, rows, exact = linear
    particles = particles_of(model, rows.part(0, 100))
    found = redraw_ahead(METHOD.path, model, rows, particles, moved=900)
    assert found is not None and len(found.proposal.components) == 1
    error = np.sqrt(relative_variance(found.draws.log_weights) + found.draws.variance)
    assert abs(found.draws.log_evidence - exact) < 4.5 * error < 0.1


@pytest.mark.slow
def test_no_redraw_where_no_mode_is_found(linear, monkeypatch):
    model, rows, _ = linear
    monkeypatch.setattr(about_modes, "newton", lambda *arguments: None)
    population = from_prior(model, jax.random.key(0), COUNT)
    assert redraw_ahead(METHOD.path, model, rows, population) is None


def peak_on_a_foot():
    """A parameter whose posterior has a narrow peak on a wide foot of a third; exact: zero.

    The likelihoods of all rows multiply to the posterior density, divided by the prior density.
    """

    def log_likelihood(params, row):
        theta = params["theta"]
        parts = jnp.stack(
            [
                jnp.log(2 / 3) + dist.Normal(0.0, 0.001).log_prob(theta),
                jnp.log(1 / 3) + dist.Normal(0.0, 0.01).log_prob(theta),
            ]
        )
        return row["x"] * (jax.nn.logsumexp(parts) - dist.Normal(0.0, 1.0).log_prob(theta)) / SIZE

    return ev.Model({"theta": dist.Normal(0.0, 1.0)}, log_likelihood)


@pytest.mark.slow
def test_a_part_that_draws_about_the_mode_miss_is_found_by_moves():
    generator = np.random.default_rng(0)
    x = generator.uniform(0.8, 1.2, SIZE)
    data = {"x": np.asarray(x / x.mean(), np.float32)}
    model = peak_on_a_foot().bind(data)
    rows = Window(on_device(data), 0, SIZE)
    start = Population(
        jax.random.key(0), jnp.asarray(generator.normal(0, 0.03, (COUNT, 1)), jnp.float32), np.zeros(COUNT)
    )
    found = redraw_ahead(METHOD.path, model, rows, start, moved=900)
    assert found is not None and found.proposal.is_learnt
    error = np.sqrt(relative_variance(found.draws.log_weights) + found.draws.variance)
    assert abs(found.draws.log_evidence) < 4.5 * error < 0.2  # -0.4 about the mode alone


@pytest.mark.slow
def test_a_failed_redraw_looks_ahead_once(linear, monkeypatch):
    model, rows, exact = linear
    looked = []

    def fails_below_2000(model, rows, *arguments):
        return None if rows.num_observations < 2000 else draw_anew(model, rows, *arguments)

    def noted(settings, model, rows, population):
        looked.append(rows.num_observations)
        is_tried = len(population.log_weights) == COUNT
        return redraw_ahead(settings, model, rows, population) if is_tried else None

    monkeypatch.setattr(leaps, "draw_anew", fails_below_2000)
    monkeypatch.setattr(leaps, "only_mode", lambda *_: None)
    monkeypatch.setattr(leaps, "redraw_ahead", noted)
    found = list(over_leaps(METHOD, METHOD.path, model, rows, jax.random.key(0), slow=1000))
    assert looked == [SIZE] and [each.num_observations for each in found] == [100, SIZE]
    last = found[-1].estimate
    assert last is not None and abs(last.log_evidence - exact) < 4.5 * last.standard_error < 0.1
    looked.clear()
    method = ev.SGAIS(num_particles=256)
    found = list(over_leaps(method, method.path, model, rows, jax.random.key(0), slow=1000))
    assert looked == [SIZE] and len(found) > 2  # the path went on


@pytest.mark.slow
def test_leaps_that_fail_are_followed_by_a_look_ahead(linear, monkeypatch):
    """Otherwise the path would go on to all rows after the last leap."""
    model, rows, _ = linear
    looked = []

    def noted(*arguments):
        looked.append(arguments)
        return redraw_ahead(*arguments)

    monkeypatch.setattr(leaps, "draw_anew", lambda *_: None)
    monkeypatch.setattr(leaps, "redraw_ahead", noted)
    found = over_leaps(METHOD, METHOD.path, model, rows, jax.random.key(0), slow=1000)
    assert [each.num_observations for each in found] == [100, SIZE] and len(looked) == 1


def test_a_method_without_exact_moves_does_not_look_ahead(linear):
    model, rows, _ = linear
    population = from_prior(model, jax.random.key(0), COUNT)
    settings = ev.SGAIS(exact_kernel=None).path
    assert redraw_ahead(settings, model, rows, population) is None
