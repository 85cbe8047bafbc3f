"""What the evidence of a model must not depend on, within its error: order, form and units."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import evidentia as ev

Y = np.random.default_rng(0).normal(0.5, 1.5, 20).astype(np.float32)
PRIOR = {"mean": dist.Normal(0.0, 2.0), "scale": dist.HalfNormal(2.0)}


def log_likelihood(params, batch):
    return dist.Normal(params["mean"], params["scale"]).log_prob(batch["y"])


@pytest.fixture(scope="module")
def plain():
    """The evidence of the model as it stands."""
    return ev.estimate(ev.Model(prior=PRIOR, log_likelihood=log_likelihood), {"y": Y})


def assert_same(first, second, shift=0.0):
    """The log evidences differ by the shift, within four joint standard errors."""
    error = 4 * np.hypot(first.standard_error, second.standard_error)
    assert second.log_evidence - first.log_evidence == pytest.approx(shift, abs=error)


def test_the_order_of_rows(plain):
    model = ev.Model(prior=PRIOR, log_likelihood=log_likelihood)
    for order in (np.argsort(Y), np.argsort(-Y)):
        assert_same(plain, ev.estimate(model, {"y": Y[order]}))
        assert_same(plain, ev.estimate(model, {"y": Y[order]}, in_order=True))


def test_a_constant_in_the_log_likelihood_is_added_for_each_row(plain):
    model = ev.Model(prior=PRIOR, log_likelihood=lambda params, batch: log_likelihood(params, batch) + 3.0)
    assert_same(plain, ev.estimate(model, {"y": Y}), 3.0 * len(Y))


def test_units(plain):
    """Everything ten times as large: each row has a density a tenth as large."""
    prior = {"mean": dist.Normal(0.0, 20.0), "scale": dist.HalfNormal(20.0)}
    model = ev.Model(prior=prior, log_likelihood=log_likelihood)
    assert_same(plain, ev.estimate(model, {"y": 10 * Y}), -len(Y) * np.log(10))


@pytest.mark.slow
def test_another_parametrisation(plain):
    """The mean in units of two, and the scale by its quantile."""
    prior = {"standard": dist.Normal(0.0, 1.0), "quantile": dist.Uniform(0.0, 1.0)}

    def other(params, batch):
        scale = 2.0 * jax.scipy.stats.norm.ppf(0.5 + 0.5 * params["quantile"])
        return dist.Normal(2.0 * params["standard"], scale).log_prob(batch["y"])

    assert_same(plain, ev.estimate(ev.Model(prior=prior, log_likelihood=other), {"y": Y}))


@pytest.mark.slow
def test_rows_in_two_parts(plain):
    """p(D₁, D₂) = p(D₁) p(D₂ | D₁), whose second factor is the mean over the posterior of D₁."""
    model = ev.Model(prior=PRIOR, log_likelihood=log_likelihood)
    first = ev.estimate(model, {"y": Y[:12]}, method=ev.SGAIS(num_particles=4096))
    params = {name: jnp.asarray(values) for name, values in first.weighted.items()}
    rows = jax.vmap(lambda one: log_likelihood(one, {"y": Y[12:]}).sum())(params)
    log_weights = np.asarray(first.weighted.log_weights, float) + np.asarray(rows, float)
    second = np.logaddexp.reduce(log_weights)
    assert first.log_evidence + second == pytest.approx(plain.log_evidence, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 8])
def test_a_vector_is_its_scalars(count):
    """Parameters that enter through their sum are interchangeable in a vector only."""
    names = [f"x{number}" for number in range(count)]
    vector = ev.Model(
        prior={"x": dist.Normal(0.0, 1.0).expand([count]).to_event(1)},
        log_likelihood=lambda params, batch: dist.Normal(params["x"].sum(), 1.0).log_prob(batch["y"]),
    )
    scalars = ev.Model(
        prior={name: dist.Normal(0.0, 1.0) for name in names},
        log_likelihood=lambda params, batch: dist.Normal(sum(params[name] for name in names), 1.0).log_prob(
            batch["y"]
        ),
    )
    assert_same(ev.estimate(scalars, {"y": Y}), ev.estimate(vector, {"y": Y}))


@pytest.mark.slow
def test_labels_of_categories():
    def model(concentration):
        return ev.Model(
            prior={"shares": dist.Dirichlet(jnp.asarray(concentration))},
            log_likelihood=lambda params, batch: jnp.log(params["shares"][batch["y"]]),
        )

    labels = np.random.default_rng(1).choice(3, 25, p=[0.6, 0.3, 0.1]).astype(np.int32)
    renamed = np.array([2, 0, 1], np.int32)[labels]
    assert_same(
        ev.estimate(model([1.0, 2.0, 3.0]), {"y": labels}),
        ev.estimate(model([2.0, 3.0, 1.0]), {"y": renamed}),
    )
