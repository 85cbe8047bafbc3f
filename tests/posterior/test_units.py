"""Models whose rows depend on each other: all data are one observation."""

import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from scipy import integrate, stats

import evidentia as ev
from evidentia.errors import DataError, DependentRowsError, ModelError
from evidentia.posterior.units import MOST_ROWS, bound_to

NUM_ROWS = 60


@pytest.fixture(scope="module")
def series():
    """An autoregression yᵢ = 0.5 + 0.7 yᵢ₋₁ + ε, and its log evidence with two N(0, 1) priors."""
    noise, y = np.random.default_rng(0).normal(size=NUM_ROWS), np.zeros(NUM_ROWS)
    for row in range(1, NUM_ROWS):
        y[row] = 0.5 + 0.7 * y[row - 1] + noise[row]
    y = y.astype(np.float32)
    x = np.stack([np.ones(NUM_ROWS - 1), y[:-1]], axis=1)
    exact = stats.multivariate_normal(cov=np.eye(NUM_ROWS - 1) + x @ x.T).logpdf(y[1:])
    return {"y": y}, float(exact)


def autoregression(y):
    constant = numpyro.sample("constant", dist.Normal(0, 1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(constant + slope * y[:-1], 1.0), obs=y[1:])


def in_a_loop(y):
    constant = numpyro.sample("constant", dist.Normal(0, 1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))

    def step(before, now):
        numpyro.sample("y", dist.Normal(constant + slope * before, 1.0), obs=now)
        return now, None

    scan(step, y[0], y[1:])


def log_likelihood(params, data):
    y = data["y"]
    return dist.Normal(params["constant"] + params["slope"] * y[:-1], 1.0).log_prob(y[1:]).sum()


PRIOR = {"constant": dist.Normal(0, 1), "slope": dist.Normal(0, 1)}
FUNCTION = ev.Model(PRIOR, log_likelihood, name="function", pointwise=False)
MODELS = {
    "found out": ev.Model.from_numpyro(autoregression),
    "named": ev.Model.from_numpyro(autoregression, pointwise=False),
    "loop": ev.Model.from_numpyro(in_a_loop, pointwise=False),
    "function": FUNCTION,
    "pickled": pickle.loads(pickle.dumps(ev.Model.from_numpyro(autoregression, pointwise=False))),
}


@pytest.mark.slow
def test_a_function_without_arguments_holds_its_data(series):
    data, exact = series
    model = ev.Model.from_numpyro(lambda: autoregression(**data), name="closure")
    found = ev.estimate(model)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error
    assert (found.num_observations, found.model_name) == (1, "closure")
    assert np.isfinite(ev.prior_sensitivity(found, factors=(2.0,)).log_evidence).all()


@pytest.mark.slow
def test_a_model_brings_its_data(series):
    data, _ = series
    found = ev.estimate(replace(FUNCTION, data=data))
    assert found.log_evidence == ev.estimate(FUNCTION, data).log_evidence
    with pytest.raises(DataError, match="data is missing: the model 'function' brings none along"):
        ev.estimate(FUNCTION)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_evidence_of_an_autoregression_is_exact(name, series):
    data, exact = series
    found = ev.estimate(MODELS[name], data)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.1
    assert found.num_observations == NUM_ROWS
    assert list(found.trajectory.num_observations) == [NUM_ROWS]
    assert found.diagnostics["trajectory"].startswith("none over rows: ")


@pytest.mark.slow
def test_other_methods_take_all_data_as_one_observation(series):
    data, exact = series
    for method in (ev.SMC(num_particles=256), ev.Laplace()):
        found = ev.estimate(FUNCTION, data, method=method)
        assert abs(found.log_evidence - exact) < 4 * found.standard_error


@pytest.mark.slow
def test_it_compares_with_a_model_of_independent_rows(series):
    data, _ = series
    same = ev.Model.from_numpyro(independent)
    found = ev.compare({"series": ev.estimate(FUNCTION, data), "rows": ev.estimate(same, data)})
    assert found.best == "series"


def independent(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


@pytest.mark.slow
def test_a_gaussian_process_without_factor_in_float32():
    """Its covariance is singular in float32 at some draws of the prior; 64 bits decide there."""
    x = np.linspace(0, 1, 20, dtype=np.float32)

    def process(params, data):
        squares = (data["x"][:, None] - data["x"]) ** 2
        covariance = jnp.exp(-0.5 * squares / params["length"] ** 2) + 1e-7 * jnp.eye(20)
        return dist.MultivariateNormal(jnp.zeros(20), covariance).log_prob(data["y"])

    model = ev.Model({"length": dist.Uniform(0.2, 2.0)}, process, pointwise=False)
    data = {"x": x, "y": np.sin(6 * x)}
    assert np.isnan(jax.jit(process)({"length": 1.5}, data))
    found = ev.estimate(model, data, method=ev.PriorSampling())
    lengths = np.linspace(0.2, 2.0, 2001)
    squares = (x[:, None].astype(float) - x) ** 2
    heights = [
        stats.multivariate_normal(
            cov=np.exp(-0.5 * squares / length**2) + 1e-7 * np.eye(20), allow_singular=False
        ).logpdf(data["y"])
        for length in lengths
    ]
    exact = np.log(np.mean(np.exp(np.array(heights) - max(heights)))) + max(heights)
    assert abs(found.log_evidence - exact) < 4 * found.standard_error


@pytest.mark.slow
def test_a_parameter_for_each_of_a_few_rows():
    """Eight schools, against an integral over tau of the marginal density of y."""
    y = np.array([28, 8, -3, 7, -1, 1, 18, 12], np.float32)
    sigma = np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)

    def schools(y, sigma):
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfNormal(5))
        theta = numpyro.sample("theta", dist.Normal(0, 1).expand([8]).to_event(1))
        numpyro.sample("y", dist.Normal(mean + tau * theta, sigma), obs=y)

    model = ev.Model.from_numpyro(schools, pointwise=False)
    found = ev.estimate(model, {"y": y, "sigma": sigma})
    taus = np.linspace(0, 40, 4001)
    densities = [
        stats.multivariate_normal(cov=np.diag(sigma.astype(float) ** 2 + tau**2) + 25).pdf(y) for tau in taus
    ]
    exact = np.log(integrate.trapezoid(densities * stats.halfnorm(scale=5).pdf(taus), taus))
    assert abs(found.log_evidence - exact) < 4 * found.standard_error


def test_arrays_of_other_lengths_and_numbers():
    model = ev.Model(
        {"mean": dist.Normal(0, 1)},
        lambda params, data: (
            -0.5 * jnp.sum((data["y"] - params["mean"]) ** 2) * data["scale"] + data["z"].sum()
        ),
        pointwise=False,
    )
    bound = bound_to(model, {"y": np.zeros(3), "z": np.ones(2), "scale": 2.0})
    assert bound.num_rows == 1
    assert bound.data["scale"].shape == (1,) and bound.data["y"].shape == (3,)
    with pytest.raises(DataError, match="data is empty"):
        bound_to(model, {})


def test_messages(series):
    many = {"y": np.zeros(MOST_ROWS + 1, np.float32)}
    with pytest.raises(DependentRowsError, match="observed site 'y' must have one log-probability per obs"):
        ev.estimate(ev.Model.from_numpyro(autoregression), many)
    with pytest.raises(DependentRowsError, match="must have one log-probability per observation"):
        ev.estimate(ev.Model.from_numpyro(autoregression, pointwise=True), {"y": np.zeros(9)})
    with pytest.raises(ModelError, match=r"must return one number for all data; got shape \(8,\)"):
        ev.estimate(
            ev.Model(PRIOR, lambda params, data: params["slope"] * data["y"], pointwise=False),
            {"y": np.zeros(8)},
        )
    with pytest.raises(
        ModelError, match="rows of 'function' depend on each other .* only evidentia.estimate"
    ):
        ev.Online(FUNCTION).update({"y": np.zeros(8)})
    with pytest.raises(ModelError, match="the model has no observed site"):
        ev.estimate(
            ev.Model.from_numpyro(lambda y: numpyro.sample("a", dist.Normal()), pointwise=False), {"y": [1.0]}
        )
    with pytest.raises(ModelError, match=r"control_flow .* loops in a model of all data at once"):
        ev.estimate(ev.Model.from_numpyro(in_a_loop), series[0])


@pytest.mark.slow
def test_a_likelihood_without_forward_mode(series):
    @jax.custom_vjp
    def square(x):
        return x**2

    # As of a solver: the gradient needs the function, too.
    square.defvjp(lambda x: (x**2, x), lambda x, slope: (2 * x * slope + 0 * square(x),))
    model = ev.Model(
        {"mean": dist.Normal(0, 1)},
        lambda params, data: -0.5 * square(data["y"] - params["mean"]).sum(),
        pointwise=False,
    )
    plain = replace(model, log_likelihood=lambda p, data: -0.5 * ((data["y"] - p["mean"]) ** 2).sum())
    one, other = (ev.estimate(each, series[0], method=ev.Laplace()) for each in (model, plain))
    assert abs(one.log_evidence - other.log_evidence) < 0.01


def test_all_data_as_one_must_not_be_empty():
    model = ev.Model({"m": dist.Normal(0, 1)}, lambda params, data: params["m"], pointwise=False)
    with pytest.raises(DataError, match="at least one observation; got 0"):
        bound_to(model, {"y": np.zeros(0)})
