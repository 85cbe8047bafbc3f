"""Coordinates of effects: the same prior for any of them, and exact where it is narrow."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import evidentia as ev
from evidentia.model.recentred import FAMILIES, Recentred

INFORMATION = [0.0, 0.25, 16.0]


def of_program(program, information, centre=0.0, **data):
    plain = ev.Model.from_numpyro(program).bind(data).densities
    shape = plain.sites["x"].shape
    own = Recentred(np.full(shape, information, np.float32), np.full(shape, centre, np.float32))
    return plain, plain._replace(recentred={"x": own})


def hierarchy(family):
    def program(y):
        mean, scale = numpyro.sample("mean", dist.Normal(1, 2)), numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("groups", 3):
            x = numpyro.sample("x", family(mean, scale))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=y)

    return program


def student(loc, scale):
    return dist.StudentT(3.0, loc, scale)


@pytest.mark.parametrize("family", [*(each for each in FAMILIES if each is not dist.StudentT), student])
def test_the_density_is_that_of_the_effects_times_the_jacobian(family):
    """log p(u) = log p(x(u)) + log |det ∂x/∂u|, with the determinant by differentiation."""
    plain, own = of_program(hierarchy(family), 0.25, -3.0, y=np.zeros(4, np.float32))

    @jax.jit
    def changed(position):
        return plain.unplace(own.place(position)[0])

    for position in np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32):
        log_det = np.linalg.slogdet(jax.jacobian(changed)(position))[1]
        found = sum(own.place(position)[1].values())
        expected = sum(plain.place(changed(position))[1].values()) + log_det
        assert found == pytest.approx(float(expected), abs=1e-3)


@pytest.mark.parametrize("information", INFORMATION)
def test_draws_and_effects_lead_to_their_coordinates(information):
    _, own = of_program(hierarchy(dist.Normal), information, 2.0, y=np.zeros(4, np.float32))
    draws = jax.vmap(own.draw)(jax.random.split(jax.random.key(0), 2000))
    params = jax.vmap(lambda draw: own.place(draw)[0])(draws)
    np.testing.assert_allclose(jax.vmap(own.unplace)(params), draws, rtol=0, atol=2e-3)
    standard = (params["x"] - params["mean"][:, None]) / params["scale"][:, None]
    assert stats.kstest(np.ravel(standard), "norm").pvalue > 1e-3


def test_the_neck_is_exact():
    """Deviations of 10⁻²⁰ about a mean of 1, which float32 adds to nothing."""
    _, own = of_program(hierarchy(dist.Normal), 16.0, y=np.zeros(4, np.float32))
    values = np.array([0.5, -1.0, 2.0])
    position = jnp.array([1.0, np.log(1e-20), *values], jnp.float32)
    params, terms = own.place(position)
    assert float(params["scale"]) == pytest.approx(1e-20, rel=1e-4)
    assert float(terms["x"]) == pytest.approx(stats.norm.logpdf(values).sum(), abs=1e-5)


def test_coordinates_are_normal_given_the_others_if_the_likelihood_is():
    """Of N(c; x, 1/I) times N(x; μ, τ), whatever μ and τ are."""
    _, own = of_program(hierarchy(dist.Normal), 16.0, 2.0, y=np.zeros(4, np.float32))

    def log_posterior(position):
        params, terms = own.place(position)
        return terms["x"] - 0.5 * 16.0 * jnp.sum((params["x"] - 2.0) ** 2)

    places = np.random.default_rng(0).normal([0.0, -1, 0, 0, 0], [3.0, 2, 1, 1, 1], (5, 5)).astype(np.float32)
    slopes = jax.vmap(jax.grad(log_posterior))(places)
    np.testing.assert_allclose(slopes[:, 2:], -places[:, 2:], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("shape", ["plate", "expand", "vector"])
def test_any_way_of_writing_many(shape):
    def program(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        if shape == "plate":
            with numpyro.plate("columns", 2), numpyro.plate("rows of them", 3):
                x = numpyro.sample("x", dist.Normal(0.0, scale))
        elif shape == "expand":
            x = numpyro.sample("x", dist.Normal(0.0, scale).expand([3, 2]).to_event(2))
        else:
            x = numpyro.sample("x", dist.Normal(jnp.zeros((3, 2)), scale).to_event(1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=y)

    plain, own = of_program(program, 1.0, y=np.zeros(4, np.float32))
    position = jnp.arange(7.0) / 7
    params, terms = own.place(position)
    assert params["x"].shape == (3, 2)
    assert float(terms["x"]) == pytest.approx(
        stats.norm.logpdf(position[1:], scale=np.hypot(1, 1)).sum(), abs=1e-4
    )
    np.testing.assert_allclose(own.unplace(params), position, atol=1e-5)
    assert float(plain.log_prior_of(params)) == pytest.approx(float(own.log_prior_of(params)), abs=1e-5)
