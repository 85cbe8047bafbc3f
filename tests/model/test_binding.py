"""What a model holds itself: NumPy arrays of 64 bits, and data in defaults of its arguments."""

from functools import partial

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import evidentia as ev
from evidentia import Model
from evidentia.errors import DataError, ModelError

Y = np.random.default_rng(0).normal(0.5, 1.0, 20).astype(np.float32)
DESIGN = np.linspace(-1.0, 1.0, 20)
ORDER = np.arange(3)[::-1]


def log_likelihood(params, batch):
    slopes = params["slopes"][ORDER] * np.array([1.0, 0.5, 2.0])
    return dist.Normal(slopes.sum(), 1.0).log_prob(batch["y"])


def line(y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * DESIGN, 1.0), obs=y)


def by_default(y=Y, width=1.0):
    mean = numpyro.sample("mean", dist.Normal(0.0, width))
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def exact(design):
    """The log evidence of a slope with a standard normal prior."""
    y, design = Y.astype(float), np.broadcast_to(design, Y.shape)
    square = 1.0 + design @ design
    return -0.5 * (len(y) * np.log(2 * np.pi) + np.log(square) + y @ y - (design @ y) ** 2 / square)


@pytest.mark.slow
def test_numpy_arrays_of_64_bits_in_a_closure():
    model = Model.from_numpyro(line, pointwise=False)
    for method in (ev.Laplace(), ev.BridgeSampling(num_particles=400)):  # which use float64 elsewhere
        found = ev.estimate(model, {"y": Y}, method=method)
        assert abs(found.log_evidence - exact(DESIGN)) < max(0.02, 4 * found.standard_error)


def test_a_model_says_whether_it_runs_in_float64():
    prior = {"slopes": dist.Normal(0.0, 1.0).expand([3]).to_event(1)}
    bound = Model(prior, log_likelihood).bind({"y": Y})
    assert not bound.densities.runs_in_float64
    bound = Model({"mean": dist.Normal()}, lambda p, b: dist.Normal(p["mean"]).log_prob(b["y"])).bind(
        {"y": Y}
    )
    assert bound.densities.runs_in_float64


@pytest.mark.parametrize("program", [by_default, partial(by_default, y=Y), partial(by_default, Y)])
def test_data_may_be_defaults_of_the_arguments(program):
    model = Model.from_numpyro(program)
    assert model.name == "by_default"
    found = ev.estimate(model, method=ev.Laplace())
    assert abs(found.log_evidence - exact(1.0)) < 0.02


def test_data_that_are_given_replace_defaults():
    found = ev.estimate(Model.from_numpyro(partial(by_default, y=None)), {"y": Y}, method=ev.Laplace())
    assert abs(found.log_evidence - exact(1.0)) < 0.02


def test_a_model_that_brings_no_data_along():
    with pytest.raises(DataError, match="data is missing: the model 'line' brings none along"):
        ev.estimate(Model.from_numpyro(line))
    with pytest.raises(ModelError, match=r"no observed site: .* \(it was called without data\)"):
        ev.estimate(Model.from_numpyro(partial(by_default, y=None)))
    with pytest.raises(
        ModelError, match="groups='g' names a column of the data, but the function is called without"
    ):
        ev.estimate(Model.from_numpyro(by_default, groups="g"))
