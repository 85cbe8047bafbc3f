"""Which parameters a log-likelihood depends on, whatever its values are."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from evidentia import Model
from evidentia.errors import ModelError
from evidentia.model.bound import BoundModel

DATA = {"y": np.array([0.5, -1.0, 2.0], np.float32)}
PRIOR = {"mean": dist.Normal(0.0, 1.0), "scale": dist.HalfNormal(1.0)}


def normal(mean, scale, batch):
    return dist.Normal(mean, scale).log_prob(batch["y"])


def bind(log_likelihood, prior=PRIOR) -> BoundModel:
    return Model(prior, log_likelihood).bind(DATA)


@pytest.mark.parametrize(
    "log_likelihood",
    [
        lambda p, b: normal(0.0, 1.0, b),
        lambda p, b: jnp.full(3 if b["y"].shape == (3,) else b["y"].shape, -1.0),
        lambda p, b: normal(0 * p["mean"], 1.0, b) + 0.0 * p["scale"],
        lambda p, b: normal(jnp.zeros_like(b["y"]) * p["mean"], 1.0, b),
        jax.jit(lambda p, b: normal(0.0, 1.0, b)),
    ],
)
def test_a_log_likelihood_that_uses_no_parameter_is_one(log_likelihood):
    assert bind(log_likelihood).is_constant


@pytest.mark.parametrize(
    "log_likelihood",
    [
        lambda p, b: normal(p["mean"], p["scale"], b),
        lambda p, b: jax.jit(normal)(p["mean"], p["scale"], b),
        lambda p, b: jax.lax.cond(
            p["mean"] > 0, lambda: normal(0.0, p["scale"], b), lambda: normal(0.0, 1.0, b)
        ),
        lambda p, b: jax.lax.map(lambda y: normal(p["mean"], p["scale"], {"y": y}), b["y"]),
        lambda p, b: normal(p["mean"], p["scale"], b) - 1e9,
    ],
)
def test_a_log_likelihood_that_uses_parameters_is_not_constant(log_likelihood):
    assert not bind(log_likelihood).is_constant


def test_one_unused_parameter_among_others_is_refused():
    with pytest.raises(ModelError, match="prior has 'mean', which log_likelihood does not use"):
        bind(lambda p, b: normal(0.0 * p["mean"], p["scale"], b))


def test_without_a_prior_there_are_no_parameters():
    bound = bind(lambda p, b: normal(0.0, 1.0, b), {})
    assert bound.is_constant
    assert (bound.num_parameters, bound.parameter_shapes) == (0, {})
    assert bound.sample_prior(jax.random.key(0), 5).shape == (5, 0)
