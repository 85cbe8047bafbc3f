"""The annealed path: what it refuses, and the drift of its moves."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import special

import evidentia as ev
from evidentia.evidence.population.moves import PathSettings
from evidentia.evidence.population.particles import Population
from evidentia.evidence.population.path import anneal, drift_of, end_of
from evidentia.kernels import HMC
from evidentia.posterior.rows import Window
from evidentia.system.compilation import in_float64


def test_the_reverse_path_refuses_a_particle_that_was_moved_out_of_the_support():
    def log_likelihood(params, batch):
        return jnp.where(batch["y"] > params["start"], 0.0, -jnp.inf)

    arrays = {"y": jnp.asarray([1.0, 2.0])}
    bound = ev.Model({"start": dist.Normal(0, 1)}, log_likelihood).bind(arrays)
    positions = jnp.asarray([[0.0], [0.5], [3.0]])
    population = Population(jax.random.key(0), positions, np.zeros(3))
    with pytest.raises(ev.EstimationError, match=r"rows 0 to 1: a move of the reverse path .* kernels\.HMC"):
        end_of(
            anneal(
                PathSettings(0.5, HMC(), resampling="systematic"),
                bound,
                population,
                Window(arrays, 0, 0),
                Window(arrays, 0, 2),
                is_reverse=True,
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "num_steps"),
    [(ev.SGAIS(num_particles=16, refresh=False), 55), (ev.SMC(num_particles=8, target_ess=0.91), 101)],
)
def test_a_long_path_says_so_early(method, num_steps):
    model = ev.models.linear_regression(num_features=1)
    data, _ = model.simulate(100, 0)
    far = {**data, "y": data["y"] + np.float32(100.0)}
    with pytest.warns(
        ev.EvidenceWarning, match=f"the path .* of rows 0 to 99 is long: after {num_steps} steps"
    ):
        ev.estimate(model, far, method=method)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_data_far_from_the_prior_are_reached_by_a_shortcut(offset):
    # Step by step it would take minutes or hours; sums in float32 would be 0.02 or 10⁴ nats off.
    model = ev.models.linear_regression(num_features=2)
    data, _ = model.simulate(300, 0)
    far = {**data, "y": data["y"] + np.float32(offset)}
    with pytest.warns(ev.EvidenceWarning, match="is long: after 55 .* drawn at the modes above some"):
        evidence = ev.estimate(model, far)
    error = evidence.log_evidence - model.exact_log_evidence(far)
    assert abs(error) < 4 * evidence.standard_error < 0.1
    assert evidence.trajectory.num_annealing_steps.sum() < 100


@pytest.mark.slow
def test_a_shortcut_finds_both_of_two_modes():
    # Of b little more than its square is known; the cube makes the modes differ.
    def log_likelihood(params, batch):
        mean = params["b"] ** 2 + 1e-8 * params["b"] ** 3
        return dist.Normal(mean, 1.0).log_prob(batch["y"])

    model = ev.Model({"b": dist.Normal(0.0, 1.0)}, log_likelihood)
    y = np.random.default_rng(0).normal(1e4, 1.0, 100).astype(np.float32)
    with pytest.warns(ev.EvidenceWarning, match="drawn at the modes above some"):
        found = ev.estimate(model, {"y": y})
    with in_float64():
        grid = jnp.asarray([-1.0, 1.0])[:, None] * jnp.linspace(99.99, 100.01, 200_001)
        heights = jax.lax.map(
            lambda b: log_likelihood({"b": b}, {"y": jnp.asarray(y, jnp.float64)}).sum() - 0.5 * b**2,
            grid.ravel(),
            batch_size=10_000,
        )
        exact = float(jax.nn.logsumexp(heights)) + np.log(1e-7) - 0.5 * np.log(2 * np.pi)
    assert abs(found.log_evidence - exact) < max(0.05, 4 * found.standard_error)


@pytest.mark.slow
def test_a_stuck_path_searches_for_modes():
    """Modes far apart in 22 dimensions, where moves have the wrong scale and few jumps succeed.

    y ~ N(m + x·b, 1), where m is a² + a/20 in one half of the rows and c² + (3c + 10a)/100 in the
    other. Given a and c, b can be integrated out.
    """

    def means(a, c):
        return a**2 + 0.05 * a, c**2 + 0.03 * c + 0.1 * a

    def log_likelihood(params, batch):
        first, second = means(params["a"], params["c"])
        mean = jnp.where(batch["is_first"], first, second) + batch["x"] @ params["b"]
        return dist.Normal(mean, 1.0).log_prob(batch["y"])

    generator, count, size = np.random.default_rng(0), 200, 20
    x, is_first = generator.standard_normal((count, size)).astype(np.float32), np.arange(count) % 2 == 0
    at = -2.4, -4.0
    y = np.where(is_first, *means(*at)) + x.sum(1) + generator.standard_normal(count)
    data = {"x": x, "is_first": is_first, "y": y.astype(np.float32)}
    prior = {
        "a": dist.Normal(0, 3),
        "c": dist.Normal(0, 3),
        "b": dist.Normal(0, 1).expand([size]).to_event(1),
    }
    found = ev.estimate(ev.Model(prior, log_likelihood), data)

    wide = x.astype(np.float64)
    inverse = np.linalg.inv(np.eye(count) + wide @ wide.T)
    halves = np.stack([is_first, ~is_first], 1).astype(np.float64)
    around = np.linspace(-0.6, 0.6, 1201)
    heights = []
    for sign_a in (-1, 1):
        for sign_c in (-1, 1):
            a, c = np.meshgrid(sign_a * 2.4 + around, sign_c * 4.0 + around)
            places = np.stack([each.ravel() for each in means(a, c)], 1)
            squares = np.einsum("ij,jk,ik->i", places, halves.T @ inverse @ halves, places)
            squares += data["y"] @ inverse @ data["y"] - 2 * places @ (halves.T @ inverse @ data["y"])
            heights.append(-0.5 * squares - 0.5 * (a.ravel() ** 2 + c.ravel() ** 2) / 9)
    constant = 0.5 * np.linalg.slogdet(inverse)[1] - 0.5 * count * np.log(2 * np.pi) - np.log(2 * np.pi * 9)
    exact = special.logsumexp(np.concatenate(heights)) + 2 * np.log(around[1] - around[0]) + constant
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1


def chains_of(values, families):
    """A population of chains, whose particles have these values as increments."""
    values = np.asarray(values, float)
    ancestors = np.asarray(families)[None]
    return Population(
        jax.random.key(0), jnp.zeros((values.size, 1)), np.zeros(values.size), ancestors=ancestors
    )


def test_drift_is_the_change_from_the_starts_of_chains_with_families_counted_as_one():
    values = np.array([[0.0, 1.0, 3.0], [1.0, 1.0, 1.0], [0.0, 4.0, 4.0], [-np.inf, 2.0, 2.0]])
    # Changes of 2, 0, 4 and none, for where the start is impossible; their mean is 1.5.
    mean, variance = drift_of(chains_of(values, [0, 0, 1, 2]), values.ravel(), 3)
    assert mean == 1.5
    assert variance == ((0.5 - 1.5) ** 2 + 2.5**2 + 1.5**2) / 16


def test_without_chains_or_with_weights_there_is_no_drift():
    population, values = chains_of(np.zeros((2, 2)), [0, 1]), np.arange(4.0)
    assert drift_of(population, values, 1) == (0.0, 0.0)
    assert drift_of(population._replace(ancestors=()), values, 2) == (0.0, 0.0)
    assert drift_of(population._replace(log_weights=np.arange(4.0)), values, 2) == (0.0, 0.0)
