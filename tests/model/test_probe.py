"""Equal models are one program; models that differ in anything that they compute are not equal."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev

ROWS = {"y": np.linspace(-1, 1, 60, dtype=np.float32), "group": np.arange(60, dtype=np.int32)}
TABLE = np.random.default_rng(0).normal(size=5000).astype(np.float32)
OTHER = np.where(np.arange(5000) == 4000, 9.0, TABLE).astype(np.float32)  # a row that no probe visits


def bound(log_likelihood=None, prior=None, **more):
    def normal(params, batch):
        return dist.Normal(jnp.sum(params["m"]), 1.0).log_prob(batch["y"])

    return ev.Model(prior or {"m": dist.Normal(0, 1)}, log_likelihood or normal, **more).bind(ROWS)


def looked_up(table):
    return lambda params, batch: dist.Normal(params["m"] * jnp.asarray(table)[batch["group"]], 1.0).log_prob(
        batch["y"]
    )


def shifted(shift):
    return lambda params, batch: dist.Normal(params["m"] + shift, 1.0).log_prob(batch["y"])


def noisy(seed):
    key = jax.random.key(seed)

    def log_likelihood(params, batch):
        mean = params["m"] + jax.random.normal(jax.random.fold_in(key, 3))
        return dist.Normal(mean, 1.0).log_prob(batch["y"])

    return log_likelihood


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: bound(looked_up(TABLE)), lambda: bound(looked_up(OTHER))),
        (lambda: bound(looked_up(jnp.asarray(TABLE))), lambda: bound(looked_up(jnp.asarray(OTHER)))),
        (lambda: bound(shifted(0.5)), lambda: bound(shifted(0.25))),
        (lambda: bound(noisy(0)), lambda: bound(noisy(1))),
        (lambda: bound(), lambda: bound(prior={"m": dist.Normal(0, 2)})),
        (
            lambda: bound(prior={"m": dist.Normal(TABLE[:500], 1).to_event(1)}),
            lambda: bound(prior={"m": dist.Normal(-TABLE[:500], 1).to_event(1)}),
        ),
    ],
    ids=["array", "device array", "number", "random key", "prior", "array in the prior"],
)
def test_models_are_equal_if_they_compute_the_same(one, other):
    assert one() == one()
    assert hash(one()) == hash(one())
    assert one() != other()


def test_other_data_of_the_same_shape_make_no_other_model():
    """A prior is drawn with rows of the data, on which only code for the observed site depends."""

    def program(x, y=None):
        slopes = numpyro.sample("b", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Normal(jnp.tanh(x @ slopes), 1.0), obs=y)

    def bound_to(seed):
        x = np.random.default_rng(seed).normal(size=(40, 3)).astype(np.float32)
        return ev.Model.from_numpyro(program).bind({"x": x, "y": x[:, 0]})

    assert bound_to(0) == bound_to(1)


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="JAX itself fails with this setting")
def test_the_same_where_jax_passes_constants_as_arguments():
    """Then they are not in the program's text; JAX reads the setting when it is imported."""
    words = [sys.executable, "-m", "pytest", "-q", __file__, "-k", "compute_the_same"]
    environment = {**os.environ, "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def regression(scale):
    def model(y, group):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)

    return model


@pytest.mark.slow
def test_an_equal_model_compiles_nothing_and_another_has_its_own_evidence():
    """The same function wrapped again, a function written again, and one with another constant."""
    function = regression(1.0)
    first = ev.estimate(ev.Model.from_numpyro(function), ROWS)
    compiled = []

    def listen(event, seconds, **_):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for equal in (function, regression(1.0)):
            assert ev.estimate(ev.Model.from_numpyro(equal), ROWS).log_evidence == first.log_evidence
        assert compiled == []
        other = ev.estimate(ev.Model.from_numpyro(regression(2.0)), ROWS)
        assert compiled != []  # the listener works
    finally:
        jax.monitoring.clear_event_listeners()
    covariance = 4.0 * np.eye(60) + 1.0
    exact = dist.MultivariateNormal(jnp.zeros(60), covariance).log_prob(ROWS["y"])
    assert other.log_evidence == pytest.approx(float(exact), abs=0.05)
