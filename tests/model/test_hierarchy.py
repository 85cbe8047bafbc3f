"""Which sites are effects, what the data say about one, and the evidence in their coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy import stats

import evidentia as ev
from evidentia.evidence.float32 import signs_of_rounding
from evidentia.model.hierarchy import effects, information, standardised

GROUPS, DEVIATION = 50, 1.0  # of what is known about each
NUM_ROWS = 3 * GROUPS


def groups(size=GROUPS):
    """An unknown mean and scale, and three rows of each group."""

    def program(y, group):
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        x = numpyro.sample("x", dist.Normal(mean, scale).expand([size]).to_event(1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(x[group], DEVIATION * 3**0.5), obs=y)

    return program


def rows_of(size=GROUPS, scale=0.2, seed=0):
    generator = np.random.default_rng(seed)
    group = np.repeat(np.arange(size), 3)
    noise = DEVIATION * 3**0.5 * generator.normal(size=len(group))
    return {"y": (scale * generator.normal(size=size)[group] + noise).astype(np.float32), "group": group}


def exact(rows):
    """By quadrature of the scale, and integrals of Gaussians for all else."""
    means = np.asarray(rows["y"], float).reshape(-1, 3)
    within = stats.norm.logpdf(means, means.mean(1, keepdims=True), 3**0.5).sum()
    within += len(means) * (0.5 * np.log(2 * np.pi * DEVIATION**2))
    logs = np.linspace(-14, 3, 4001)
    variance = np.exp(2 * logs) + DEVIATION**2
    y = means.mean(1)
    precision, total = len(y) / variance + 1 / 25, y.sum() / variance
    heights = (
        stats.halfnorm.logpdf(np.exp(logs))
        + logs
        - 0.5 * len(y) * np.log(2 * np.pi * variance)
        - 0.5 * np.log(25 * precision)
        - 0.5 * ((y**2).sum() / variance - total**2 / precision)
    )
    peak = heights.max()
    return within + peak + np.log(np.trapezoid(np.exp(heights - peak), logs))


def bound(program, **data):
    return ev.Model.from_numpyro(program).bind(data)


def test_effects_have_several_values_and_depend_on_parameters():
    def program(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        plain = numpyro.sample("plain", dist.Normal(0, 1).expand([3]).to_event(1))
        x = numpyro.sample("x", dist.StudentT(3, plain.sum(), 1.0).expand([3]).to_event(1))
        one = numpyro.sample("one", dist.Normal(0, scale))
        positive = numpyro.sample("positive", dist.LogNormal(0, scale).expand([3]).to_event(1))
        many = numpyro.sample("many", dist.Normal(0, scale), sample_shape=(3,))
        with handlers.scale(scale=0.5):
            weighted = numpyro.sample("weighted", dist.Normal(0, scale).expand([3]).to_event(1))
        total = x.sum() + one + positive.sum() + many.sum() + weighted.sum()
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(total, 1.0), obs=y)

    assert effects(bound(program, y=np.zeros(4, np.float32)).densities) == ["x"]


def test_information_is_that_of_the_rows_of_an_effect():
    rows = rows_of()
    assert information(bound(groups(), **rows), rows, ["x"]) == {"x": 1.0}
    many = {name: np.tile(values, 40) for name, values in rows.items()}  # more than are looked at
    assert information(bound(groups(), **many), many, ["x"]) == {"x": 16.0}


def test_a_likelihood_that_is_not_concave_gives_no_information():
    prior = {
        "scale": dist.HalfNormal(1.0),
        "x": lambda params: dist.Normal(jnp.zeros(2), params["scale"]).to_event(1),
    }
    model = ev.Model(prior, lambda params, y: jnp.sum(params["x"] ** 2) + 0 * y)
    rows = np.zeros(3, np.float32)
    assert information(model.bind(rows), rows, ["x"]) == {"x": 0.0}


def test_a_likelihood_without_second_derivatives_is_left_alone():
    @jax.custom_vjp
    def half_square(x):
        return 0.5 * jnp.sum(x**2)

    def slope(x, change):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return (change * jax.pure_callback(np.asarray, shape, x, vmap_method="sequential"),)

    half_square.defvjp(lambda x: (half_square(x), x), slope)
    prior = {
        "scale": dist.HalfNormal(1.0),
        "x": lambda params: dist.Normal(jnp.array([0.0, 1.0]), params["scale"]).to_event(1),
    }
    model = ev.Model(prior, lambda params, y: -half_square(params["x"] - y[:1]) + 0 * y)
    rows = np.zeros(3, np.float32)
    bound = model.bind(rows)
    assert information(bound, rows, ["x"]) is None and standardised(bound, rows) is bound


def test_models_stay_as_they_are_without_effects_or_with_symmetries_or_starts():
    def copies(y):  # x may be in any order
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        x = numpyro.sample("x", dist.Normal(0.0, scale).expand([2]).to_event(1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=y)

    y = np.linspace(-1, 1, 5).astype(np.float32)
    alike = bound(copies, y=y)
    assert effects(alike.densities) == ["x"] and standardised(alike, {"y": y}) is alike
    plain = ev.models.linear_regression(1)
    data, _ = plain.simulate(10, seed=0)
    assert standardised(plain.bind(data), data) is plain.bind(data)


def test_the_same_information_is_the_same_model():
    one, two = (standardised(bound(groups(), **rows), rows) for rows in (rows_of(seed=0), rows_of(seed=1)))
    assert one == two and one != bound(groups(), **rows_of())
    assert one.densities.information == {"x": 1.0}


def test_effects_that_float32_rounds_to_their_mean_lose_nothing():
    rows = rows_of(size=4)
    own = standardised(bound(groups(4), **rows), rows)
    positions = np.random.default_rng(0).normal([1000.0, -12, 0, 0, 0, 0], 1.0, (64, 6)).astype(np.float32)
    params = {name: values[0] for name, values in own.constrain(positions).items()}
    assert np.abs(own.unconstrain(params) - positions[0]).max() > 0.1
    assert signs_of_rounding(own, positions, np.zeros(64)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_effects_about_which_little_is_known_are_no_funnel(seed):
    """As sampled, six of six such runs were doubtful, with errors of 0.09 to 0.15 nats."""
    rows = rows_of(seed=seed)
    evidence = ev.estimate(ev.Model.from_numpyro(groups()), rows, seed=seed)
    assert evidence.verdict.word == "trusted" and evidence.standard_error < 0.08
    assert abs(evidence.log_evidence - exact(rows)) < 4 * evidence.standard_error


@pytest.mark.slow
def test_results_are_about_the_effects():
    rows = rows_of(size=4)
    evidence = ev.estimate(ev.Model.from_numpyro(groups(4)), rows)
    draws = evidence.draws(100, seed=0)
    assert set(draws) == {"mean", "scale", "x"} and draws["x"].shape == (100, 4)
    assert abs(evidence.log_evidence - exact(rows)) < 4 * evidence.standard_error
