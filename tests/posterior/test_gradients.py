"""Gradient estimators: unbiased, exact where required, with shared mini-batches."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from evidentia.errors import ConfigurationError
from evidentia.model import built_in as models
from evidentia.posterior.gaussian import Expansion
from evidentia.posterior.gradients import ControlVariate, FullBatch, MiniBatch
from evidentia.posterior.rows import Window
from evidentia.posterior.target import log_target, posterior, tempered

NUM_ROWS, NUM_CHUNK, TEMPERATURE = 3000, 500, 0.3


def target_of(arrays, boundary, stop, temperature):
    return tempered(Window(arrays, 0, boundary), Window(arrays, boundary, stop), temperature)


@pytest.fixture(scope="module", params=["linear", "softmax"])
def problem(request):
    model = {
        "linear": models.linear_regression(2),
        "softmax": models.softmax_regression(2, 3),
    }[request.param]
    data, _ = model.simulate(NUM_ROWS + NUM_CHUNK, 0)
    bound = model.bind(data)
    arrays = jax.tree.map(jnp.asarray, data)
    target = target_of(arrays, NUM_ROWS, NUM_ROWS + NUM_CHUNK, TEMPERATURE)
    positions = 0.3 * bound.sample_prior(jax.random.key(1), 4)
    return bound, arrays, target, positions


def estimates(config, problem, num_draws):
    """Draws of the estimator, (draws, particles, parameters), after the preparation of a move."""
    bound, _, target, positions = problem
    prepared = config.prepare(bound, None, target, positions.mean(0))
    expansion = prepared.expansion and prepared.expansion.narrowed()
    gradient = prepared.estimator.function(bound, prepared.target, expansion)
    keys = jax.random.split(jax.random.key(2), num_draws)
    return np.asarray(jax.lax.map(jax.jit(lambda key: gradient(key, positions)), keys), np.float64)


@pytest.mark.slow
def test_full_batch_is_the_gradient_of_the_tempered_posterior(problem):
    bound, arrays, _, positions = problem

    def log_density(position):
        values = bound.log_likelihood(position, arrays)
        return bound.log_prior(position) + values[:NUM_ROWS].sum() + TEMPERATURE * values[NUM_ROWS:].sum()

    expected = jax.jit(jax.vmap(jax.grad(log_density)))(positions)
    np.testing.assert_allclose(estimates(FullBatch(), problem, 1)[0], expected, rtol=2e-4, atol=0.02)


def test_the_exact_log_density_has_the_exact_gradient(problem):
    bound, arrays, target, positions = problem
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(log_target(bound, target))))(positions)
    rows = jax.jit(jax.vmap(bound.log_likelihood, (0, None)))(positions, arrays)
    expected = bound.log_priors(positions) + rows @ jnp.where(
        jnp.arange(rows.shape[1]) < NUM_ROWS, 1.0, TEMPERATURE
    )
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    np.testing.assert_allclose(gradients, estimates(FullBatch(), problem, 1)[0], rtol=2e-4, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("config", [MiniBatch(200), ControlVariate(batch_size=64, exact_rows=0)])
def test_estimators_are_unbiased(config, problem):
    exact = estimates(FullBatch(), problem, 1)[0]
    draws = estimates(config, problem, 1000)
    standard_error = draws.std(0) / np.sqrt(len(draws))
    # Four standard errors for a few dozen components; float32 sums of 3000 rows are good to 0.02.
    assert np.all(np.abs(draws.mean(0) - exact) < 4 * standard_error + 0.02)


def test_control_variates_are_exact_on_a_quadratic_model():
    model = models.linear_regression(2)
    data, _ = model.simulate(NUM_ROWS + NUM_CHUNK, 0)
    bound, arrays = model.bind(data), jax.tree.map(jnp.asarray, data)
    target = target_of(arrays, NUM_ROWS, NUM_ROWS + NUM_CHUNK, TEMPERATURE)
    problem = bound, arrays, target, bound.sample_prior(jax.random.key(1), 4)
    exact = estimates(FullBatch(), problem, 1)[0]
    draws = estimates(ControlVariate(batch_size=8, exact_rows=0), problem, 20)
    # The remainder is a difference of float32 numbers, scaled up by rows / batch.
    np.testing.assert_allclose(draws, np.broadcast_to(exact, draws.shape), rtol=1e-3, atol=0.1)


@pytest.mark.slow
def test_control_variates_are_much_less_noisy_than_mini_batches(problem):
    noise = estimates(MiniBatch(64), problem, 200).std(0).mean()
    assert estimates(ControlVariate(batch_size=64, exact_rows=0), problem, 200).std(0).mean() < 0.5 * noise


@pytest.mark.slow
def test_particles_share_the_mini_batch_of_control_variates(problem):
    bound, arrays, target, positions = problem
    same = jnp.broadcast_to(positions[0], positions.shape)
    draws = estimates(ControlVariate(batch_size=64, exact_rows=0), (bound, arrays, target, same), 3)
    np.testing.assert_allclose(draws, np.broadcast_to(draws[:, :1], draws.shape), rtol=1e-4, atol=0.05)


@pytest.mark.slow
def test_published_mini_batches_differ_between_particles(problem):
    bound, arrays, target, positions = problem
    same = jnp.broadcast_to(positions[0], positions.shape)
    draws = estimates(MiniBatch(64), (bound, arrays, target, same), 1)[0]
    assert not np.allclose(draws[0], draws[1], rtol=1e-3)


def test_before_any_past_a_mini_batch_is_the_prior_and_the_chunk(problem):
    bound, arrays, _, positions = problem
    target = target_of(arrays, 0, NUM_CHUNK, 1.0)
    problem = bound, arrays, target, positions
    np.testing.assert_allclose(
        estimates(MiniBatch(8), problem, 1)[0], estimates(FullBatch(), problem, 1)[0], rtol=1e-5, atol=1e-3
    )


def test_an_expansion_brought_up_to_date_equals_one_made_at_once(problem):
    bound, arrays, target, positions = problem
    config, centre = ControlVariate(exact_rows=0), positions.mean(0)
    memory = config.prepare(bound, None, target, centre).memory
    later = target_of(arrays, NUM_ROWS + 400, NUM_ROWS + NUM_CHUNK, 0.5)
    memory = config.prepare(bound, memory, later, centre + 1).memory
    at_once = later.past.expand(bound, centre)
    assert memory.num_rows == NUM_ROWS + 400
    for updated, expected in zip(memory.past, at_once, strict=True):
        np.testing.assert_allclose(updated, expected, rtol=1e-9, atol=1e-6)


def test_the_centre_moves_when_the_rows_have_doubled(problem):
    bound, arrays, target, positions = problem
    config = ControlVariate(exact_rows=0)
    early = target_of(arrays, 1000, 1000, 1.0)
    memory = config.prepare(bound, None, early, positions[0]).memory
    memory = config.prepare(bound, memory, target, positions[1]).memory
    np.testing.assert_array_equal(memory.past.centre, positions[1])


def test_the_exact_gradient_is_taken_while_rows_are_few_or_noise_is_large(problem):
    bound, _, target, positions = problem
    prepared = ControlVariate(exact_rows=10_000).prepare(bound, None, target, positions[0])
    assert prepared.estimator == FullBatch() and prepared.memory is None
    noisy = ControlVariate(batch_size=64, exact_rows=0)
    prepared = noisy.prepare(bound, None, target, positions[0])
    assert prepared.estimator == noisy
    prepared = noisy.prepare(bound, noisy.adapt(prepared.memory, 5.0), target, positions[0])
    assert prepared.estimator == ControlVariate(batch_size=512, exact_rows=0)
    # Still noisy: first a new centre, then a larger mini-batch, which costs too much to be useful.
    prepared = noisy.prepare(bound, noisy.adapt(prepared.memory, 5.0), target, positions[0])
    assert prepared.estimator == ControlVariate(batch_size=512, exact_rows=0)
    prepared = noisy.prepare(bound, noisy.adapt(prepared.memory, 5.0), target, positions[0])
    assert prepared.estimator == FullBatch()


def test_a_chunk_that_counts_fully_becomes_past(problem):
    bound, _, target, positions = problem
    config = ControlVariate(exact_rows=0)
    assert config.prepare(bound, None, target, positions[0]).target is target
    full = target._replace(temperature=1.0)
    merged = config.prepare(bound, None, full, positions[0]).target
    assert (merged.past.stop, merged.chunk.size) == (NUM_ROWS + NUM_CHUNK, 0)
    assert merged == posterior(full.window)


def test_the_published_mini_batch_comes_from_earlier_rows_only(problem):
    bound, _, target, positions = problem
    full = target._replace(temperature=1.0)
    assert MiniBatch(8).prepare(bound, None, full, positions[0]).target is full


def test_noise_about_an_old_centre_moves_the_centre(problem):
    bound, _, target, positions = problem
    config = ControlVariate(batch_size=64, exact_rows=0)
    memory = config.prepare(bound, None, target, positions[0]).memory
    memory = config.prepare(bound, memory, target, positions[1]).memory
    np.testing.assert_array_equal(memory.past.centre, positions[0])
    memory = config.prepare(bound, config.adapt(memory, 5.0), target, positions[1]).memory
    np.testing.assert_array_equal(memory.past.centre, positions[1])
    assert memory.batch_size == 64


def test_quiet_mini_batches_do_not_grow(problem):
    bound, _, target, positions = problem
    config = ControlVariate(batch_size=64, exact_rows=0)
    memory = config.prepare(bound, None, target, positions[0]).memory
    assert config.adapt(memory, 0.01) is memory


def test_a_mini_batch_that_grew_shrinks_where_it_is_quiet_down_to_where_it_started(problem):
    bound, _, target, positions = problem
    config = ControlVariate(batch_size=8, exact_rows=0)
    memory = config.prepare(bound, None, target, positions[0]).memory
    sizes = []
    for noise in (5.0, 0.3, 0.01, 1e-4, 1e-4, 1e-4, 0.0):
        memory = config.adapt(memory, noise)
        sizes.append(memory.batch_size)
    assert sizes == [64, 512, 512, 64, 8, 8, 8]


def test_about_a_sample_too_the_exact_gradient_is_given_up_when_the_rows_have_doubled(problem):
    """With a reservoir, the window keeps its number of rows, and its centre is always new."""
    bound, _, target, positions = problem
    config, centre = ControlVariate(batch_size=64, exact_rows=0), positions.mean(0)
    nothing = Expansion(*(np.zeros_like(part) for part in target.past.expand(bound, centre)))

    def prepared(memory, seen):
        window = replace(target.window, weight=seen / NUM_ROWS, remainder=nothing)
        return config.prepare(bound, memory, target._replace(window=window), centre)

    memory = prepared(None, 10_000).memory
    for seen in (11_000, 12_000):
        memory = prepared(config.adapt(memory, 5.0), seen).memory
    assert prepared(memory, 12_000).estimator == FullBatch() and memory.recentre_at == 22_000
    assert prepared(config.adapt(memory, 0.0), 21_999).estimator == FullBatch()
    found = prepared(memory, 22_000)
    assert found.estimator == replace(config, batch_size=512)
    assert prepared(config.adapt(found.memory, 5.0), 30_000).estimator == FullBatch()
    assert prepared(config.adapt(found.memory, 1e-4), 30_000).estimator == config


def test_the_expansion_of_the_target_has_the_hessian_of_its_log_likelihood(problem):
    bound, arrays, target, positions = problem
    expansion = ControlVariate(exact_rows=0).prepare(bound, None, target, positions[0]).expansion
    log_likelihoods = [
        lambda position, rows=rows: bound.log_likelihood(
            position, jax.tree.map(lambda leaf: leaf[rows], arrays)
        ).sum()
        for rows in (slice(0, NUM_ROWS), slice(NUM_ROWS, None))
    ]
    past, chunk = (jax.jit(jax.hessian(function))(positions[0]) for function in log_likelihoods)
    np.testing.assert_allclose(expansion.hessian, past + TEMPERATURE * chunk, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("kind", [MiniBatch, ControlVariate])
def test_a_batch_of_no_rows_is_refused(kind):
    with pytest.raises(ConfigurationError, match=r"batch_size must be an integer of at least 1; got 0\."):
        kind(batch_size=0)
