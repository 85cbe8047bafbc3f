"""Prior sensitivity: a normal mean, whose evidence under every width is known exactly."""

import pickle
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.model.width import widened

Y = np.random.default_rng(0).normal(0.7, 1.0, 30)
DATA = {"y": Y.astype(np.float32)}


def exact(width: float) -> float:
    """The log evidence of y ~ N(mean, 1), mean ~ N(0, width²)."""
    covariance: Any = np.eye(len(Y)) + width**2
    return multivariate_normal(np.zeros(len(Y)), covariance).logpdf(Y)


def log_likelihood(params, batch):
    return dist.Normal(params["mean"], 1.0).log_prob(batch["y"])


def numpyro_mean(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


MODELS = {
    "prior and likelihood": ev.Model({"mean": dist.Normal(0, 1)}, log_likelihood),
    "numpyro": ev.Model.from_numpyro(numpyro_mean),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_reweighted_draws_give_the_exact_change(name):
    evidence = ev.estimate(MODELS[name], DATA)
    found = ev.prior_sensitivity(evidence, factors=(0.5, 2, 4))
    np.testing.assert_array_equal(found.factor, [0.5, 1, 2, 4])
    wanted = [exact(factor) - exact(1) for factor in found.factor]
    assert not found.is_new_run.any()
    assert np.all(np.abs(found.change - wanted) <= 4 * found.change_error + 1e-6)
    assert np.all(found.change_error < 0.05)
    np.testing.assert_allclose(found.log_evidence, evidence.log_evidence + found.change)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_new_run_where_the_draws_do_not_reach(name):
    """With a prior of deviation 0.02, the posterior under one of 20 is elsewhere."""
    narrow = ev.prior_sensitivity(ev.estimate(MODELS[name], DATA), factors=(0.02,))
    assert narrow.is_new_run[0] and np.isnan(narrow.pareto_shape[0])
    assert abs(narrow.change[0] - (exact(0.02) - exact(1))) <= 4 * narrow.change_error[0]
    assert "a new run" in repr(narrow)


@pytest.mark.slow
def test_widths_of_other_parameters_stay():
    def scaled(params, batch):
        return dist.Normal(params["mean"], params["scale"]).log_prob(batch["y"])

    prior = {
        "location": dist.Normal(0, 1),
        "mean": lambda params: dist.Normal(params["location"], 1.0),
        "scale": dist.Uniform(0.5, 2.0),
    }
    evidence = ev.estimate(ev.Model(prior, scaled), DATA)
    assert ev.prior_sensitivity(evidence).parameters == ("location",)
    with pytest.raises(
        ev.ConfigurationError, match=r"parameters .*width of their own \(location\); got scale"
    ):
        ev.prior_sensitivity(evidence, parameters=["scale"])


@pytest.mark.slow
def test_online_reweights_and_says_that_it_cannot_run_anew():
    online = ev.Online(MODELS["numpyro"])
    online.update(DATA)
    result = online.result()
    found = ev.prior_sensitivity(result, factors=(2,))
    assert abs(found.change[1] - (exact(2) - exact(1))) <= 4 * found.change_error[1]
    with pytest.raises(ev.ConfigurationError, match="data are not at hand for a new run"):
        ev.prior_sensitivity(result, factors=(0.01,))


def test_exact_regressions_are_exact():
    table = {"y": Y, "x": np.arange(30.0)}
    evidence = ev.estimate(ev.Regression("y ~ x"), table)
    found = ev.prior_sensitivity(evidence, factors=(0.5, 2))
    for factor, value in zip(found.factor, found.log_evidence, strict=True):
        regression = ev.Regression("y ~ x", prior_scale=factor * np.sqrt(2) / 4)
        assert value == pytest.approx(ev.estimate(regression, table).log_evidence, abs=1e-9)
    with pytest.raises(ev.ConfigurationError, match=r"parameters must be \['effects'\]"):
        ev.prior_sensitivity(evidence, parameters=["Intercept"])
    fixed = ev.estimate(ev.Regression("y ~ x", prior="unit-information"), table)
    with pytest.raises(ev.ConfigurationError, match="no prior has a width"):
        ev.prior_sensitivity(fixed)


@pytest.mark.reference
def test_a_sampled_regression_widens_its_effects():
    table = {"y": np.random.default_rng(1).poisson(3.0, 60), "x": np.linspace(-1, 1, 60)}
    found = ev.prior_sensitivity(ev.estimate(ev.Regression("y ~ x", family="poisson"), table), factors=(2,))
    assert found.parameters == ("effects",)
    wide = ev.estimate(ev.Regression("y ~ x", family="poisson", prior_scale=5.0), table)
    error = np.hypot(wide.standard_error, found.change_error[1])
    assert abs(found.log_evidence[1] - wide.log_evidence) <= 4 * error + 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    "distribution, wider",
    [
        (dist.Normal(1.0, 2.0).expand([3]).to_event(1), dist.Normal(1.0, 6.0).expand([3]).to_event(1)),
        (dist.Exponential(1.5), dist.Exponential(0.5)),
        (dist.Gamma(2.0, 3.0), dist.Gamma(2.0, 1.0)),
        (dist.InverseGamma(2.0, 3.0), dist.InverseGamma(2.0, 9.0)),
        (dist.LogNormal(0.0, 0.5), dist.LogNormal(0.0, 1.5)),
        (dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), dist.MultivariateNormal(jnp.zeros(2), 9 * jnp.eye(2))),
    ],
)  # fmt: skip
def test_three_times_as_wide(distribution, wider):
    value = 0.3 * jnp.ones(distribution.event_shape)
    found = widened(distribution, 3.0)
    assert found is not None
    np.testing.assert_allclose(found.log_prob(value), wider.log_prob(value), rtol=1e-6)


@pytest.mark.parametrize("distribution", [dist.Uniform(0, 1), dist.Beta(1, 1), dist.Dirichlet(jnp.ones(3))])
def test_without_a_width(distribution):
    assert widened(distribution, 2.0) is None


def test_bad_input():
    evidence = ev.estimate(ev.Regression("y ~ x"), {"y": Y, "x": np.arange(30.0)})
    with pytest.raises(ev.ConfigurationError, match="factors must be positive; got -1"):
        ev.prior_sensitivity(evidence, factors=(-1,))
    with pytest.raises(ev.ConfigurationError, match="factors must be"):
        ev.prior_sensitivity(evidence, factors=("wide",))  # type: ignore[arg-type]
    with pytest.raises(ev.ConfigurationError, match="factors must be a list of positive numbers; got 2"):
        ev.prior_sensitivity(evidence, factors=2)  # type: ignore[arg-type]
    with pytest.raises(ev.ConfigurationError, match="parameters must be a list of names; got 'effects'"):
        ev.prior_sensitivity(evidence, parameters="effects")


def test_a_result_goes_to_another_process_without_its_model():
    evidence = ev.estimate(MODELS["numpyro"], DATA, method=ev.Laplace(num_particles=64))
    found = pickle.loads(pickle.dumps(evidence))
    assert found.log_evidence == evidence.log_evidence
    np.testing.assert_array_equal(found.posterior["mean"], evidence.posterior["mean"])
    with pytest.raises(ev.ConfigurationError, match="result of estimate in this session"):
        ev.prior_sensitivity(found)


def test_plot_has_a_line_with_units():
    evidence = ev.estimate(ev.Regression("y ~ x"), {"y": Y, "x": np.arange(30.0)})
    axes = ev.prior_sensitivity(evidence).plot()
    assert axes.get_ylabel() == "change of log evidence (nats)"
    assert len(axes.lines) == 1
    plt.close("all")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::evidentia.DiagnosticWarning")  # 64 particles are few
def test_parameters_without_a_width_are_left_out_and_named_ones_count_once():
    regression = ev.Regression("y ~ x + z", prior="normal", priors={"x": dist.Uniform(-3, 3)})
    x, z = np.random.default_rng(1).normal(size=(2, len(Y)))
    evidence = ev.estimate(regression, {"y": Y, "x": x, "z": z}, method=ev.SGAIS(num_particles=64))
    found = ev.prior_sensitivity(evidence, factors=(2,))
    assert found.parameters == ("effects",)
    twice = ev.prior_sensitivity(evidence, factors=(2,), parameters=["effects", "effects"])
    assert list(twice.log_evidence) == list(found.log_evidence)
