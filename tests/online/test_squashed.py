"""Rows of a stream as weighted nodes: where they are used, what their tests find, checkpoints."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia.errors import CheckpointError
from evidentia.evidence.population.particles import Population
from evidentia.online import past as pasts
from evidentia.online import reservoir as reservoirs
from evidentia.posterior.gradients import FullBatch, MiniBatch
from evidentia.posterior.rows import Window
from evidentia.posterior.target import log_target, posterior

NUM_ROWS, CAPACITY = 6000, 1000
MIXTURE = ev.models.gaussian_mixture(3, num_features=2)


def waves(params, batch):
    """A likelihood that changes its sign within any cell."""
    return jnp.cos(5000 * (batch["y"] - params["place"]))


def absolute(params, batch):
    """A likelihood with a kink at the parameter."""
    return -20 * jnp.abs(batch["y"] - params["place"])


def of_one_place(log_likelihood):
    return ev.Model(prior={"place": dist.Normal(0, 1)}, log_likelihood=log_likelihood, name="one place")


def mixture_particles(bound, data, count=64):
    """Particles with two components near the truth, and a third that is nearly empty, anywhere."""
    generator, found = np.random.default_rng(5), []
    for _ in range(count):
        extra = generator.uniform(0.0005, 0.005)
        params = {
            "weights": np.array([0.4 - extra / 2, 0.6 - extra / 2, extra]),
            "variances": np.concatenate([[[0.8, 0.8], [1.2, 1.2]], generator.uniform(0.2, 3, (1, 2))]),
            "means": np.concatenate([[[-1.2, -1.2], [1.0, 0.8]], generator.normal(0, 2, (1, 2))]),
        }
        params["means"][:2] += 0.02 * generator.standard_normal((2, 2))
        found.append(bound.unconstrain({name: jnp.asarray(one, jnp.float32) for name, one in params.items()}))
    return jnp.stack(found)


def mixture_rows():
    generator = np.random.default_rng(0)
    is_first = (generator.random(NUM_ROWS) < 0.4)[:, None]
    places = np.where(is_first, [-1.2, -1.2], [1.0, 0.8])
    return (places + np.where(is_first, 0.9, 1.1) * generator.standard_normal((NUM_ROWS, 2))).astype(
        np.float32
    )


def squashed_of(online):
    """The nodes of a stream, if it has any."""
    past = online.state.past
    assert isinstance(past, pasts.StreamPast)
    return past.squashed


def followed(bound, data, positions):
    """The past after the stream, in chunks of any size."""
    past, generator = pasts.StreamPast(reservoirs.empty(data, CAPACITY, 0)), np.random.default_rng(1)
    population = Population(jax.random.key(0), positions, np.zeros(len(positions)))
    while (first := past.num_observations) < len(data["y"]):
        batch = {"y": data["y"][first : first + generator.integers(1, 600)]}
        arriving = past.arriving(batch)
        while arriving.num_taken < len(batch["y"]):
            arriving, chunk = arriving.stage(len(data["y"]))
            assert chunk.arrays is arriving.window.arrays and chunk.start == arriving.window.stop
            arriving = arriving.absorb(bound, chunk, population)
        past = arriving.past
    return past


@pytest.fixture(scope="module", params=["random", "sorted"])
def stream(request):
    y = mixture_rows()
    data = {"y": y[np.argsort(y[:, 0])] if request.param == "sorted" else y}
    bound = MIXTURE.bind(data)
    positions = mixture_particles(bound, data)
    return bound, data, positions, followed(bound, data, positions)


def test_nodes_have_the_likelihood_of_all_rows_within_the_standard_error(stream):
    bound, data, positions, past = stream
    assert past.squashed is not None and past.window.size < NUM_ROWS
    assert past.window.num_observations == NUM_ROWS
    everything = np.asarray(positions, np.float64)
    exact = Window({"y": jnp.asarray(data["y"])}, 0, NUM_ROWS).exact_log_likelihoods(bound, everything)
    errors = past.window.exact_log_likelihoods(bound, everything) - exact
    of_evidence = np.log(np.mean(np.exp(errors)))
    assert abs(of_evidence) < 4 * past.standard_error < 4 * 0.1
    assert np.sqrt(np.mean(errors**2)) < 0.1
    expanded = past.expanded.exact_log_likelihoods(bound, everything) - exact
    assert np.abs(expanded).max() > 10
    deviations, offset = past.window.log_likelihoods(bound, positions)
    np.testing.assert_allclose(deviations + offset - exact, errors, atol=5e-3)


def test_gradients_are_those_of_the_weighted_nodes(stream):
    bound, _, positions, past = stream
    window = past.window
    exact = window.expand(bound, positions[0]).gradient
    slope = jax.grad(log_target(bound, posterior(window)))(positions[0]) - jax.grad(bound.log_prior)(
        positions[0]
    )
    np.testing.assert_allclose(slope, exact, rtol=1e-3, atol=0.05)
    many = jnp.tile(positions[:1], (4000, 1))
    estimator = MiniBatch(batch_size=200)
    noisy = estimator.function(bound, posterior(window), None)(jax.random.key(0), many)
    full = FullBatch().function(bound, posterior(window), None)(jax.random.key(0), positions[:1])
    spread = 5 * np.std(noisy, axis=0) / np.sqrt(len(many))
    assert np.all(np.abs(np.mean(noisy, axis=0) - full[0]) < spread + 1e-2)


def test_samples_are_rows_that_are_kept(stream):
    _, data, _, past = stream
    sample = past.window.sample(50)
    assert sample.size == 50 and sample.copies is None
    rows = {tuple(row) for row in data["y"]}
    assert all(tuple(row) in rows for row in np.asarray(sample.arrays["y"][sample.start : sample.stop]))
    assert past.window.near.size == CAPACITY


@pytest.mark.parametrize("log_likelihood", [waves, absolute])
def test_the_test_at_the_particles_rejects_nodes(log_likelihood, monkeypatch):
    """With one column and many nodes, cells follow a kink; here they are kept large."""
    if log_likelihood is absolute:
        monkeypatch.setattr("evidentia.online.cells.LARGEST", 1.0)
    y = np.random.default_rng(0).standard_normal(3 * NUM_ROWS).astype(np.float32)
    data = {"y": y}
    bound = of_one_place(log_likelihood).bind(data)
    positions = jnp.asarray(np.random.default_rng(1).normal(0, 0.3, (64, 1)), jnp.float32)
    past = followed(bound, data, positions)
    assert past.squashed is None and past.sums is not None
    assert past.window.remainder is not None


@pytest.mark.slow
def test_streams_that_the_expansion_describes_have_no_nodes():
    model = ev.models.linear_regression(num_features=1)
    x = np.random.default_rng(0).standard_normal((2000, 1)).astype(np.float32)
    data = {"x": x, "y": 2 * x[:, 0] + np.cos(50 * x[:, 0])}
    online = ev.Online(model, ev.SGAIS(num_particles=64), reservoir_size=1000)
    online.update(data)
    assert squashed_of(online) is None


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A saved stream of one component, by a mixture of two, and rows that follow."""
    model = ev.models.gaussian_mixture(2, num_features=1)
    y = np.random.default_rng(3).normal(0, 1, (1600, 1)).astype(np.float32)
    online = ev.Online(model, ev.SGAIS(num_particles=64), reservoir_size=500)
    for first in range(0, 1400, 200):
        online.update({"y": y[first : first + 200]})
    folder = tmp_path_factory.mktemp("squashed")
    online.save(folder)
    return model, online, folder, {"y": y[1400:]}


@pytest.mark.slow
def test_a_saved_stream_goes_on_bit_for_bit(small):
    model, online, folder, batch = small
    assert squashed_of(online) is not None
    loaded = ev.Online.load(folder, model)
    before, after = online.state, online.update(batch)._replace(seconds=0.0)
    assert loaded.update(batch)._replace(seconds=0.0) == after
    online.restore(before)


def test_damaged_nodes_are_rejected(small):
    model, online, _, _ = small
    content, state = online.packed(), online.state
    squashed = state.past.squashed
    wrong = squashed._replace(places=squashed.places + len(squashed.cells.child))
    past = state.past._replace(squashed=wrong)
    with pytest.raises(CheckpointError, match="past"):
        ev.Online.unpacked({**content, "state": state._replace(past=past)}, model)


@pytest.mark.slow
def test_a_component_too_many_is_within_the_standard_error():
    model = ev.models.gaussian_mixture(3, num_features=1)
    generator = np.random.default_rng(7)
    places = np.where(generator.random((10_000, 1)) < 0.3, -2.0, 1.0)
    data = {"y": (places + generator.standard_normal((10_000, 1))).astype(np.float32)}
    online = ev.Online(model, reservoir_size=1000)
    for first in range(0, 10_000, 500):
        online.update({"y": data["y"][first : first + 500]})
    online.redraw()
    assert squashed_of(online) is not None
    found, exact = online.evidence(), ev.estimate(model, data)
    assert found.standard_error < 0.3
    joint = np.hypot(found.standard_error, exact.standard_error)
    assert abs(found.log_evidence - exact.log_evidence) < 3.5 * joint
