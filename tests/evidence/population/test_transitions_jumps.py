"""Jumps: they keep a density with separate modes, and restore the shares of its modes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.evidence.population.transitions import Jumps, fitted_jumps, jumped
from evidentia.posterior.rows import Window
from evidentia.posterior.target import posterior

COUNT = 4000
SHARES, CENTRES, WIDTHS = (0.2, 0.8), ((-3.0, 1.0), (3.0, -1.0)), (0.05, 0.2)


def log_density(position):
    """A mixture of two normals, 60 of their widths apart, with a curved ridge in the second."""
    x, y = position
    parts = [
        jnp.log(share)
        - 0.5 * ((x - a) ** 2 + (y - b - 2 * bend * (x - a) ** 2) ** 2) / width**2
        - 2 * jnp.log(width)
        for share, (a, b), width, bend in zip(SHARES, CENTRES, WIDTHS, (0, 1), strict=True)
    ]
    return jnp.logaddexp(*parts)


@pytest.fixture(scope="module")
def target():
    """The density as a posterior with a flat prior, and its window of one row."""

    def log_likelihood(params, batch):
        return log_density(params["x"]) - dist.Normal(0, 10).log_prob(params["x"]).sum() + 0 * batch

    rows = np.zeros(1, np.float32)
    model = ev.Model({"x": dist.Normal(0, 10).expand([2]).to_event(1)}, log_likelihood).bind(rows)
    return model, posterior(Window(jnp.asarray(rows), 0, 1))


def exact_draws(generator, share=SHARES[0]):
    """Draws from the density, with another share of the first part."""
    is_first = generator.random(COUNT) < share
    steps = generator.standard_normal((COUNT, 2)) * np.where(is_first, *WIDTHS)[:, None]
    steps[:, 1] += np.where(is_first, 0, 2) * steps[:, 0] ** 2
    return np.where(is_first[:, None], *CENTRES) + steps


def assert_exact(positions):
    """Share of the first mode, and the moments of the second, to within 4.5 standard errors."""
    x, y = np.asarray(positions, np.float64).T
    is_first = x < 0
    assert abs(np.mean(is_first) - SHARES[0]) < 4.5 * np.sqrt(SHARES[0] * SHARES[1] / COUNT)
    x, y = x[~is_first] - CENTRES[1][0], y[~is_first] - CENTRES[1][1]
    for values, mean in ((x, 0), (x**2, 0.04), (y, 0.08), (x * y, 0), (x**2 * y, 3 * 2 * 0.2**4)):
        assert abs(np.mean(values) - mean) < 4.5 * np.std(values) / np.sqrt(len(values))


def test_the_density_is_kept(target):
    generator = np.random.default_rng(0)
    positions = exact_draws(generator)
    jumps = fitted_jumps(positions, np.zeros(COUNT), generator)
    for _ in range(3):
        positions, accepted = jumped(jumps, *target, None, jnp.asarray(positions, jnp.float32))
        assert accepted > 0.3
    assert_exact(positions)


def test_shares_of_modes_are_restored(target):
    generator = np.random.default_rng(1)
    positions = exact_draws(generator, share=0.5)
    jumps = fitted_jumps(positions, np.zeros(COUNT), generator)
    for _ in range(8):
        positions, _ = jumped(jumps, *target, None, jnp.asarray(positions, jnp.float32))
    assert_exact(positions)


def test_each_half_jumps_by_the_fit_to_the_other():
    generator = np.random.default_rng(2)
    positions = np.concatenate([generator.normal(-5, 1, (100, 1)), generator.normal(5, 1, (100, 1))])
    jumps = fitted_jumps(positions, np.zeros(200), generator)
    drawn = jumps.draw(200)
    assert (drawn[:100] > 0).all() and (drawn[100:] < 0).all()
    log_densities = jumps.log_density(positions)
    assert (log_densities < jumps.log_density(drawn).min()).all()


def test_coordinates_of_a_draw_belong_together():
    generator = np.random.default_rng(3)
    line = generator.standard_normal((400, 1)) * np.ones(2) + 0.01 * generator.standard_normal((400, 2))
    drawn = fitted_jumps(line, np.zeros(400), generator).draw(400)
    assert np.abs(drawn[:, 0] - drawn[:, 1]).max() < 0.1


@pytest.mark.parametrize("kind", ["one place", "weightless half"])
def test_there_are_none_from_degenerate_particles(kind):
    positions, log_weights = np.random.default_rng(4).standard_normal((100, 2)), np.zeros(100)
    if kind == "one place":
        positions[:50] = 1.0
    else:
        log_weights[50:] = -np.inf
    assert fitted_jumps(positions, log_weights, np.random.default_rng(0)) is None


@pytest.mark.slow
def test_folded_particles_stay_where_they_are():
    """Two interchangeable means, folded to the order of a centre: no jump leaves that order."""
    from evidentia.posterior.symmetry import fold

    def log_likelihood(params, batch):
        parts = dist.Normal(params["mean"], 1.0).log_prob(batch[:, None])
        return jnp.logaddexp(parts[:, 0], parts[:, 1])

    generator = np.random.default_rng(5)
    rows = np.concatenate([generator.normal(-1, 1, 10), generator.normal(1, 1, 10)]).astype(np.float32)
    prior = {"mean": dist.Normal(0, 3).expand([2]).to_event(1)}
    model = ev.Model(prior, log_likelihood, exchangeable=("mean",)).bind(rows)
    positions = model.sample_prior(jax.random.key(0), 400)
    folded, centre = fold(model, positions, np.full(400, 1 / 400))
    jumps = fitted_jumps(np.asarray(folded, np.float64), np.zeros(400), generator)
    assert isinstance(jumps, Jumps)
    window = Window(jnp.asarray(rows), 0, 20)
    moved, accepted = jumped(jumps, model, posterior(window), centre, folded)
    again, _ = fold(model, moved, np.full(400, 1 / 400))
    assert accepted > 0.1 and np.mean(np.any(np.asarray(again) != np.asarray(moved), axis=1)) < 0.05
