"""Latents of groups in NumPyro programs, integrated out: against exact marginal densities."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.errors import (
    ConfigurationError,
    DataError,
    DependentRowsError,
    EstimationError,
    ModelError,
)
from evidentia.posterior.units import bound_to

SIZES = (4, 1, 9, 3, 5)
COUNTY = np.repeat(np.arange(5), SIZES)
X = np.random.default_rng(0).normal(size=len(COUNTY)).astype(np.float32)
Y = (0.4 * X + 0.8 * np.random.default_rng(1).normal(size=5)[COUNTY]).astype(np.float32)
DATA = {"county": COUNTY, "x": X, "y": Y}
URANIUM = np.array([0.3, -1.0, 0.5, 0.0, 2.0], np.float32)
PARAMS = {"mu": 0.3, "tau": 0.7, "slope": 0.4}


def radon(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(mu, tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(alpha[county] + slope * x, 0.5), obs=y)


def with_predictor_of_groups(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(mu * URANIUM, tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(alpha[county] + slope * x, 0.5), obs=y)


def log_likelihood(program, data, params):
    found = bound_to(ev.Model.from_numpyro(program, groups="county"), data)
    params = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    values = jax.jit(found.model.densities.pointwise)(params, found.arrays)
    return float(np.sum(np.asarray(values, np.float64))), found


def exact(county, means, tau):
    same = county[:, None] == county[None]
    return multivariate_normal.logpdf(Y, means, tau**2 * same + 0.25 * np.eye(len(Y)))


def in_one_event(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    alpha = numpyro.sample("alpha", dist.Normal(mu, tau).expand([5]).to_event(1))
    numpyro.sample("y", dist.Normal(alpha[county] + slope * x, 0.5), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "mixed"), [(radon, False), (radon, True), (in_one_event, True)])
def test_the_marginal_likelihood_of_groups_is_exact(program, mixed):
    order = np.random.default_rng(2).permutation(len(Y)) if mixed else np.arange(len(Y))
    data = {name: values[order] for name, values in DATA.items()}
    found, bound = log_likelihood(program, data, PARAMS)
    assert found == pytest.approx(exact(COUNTY, 0.3 + 0.4 * X, 0.7), abs=2e-3)
    assert list(bound.model.parameter_shapes) == ["mu", "tau", "slope"] and bound.num_rows == len(Y)


@pytest.mark.slow
def test_priors_may_differ_by_group():
    found, _ = log_likelihood(with_predictor_of_groups, DATA, PARAMS)
    assert found == pytest.approx(exact(COUNTY, 0.3 * URANIUM[COUNTY] + 0.4 * X, 0.7), abs=2e-3)


def skewed(county, x, y):
    rate = numpyro.sample("rate", dist.LogNormal(0, 1))
    with numpyro.plate("counties", 5):
        scale = numpyro.sample("scale", dist.Gamma(2.0, rate))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x, scale[county] + 0.2), obs=y)


@pytest.mark.slow
def test_a_prior_that_is_not_normal_counts_once_for_a_group():
    found, _ = log_likelihood(skewed, DATA, {"rate": 1.5})
    scales = np.linspace(1e-4, 20, 200_001)
    densities = 1.5**2 * scales * np.exp(-1.5 * scales)
    truth = 0.0
    for group in range(5):
        rows = group == COUNTY
        log_terms = -0.5 * ((Y - X)[rows, None] / (scales + 0.2)) ** 2 - np.log(
            (scales + 0.2) * np.sqrt(2 * np.pi)
        )
        truth += np.log(np.trapezoid(densities * np.exp(log_terms.sum(axis=0)), scales))
    assert found == pytest.approx(truth, abs=0.01)


@pytest.mark.reference
def test_the_evidence_is_that_of_a_formula():
    rng = np.random.default_rng(5)
    county = np.repeat(np.arange(40), 6)
    y = rng.poisson(np.exp(0.3 + 0.6 * rng.normal(size=40)[county]))

    def counts(county, y):
        mu = numpyro.sample("mu", dist.Normal(0, 2.5))
        tau = numpyro.sample("tau", dist.Exponential(1.0))
        with numpyro.plate("counties", 40):
            alpha = numpyro.sample("alpha", dist.Normal(mu, tau))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Poisson(jnp.exp(alpha[county])), obs=y)

    model = ev.Model.from_numpyro(counts, groups="county")
    found = ev.estimate(model, {"county": county, "y": y})
    formula = ev.estimate(ev.Regression("y ~ 1 + (1 | g)", family="poisson"), {"g": county, "y": y})
    joint = np.hypot(found.standard_error, formula.standard_error)
    assert abs(found.log_evidence - formula.log_evidence) < 4 * joint < 0.4
    assert found.num_observations == 240 and found.trajectory.num_observations[-1] == 240
    assert "inner_shift" in found.diagnostics


def correlated(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    covariance = jnp.asarray(COVARIANCE)
    with numpyro.plate("counties", 2):
        pair = numpyro.sample("pair", dist.MultivariateNormal(jnp.zeros(2), covariance))
    of_row = pair[county]
    numpyro.sample("y", dist.Normal(mu + of_row[:, 0] + of_row[:, 1] * x, 0.5), obs=y)


COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]], np.float32)


@pytest.mark.reference
@pytest.mark.parametrize("county", [COUNTY % 2, np.minimum(np.arange(len(Y)), 1)])
def test_a_law_of_as_many_values_as_groups_is_not_taken_apart(county):
    found, _ = log_likelihood(correlated, {**DATA, "county": county}, {"mu": 0.3})
    columns = np.column_stack([np.ones(len(X)), X])
    same = county[:, None] == county[None]
    covariance = same * (columns @ COVARIANCE @ columns.T) + 0.25 * np.eye(len(Y))
    assert found == pytest.approx(multivariate_normal.logpdf(Y, np.full(len(Y), 0.3), covariance), abs=2e-3)


def test_groups_of_one_row_in_order_hide_no_other_use_of_the_column():
    data = {"county": np.arange(5), "x": X[:5], "y": Y[:5]}
    with pytest.raises(ModelError, match="uses 'county' for more than to look up 'alpha'"):
        bound_to(ev.Model.from_numpyro(looks_up_more, groups="county"), data)


def looks_up_more(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(alpha[county] + mu * jnp.asarray(URANIUM)[county], 0.5), obs=y)


def centred_by_hand(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(mu, 1))
    numpyro.sample("y", dist.Normal((alpha - jnp.mean(alpha))[county], 0.5), obs=y)


def observed_in_groups(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(mu, 1))
        numpyro.sample("soil", dist.Normal(alpha, 1), obs=URANIUM)
    numpyro.sample("y", dist.Normal(alpha[county], 0.5), obs=y)


def observed_elsewhere(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(mu, 1))
    with numpyro.plate("visits", 7):
        numpyro.sample("visit", dist.Normal(mu, 1), obs=jnp.zeros(7))
    numpyro.sample("y", dist.Normal(alpha[county], 0.5), obs=y)


def without_groups(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu + x, 0.5), obs=y)


def dependent(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    alpha = numpyro.sample("alpha", dist.MultivariateNormal(mu, jnp.eye(5)))
    numpyro.sample("y", dist.Normal(alpha[county], 0.5), obs=y)


def discrete(county, x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("counties", 5):
        kind = numpyro.sample("kind", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(mu + kind[county], 0.5), obs=y)


@pytest.mark.parametrize(
    ("program", "data", "error", "message"),
    [
        (looks_up_more, DATA, ModelError, "uses 'county' for more than to look up 'alpha'"),
        (centred_by_hand, DATA, DependentRowsError, "change the log-likelihood of other rows"),
        (
            without_groups,
            DATA,
            ModelError,
            "no latent site has 5 values or more on its leading axis: mu has shape",
        ),
        (dependent, DATA, ModelError, r"'alpha' is one draw for all 5 groups \(MultivariateNormal\)"),
        (observed_in_groups, DATA, DependentRowsError, r"observed site 'soil' must have .* got \(5,\)"),
        (observed_elsewhere, DATA, DependentRowsError, r"observed site 'visit' must have .* got \(7,\)"),
        (discrete, DATA, ModelError, "'kind' is discrete, with a value for each group"),
        (radon, {"x": X, "y": Y}, DataError, "data must have the column 'county'"),
        (
            radon,
            {**DATA, "county": X},
            DataError,
            r"data\['county'\] must have the number of each row's group",
        ),
        (radon, {**DATA, "county": COUNTY - 1}, DataError, "an integer of 0 and up"),
        (radon, {**DATA, "county": COUNTY + 1}, ModelError, "The first number is 1: numbers begin at 0"),
        (
            radon,
            {**DATA, "county": np.array(list("ABCDE"))[COUNTY]},
            DataError,
            r"data\['county'\] must hold numbers; got dtype <U1. pandas.factorize makes numbers of names.",
        ),
    ],
)
def test_what_cannot_be_integrated_out_is_refused_by_name(program, data, error, message):
    with pytest.raises(error, match=message):
        bound_to(ev.Model.from_numpyro(program, groups="county"), data)


@pytest.mark.reference
def test_a_group_that_the_prior_cannot_reach_is_an_error():
    model = ev.Model.from_numpyro(bounded, groups="county")
    with pytest.raises(EstimationError, match="the data are impossible under every parameter") as caught:
        ev.estimate(model, {**DATA, "y": np.where(COUNTY == 3, 50, Y).astype(np.float32)})
    assert "Numbered are packs of whole groups, in random order." in caught.value.__notes__


def bounded(county, x, y):
    width = numpyro.sample("width", dist.Uniform(2, 3))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Uniform(-1, 1))
    numpyro.sample("y", dist.Uniform(alpha[county] - width, alpha[county] + width), obs=y)


def test_groups_need_all_rows_together():
    model = ev.Model.from_numpyro(radon, groups="county")
    with pytest.raises(ModelError, match="whose rows must be together: only .* and Online take such a model"):
        model.bind(DATA)
    with pytest.raises(ModelError, match="needs pointwise to be left out"):
        ev.Model.from_numpyro(radon, groups="county", pointwise=False)


@pytest.mark.reference
def test_effects_of_groups_are_conditional_means_over_the_posterior(tmp_path):
    model = ev.Model.from_numpyro(fixed_scales, groups="county")
    evidence = ev.estimate(model, DATA, method=ev.SGAIS(num_particles=64))
    found = ev.group_effects(model, evidence, DATA)
    assert list(found.columns) == ["alpha", "alpha (sd)"] and found.index.name == "county"
    columns = np.column_stack([X, COUNTY[:, None] == np.arange(5)])
    covariance = np.linalg.inv(columns.T @ columns / 0.25 + np.diag([100.0, *[1 / 0.49] * 5]))
    mean = covariance @ (columns.T @ Y / 0.25)
    np.testing.assert_allclose(found["alpha"], mean[1:], atol=0.08)  # 32 draws of the slope
    np.testing.assert_allclose(found["alpha (sd)"], np.sqrt(np.diag(covariance))[1:], rtol=0.1)
    assert ev.group_effects(model, evidence, DATA, path=tmp_path / "effects.parquet") is None
    written = pd.read_parquet(tmp_path / "effects.parquet").sort_values("county").set_index("county")
    pd.testing.assert_frame_equal(written, found)
    with pytest.raises(ConfigurationError, match="data must be those of the evidence; 'y' has other values"):
        ev.group_effects(model, evidence, {**DATA, "y": Y + 1})
    with pytest.raises(ConfigurationError, match="factor is for a Regression"):
        ev.group_effects(model, evidence, DATA, factor="county")


@pytest.mark.reference
def test_effects_of_rows_and_models_without_them():
    model = ev.Model.from_numpyro(in_rows)
    data = {"y": Y, "x": X}
    evidence = ev.estimate(model, data, method=ev.SGAIS(num_particles=64))
    found = ev.group_effects(model, evidence, data)
    assert list(found.columns) == ["pair[0]", "pair[0] (sd)", "pair[1]", "pair[1] (sd)"] and len(
        found
    ) == len(Y)
    shares = np.exp(evidence.weighted.log_weights - np.logaddexp.reduce(evidence.weighted.log_weights))
    rest = Y - shares @ evidence.weighted["mu"]
    np.testing.assert_allclose(found["pair[0]"], rest / 2.25, atol=0.1)  # N(0, 1), beside N(0, 1) and 0.25
    np.testing.assert_allclose(found["pair[0] (sd)"], np.sqrt(1 - 1 / 2.25), rtol=0.1)
    plain = ev.Model.from_numpyro(without_groups)
    with pytest.raises(ConfigurationError, match="model must have latents with a value in each row"):
        ev.group_effects(plain, evidence, DATA)
    other = ev.Model.from_numpyro(radon, groups="county")
    with pytest.raises(ConfigurationError, match="evidence must be of .*got that of 'in_rows'"):
        ev.group_effects(other, evidence, DATA)


def fixed_scales(county, x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 0.1))
    with numpyro.plate("counties", 5):
        alpha = numpyro.sample("alpha", dist.Normal(0, 0.7))
    numpyro.sample("y", dist.Normal(alpha[county] + slope * x, 0.5), obs=y)


def in_rows(x, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    pair = numpyro.sample("pair", dist.Normal(0, 1).expand([len(y), 2]).to_event(1))
    numpyro.sample("y", dist.Normal(mu + pair.sum(1), 0.5), obs=y)


def four(county, x, y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("counties", 4):
        alpha = numpyro.sample("alpha", dist.Normal(0, tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(alpha[county] + x, 0.5), obs=y)


@pytest.mark.slow
def test_a_model_is_bound_anew_for_data_with_other_groups_in_a_pack():
    """Packs of the same shape may hold other numbers of groups, which the program depends on."""
    model, params = ev.Model.from_numpyro(four, groups="county"), {"tau": jnp.float32(0.7)}
    for sizes in ([128, 96, 32, 128], [128, 64, 32, 32]):
        county = np.repeat(np.arange(4), sizes)
        x = np.random.default_rng(0).normal(size=len(county)).astype(np.float32)
        y = np.random.default_rng(1).normal(size=len(county)).astype(np.float32)
        data = {"county": county, "x": x, "y": y}
        found = bound_to(model, data)
        values = jax.jit(found.model.densities.pointwise)(params, found.arrays)
        covariance = 0.7**2 * (county[:, None] == county[None]) + 0.25 * np.eye(len(county))
        expected = multivariate_normal.logpdf(y, x, covariance)
        assert float(np.sum(np.asarray(values, np.float64))) == pytest.approx(expected, abs=0.02)


def test_groups_need_data_as_arguments():
    def holds_its_data():
        four(COUNTY, X, Y)

    with pytest.raises(
        ModelError, match="groups='county' names a column of the data, but the function is called"
    ):
        ev.Model.from_numpyro(holds_its_data, groups="county")
