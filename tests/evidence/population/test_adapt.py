"""Learnt proposals: they fit particles, improve on weighted draws, and forget no part."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import evidentia as ev
from evidentia.data.arrays import on_device
from evidentia.evidence.population.adapt import MORE_COMPONENTS, Drawn, Effort, Rounds, effort_for, learn
from evidentia.evidence.population.importance import MIN_ESS, Sampling, is_enough, weighted_draws
from evidentia.evidence.population.leaps import over_leaps
from evidentia.evidence.population.mixture import Mixture, fitted
from evidentia.evidence.population.particles import Population
from evidentia.evidence.population.redrawing import PRIOR_SHARE, draw_anew
from evidentia.posterior.gaussian import LocalGaussian
from evidentia.posterior.modes import newton
from evidentia.posterior.rows import Window
from evidentia.weights import ess
from tests.evidence.population.rings import COUNT, around, even

CENTRE = [0.3, 0.1]


def ring(params, y):
    """A ring of radius two; no component is near Gaussian about any mode."""
    radius = jnp.sqrt(jnp.sum(params["x"] ** 2) + 1e-12)
    return dist.Normal(radius, 1.0).log_prob(y)


# The prior is off the centre, so that no sign or order is a symmetry.
MODEL = ev.Model({"x": dist.Normal(jnp.asarray(CENTRE), 2.0).to_event(1)}, ring)


@pytest.fixture(scope="module")
def problem():
    y = np.random.default_rng(0).normal(2.0, 1.0, 400).astype(np.float32)
    return MODEL.bind(y), Window(jnp.asarray(y), 0, 400), y.astype(float)


@pytest.fixture(scope="module")
def exact(problem):
    """By quadrature over radius and angle."""
    *_, y = problem
    radius, angle = np.linspace(1.5, 2.5, 2001), np.linspace(0, 2 * np.pi, 720, endpoint=False)
    sums = y @ y - 2 * radius * y.sum() + len(y) * radius**2
    squares = (radius[:, None] * np.cos(angle) - CENTRE[0]) ** 2
    squares += (radius[:, None] * np.sin(angle) - CENTRE[1]) ** 2
    heights = -0.5 * (sums + len(y) * np.log(2 * np.pi))[:, None] - squares / 8 - np.log(8 * np.pi)
    inner = np.exp(heights - heights.max()).mean(1) * 2 * np.pi * radius
    return heights.max() + np.log(np.trapezoid(inner, radius))


@pytest.mark.slow
def test_rounds_lead_to_even_weights_on_a_ring(problem, exact):
    model, rows, _ = problem
    generator = np.random.default_rng(0)
    # Components that are far too wide, and a fifth of the ring in their tails.
    start = fitted(even(around(COUNT, spread=0.8, arc=1.6 * np.pi)), generator)
    assert start is not None
    poor = weighted_draws(Sampling(model, rows, generator, COUNT), start)
    found = learn(Sampling(model, rows, generator, COUNT), start)
    good = weighted_draws(Sampling(model, rows, generator, COUNT), found)
    assert ess(good.log_weights) > 1.5 * ess(poor.log_weights)
    # More rounds would reach twice that, at twice the cost (`ROUNDS`).
    assert ess(good.log_weights) > MIN_ESS * len(good.log_weights)
    assert abs(good.log_evidence - exact) < 4 / np.sqrt(ess(good.log_weights))


def test_proposals_learnt_from_each_other_do_not_grow(problem):
    model, rows, _ = problem
    proposal, generator = fitted(even(around(COUNT)), np.random.default_rng(0)), np.random.default_rng(1)
    assert proposal is not None
    for size in (50, 100, 200, 400):
        proposal = learn(Sampling(model, Window(rows.arrays, 0, size), generator, COUNT), proposal)
        assert len(proposal.components) <= 3 * MORE_COMPONENTS
        assert proposal.shares.sum() == pytest.approx(1.0)


def test_a_proposal_learnt_from_few_draws_keeps_the_components_of_its_start(problem):
    model, rows, _ = problem
    start = fitted(even(around(COUNT)), np.random.default_rng(0), 20)
    assert start is not None and len(start.components) == 20
    sampling, many = Sampling(model, rows, np.random.default_rng(1), COUNT), Window(rows.arrays, 0, 40_000)
    effort = effort_for(sampling._replace(rows=many), start)
    assert effort == Effort(num_rounds=8, size=2 * COUNT, good=MIN_ESS, most_components=20)
    found = learn(sampling, start, effort._replace(good=1.0))  # all rounds
    assert len(found.components) == 40  # those of the start and of the fit


@pytest.mark.slow
def test_a_ring_is_redrawn_from_its_particles_and_then_with_more_rows(problem, exact):
    model, rows, _ = problem
    half = Window(rows.arrays, 0, 200)
    particles = Population(jax.random.key(0), jnp.asarray(around(COUNT), jnp.float32), np.zeros(COUNT))
    first = draw_anew(model, half, particles)
    assert first is not None and first.proposal.is_learnt and first.proposal.is_checked
    for seed in range(5):
        population = particles._replace(key=jax.random.key(seed))
        found = draw_anew(model, rows, population, first.proposal, 2.0)
        assert found is not None and found.proposal.is_checked
        error = 1 / np.sqrt(ess(found.draws.log_weights))
        assert abs(found.draws.log_evidence - exact) < 4 * error


@pytest.mark.slow
def test_draws_come_from_the_prior_too_while_that_costs_little(problem):
    model, rows, _ = problem
    for count, share in ((COUNT, PRIOR_SHARE), (8 * COUNT, 0.0)):
        positions = jnp.asarray(around(count), jnp.float32)
        found = draw_anew(model, rows, Population(jax.random.key(0), positions, np.zeros(count)))
        assert found is not None and found.proposal.prior_share == share


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")
def test_where_a_learnt_proposal_fails_half_the_leap_is_tried(problem, monkeypatch):
    """With 5,000 rows it always fails: half way, half of what is left, …, and then the path."""

    def refuse_some(model, rows, *arguments):
        return None if rows.size == 5000 else draw_anew(model, rows, *arguments)

    monkeypatch.setattr("evidentia.evidence.population.leaps.draw_anew", refuse_some)
    monkeypatch.setattr("evidentia.evidence.population.leaps.redraw_ahead", lambda *arguments: None)
    y = np.tile(np.asarray(problem[1].arrays), 50)
    rows = Window(on_device(y), 0, len(y))
    method = ev.SGAIS()
    found = over_leaps(method, method.path, problem[0], rows, jax.random.key(0), slow=2000)
    seen = [snapshot.num_observations for snapshot in found if snapshot.num_observations >= 2000]
    assert seen[:6] == [2000, 3162, 3976, 4459, 4959, 5000]


def test_what_no_particles_have_checked_stays_unchecked(problem):
    model, rows, _ = problem
    start = fitted(even(around(COUNT)), np.random.default_rng(0))
    assert start is not None
    population = Population(jax.random.key(0), jnp.asarray(around(COUNT), jnp.float32), np.zeros(COUNT))
    for is_checked in (True, False):
        found = draw_anew(model, rows, population, start._replace(is_checked=is_checked), 2.0)
        assert found is not None and found.proposal.is_checked == is_checked


@pytest.mark.slow
def test_draws_about_a_mode_are_as_checked_as_the_learnt_ones_before():
    model = ev.models.linear_regression(num_features=2)
    data, _ = model.simulate(1000, 0)
    bound, rows = model.bind(data), Window(on_device(data), 0, 1000)
    particles = newton(bound, rows, np.zeros(3)).draw(np.random.default_rng(0), COUNT)
    start = fitted(even(particles), np.random.default_rng(0))
    assert start is not None
    population = Population(jax.random.key(0), jnp.asarray(particles, jnp.float32), np.zeros(COUNT))
    for is_checked in (True, False):
        found = draw_anew(bound, rows, population, start._replace(is_checked=is_checked), 1.0)
        assert found is not None and not found.proposal.is_learnt
        assert found.proposal.is_checked == is_checked


@pytest.mark.slow
@pytest.mark.parametrize("value", [-jnp.inf, jnp.nan])
def test_draws_without_a_likelihood_do_not_end_in_an_error(value):
    model = ev.Model(
        {"x": dist.Normal(jnp.zeros(2), 1.0).to_event(1)},
        lambda params, y: jnp.where(params["x"][0] > 0, dist.Normal(params["x"][1], 1.0).log_prob(y), value),
    )
    y = np.zeros(20, np.float32)
    bound, rows = model.bind(y), Window(jnp.asarray(y), 0, 20)
    generator = np.random.default_rng(0)
    start = fitted(even(generator.standard_normal((COUNT, 2))), generator)
    assert start is not None
    found = learn(Sampling(bound, rows, generator, COUNT), start)
    draws = weighted_draws(Sampling(bound, rows, generator, COUNT), found, 4)
    exact = -0.5 * (20 * np.log(2 * np.pi) + np.log(21)) - np.log(2)  # half of the prior mass
    if np.isneginf(value):
        assert abs(draws.log_evidence - exact) < 4 / np.sqrt(ess(draws.log_weights))
    else:
        assert not is_enough(draws, COUNT)
        # A quarter of the draws are from the prior, where undefined ones do not count.
        of_prior = Mixture((LocalGaussian(np.full(2, 1.0), np.eye(2) * 1e4, 0.0),), prior_share=0.25)
        draws = weighted_draws(Sampling(bound, rows, generator, 16 * COUNT), of_prior)
        assert abs(draws.log_evidence - exact) < 4 / np.sqrt(ess(draws.log_weights))


def test_draws_of_all_rounds_are_weighted_by_what_they_came_from():
    """Draws of N(0, 1) and then of a mixture with N(3, 1), for the density of N(1, 1)."""
    generator, parts = np.random.default_rng(0), [scipy.stats.norm(0, 1), scipy.stats.norm(3, 1)]

    def drawn(positions):
        heights = scipy.stats.norm(1, 1).logpdf(positions)
        terms = np.stack([part.logpdf(positions) for part in parts])
        return Drawn(positions[:, None], np.zeros(len(positions)), heights), terms

    first, of_first = drawn(generator.normal(0, 1, 4000))
    second, of_second = drawn(generator.normal(3 * (generator.random(6000) < 0.75), 1))
    rounds = Rounds.before(1).with_part(np.zeros(0)).with_draws(first, of_first[:1], np.ones(1))
    rounds = rounds.with_part(of_first[1]).with_draws(second, of_second, np.array([0.25, 0.75]))
    assert rounds.counts == pytest.approx([4000 + 1500, 4500])
    together = np.exp(np.concatenate([of_first, of_second], axis=1))
    heights = np.concatenate([first.log_likelihoods, second.log_likelihoods])
    expected = np.exp(heights) / (rounds.counts @ together)
    np.testing.assert_allclose(np.exp(rounds.log_weights()), expected)
    assert expected.sum() == pytest.approx(1.0, abs=4 * np.sqrt(np.sum(expected**2)))
    particles = rounds.particles()
    assert particles.mean == pytest.approx([1.0], abs=0.1)
