"""PyMC models: rows, data, models as those of PyMC's gallery, and what is refused."""

import pickle
import subprocess
import sys
from importlib import metadata

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.pytensorf import find_rng_nodes
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import evidentia as ev
from evidentia.errors import ModelError
from evidentia.model.pymc.rows import rebuilt
from evidentia.posterior.units import bound_to
from tests.model.pymc import gallery
from tests.model.pymc.gallery import GALLERY

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2))
Y = X @ [1.0, -1.0] + 0.5 * RNG.normal(size=3000)


def regression(x=X, y=Y, **observed):
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 1, shape=2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", pm.math.dot(x, weights), scale, observed=y, **observed)
    return model


def same_in_numpyro(x, y):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)


@pytest.mark.reference
def test_independent_rows_are_estimated_as_numpyro_does_with_mini_batches():
    model = ev.Model.from_pymc(regression())
    assert {name: array.shape for name, array in model.data.items()} == {
        "y": (3000,),
        "constant_1": (3000, 2),
    }
    found = ev.estimate(model, in_order=True)
    same = ev.estimate(ev.Model.from_numpyro(same_in_numpyro), {"x": X, "y": Y}, in_order=True)
    assert abs(found.log_evidence - same.log_evidence) < 4 * np.hypot(
        found.standard_error, same.standard_error
    )
    assert found.num_observations == 3000
    assert len(found.trajectory.num_observations) == len(same.trajectory.num_observations)
    few = {name: array[:500] for name, array in model.data.items()}
    assert ev.estimate(model, few).num_observations == 500
    online = ev.Online(model)
    for start in (0, 500):
        online.update({name: array[start : start + 500] for name, array in model.data.items()})
    assert online.num_observations == 1000


@pytest.mark.reference
def test_data_containers_have_their_names_and_give_other_data():
    with pm.Model() as pm_model:
        x = pm.Data("x", X[:50, 0])
        heads = pm.Data("heads", (Y[:50] > 0).astype(int))
        slope = pm.Normal("slope", 0, 1)
        pm.Bernoulli("y", logit_p=slope * x, observed=heads)
    model = ev.Model.from_pymc(pm_model)
    assert set(model.data) == {"x", "heads"}
    other = {"x": X[:80, 0], "heads": (Y[:80] > 0).astype(int)}
    found = ev.estimate(model, other)

    def same(x, heads):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=heads)

    expected = ev.estimate(ev.Model.from_numpyro(same), other)
    assert abs(found.log_evidence - expected.log_evidence) < 0.02


@pytest.mark.slow
def test_potentials_count_as_likelihood():
    with pm.Model() as pm_model:
        mean = pm.Normal("mean", 0, 1)
        pm.Potential("rows", pm.logp(pm.Normal.dist(mean, 1), Y[:40]))
    with_potential = ev.estimate(ev.Model.from_pymc(pm_model))
    with pm.Model() as pm_model:
        pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=Y[:40])
    observed = ev.estimate(ev.Model.from_pymc(pm_model))
    assert abs(with_potential.log_evidence - observed.log_evidence) < 0.05


@pytest.mark.slow
def test_a_dependence_between_rows_is_found():
    """Also one on the number of rows, and lengths that agree by accident."""
    with pm.Model() as centred:
        x = pm.Data("x", X[:40, 0])
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * (x - x.mean()), 1.0, observed=Y[:40])
    assert ev.Model.from_pymc(centred).pointwise is False
    with pm.Model() as grouped:
        group = np.arange(12) % 3
        effects = pm.Normal("effects", np.zeros(3), 1.0)
        pm.Normal("y", effects[group], np.linspace(0.5, 1.5, 12), observed=Y[:12])
    assert set(ev.Model.from_pymc(grouped).data) == {"y", "constant_1", "constant_2"}
    with pm.Model() as accident:
        table = np.linspace(-1, 1, 12)  # a value for each of twelve groups, and there are twelve rows
        slope = pm.Normal("slope", 0, 1)
        level = pt.as_tensor(table)[pt.as_tensor(np.arange(12)[::-1] // 2)]
        pm.Normal("y", slope * level, 1.0, observed=Y[:12])
    model = ev.Model.from_pymc(accident)
    assert len(model.data) == 2 and model.pointwise is None
    assert bound_to(model, model.data).reason is None


@pytest.mark.slow
@pytest.mark.parametrize("make", [gallery.eight_schools, gallery.autoregression, gallery.best])
def test_dependent_rows_are_one_observation(make):
    model = ev.Model.from_pymc(make())
    bound = bound_to(model, model.data)
    assert bound.reason is not None


@pytest.mark.slow
def test_latents_of_groups_are_integrated_out():
    county = np.repeat(np.arange(4), 3)
    with pm.Model() as radon:
        group = pm.Data("county", county)
        level = pm.Normal("level", 0, 1)
        intercepts = pm.Normal("intercepts", level, 0.7, shape=4)
        pm.Normal("y", intercepts[group], 0.5, observed=Y[:12])
    model = ev.Model.from_pymc(radon, groups="county")
    found = bound_to(model, model.data)
    assert list(found.model.parameter_shapes) == ["level"] and found.num_rows == 12
    covariance = 0.49 * (county[:, None] == county) + 0.25 * np.eye(12)
    exact = multivariate_normal.logpdf(Y[:12], np.full(12, 0.3), covariance)
    params = {"level": np.float32(0.3)}
    values = jax.jit(found.model.densities.pointwise)(params, found.arrays)
    assert np.sum(values) == pytest.approx(exact, abs=1e-3)


@pytest.mark.reference
def test_sensitivity_to_the_widths_of_priors():
    found = ev.estimate(ev.Model.from_pymc(regression(X[:100], Y[:100])))
    assert np.isfinite(ev.prior_sensitivity(found, factors=(0.5, 2.0)).log_evidence).all()


@pytest.mark.slow
def test_models_are_pickled_and_leave_no_trace():
    before = dict(jax.config.values)
    with pm.Model() as pm_model:
        pm.Normal("y", pm.HalfStudentT("x", nu=3, sigma=1), 1.0, observed=Y[:9])
    generator = find_rng_nodes(pm_model.free_RVs)[0]
    state = generator.get_value().bit_generator.state
    model = ev.Model.from_pymc(pm_model, name="mean")
    again = pickle.loads(pickle.dumps(model))
    assert again.name == "mean"
    first, second = model.bind(model.data), again.bind(again.data)
    np.testing.assert_array_equal(*(one.sample_prior(jax.random.key(0), 8) for one in (first, second)))
    assert dict(jax.config.values) == before
    assert generator.get_value().bit_generator.state == state


@pytest.mark.slow
def test_importing_evidentia_does_not_import_pymc():
    code = "import sys, evidentia; evidentia.Model; assert not {'pymc', 'pytensor'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- The gallery ---------------------------------------------------------------------------------


@pytest.mark.reference
@pytest.mark.parametrize("make", GALLERY, ids=lambda make: make.__name__)
def test_the_likelihood_is_that_of_pymc(make):
    """At prior draws, to the digits of float32."""
    pm_model = make()
    model = ev.Model.from_pymc(pm_model)
    bound = bound_to(model, model.data)
    draws = bound.model.constrain(bound.model.sample_prior(jax.random.key(0), 3))
    terms = [*pm_model.observed_RVs, *pm_model.potentials]
    values = [pm_model.rvs_to_values.get(rv) for rv in terms]
    given = {rv: rv.type(rv.name) for rv in pm_model.free_RVs}
    copies = [rebuilt([term], given, lambda source: source)[0] for term in terms]
    graphs = [
        copy if value is None else pm.logp(copy, value) for copy, value in zip(copies, values, strict=True)
    ]
    total = pt.add(*[graph.sum() for graph in graphs], 0.0)
    exact = pm.compile(list(given.values()), total, mode="FAST_COMPILE", on_unused_input="ignore")
    for number in range(3):
        params = {name: value[number] for name, value in draws.items()}
        found = np.sum(bound.model.densities.pointwise(params, bound.arrays), dtype=float)
        expected = exact(*(np.asarray(params[rv.name], float) for rv in given))
        assert found == pytest.approx(float(expected), rel=1e-4, abs=1e-3)


@pytest.mark.reference
@pytest.mark.parametrize(
    "make",
    [gallery.linear_regression, gallery.radon, gallery.gaussian_mixture, gallery.covariance, gallery.ordinal,
     gallery.autoregression],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_the_evidence_of_gallery_models_by_two_ways(make):
    model = ev.Model.from_pymc(make())
    found = ev.estimate(model)
    other = ev.estimate(model, method=ev.SMC(num_particles=1024), seed=1)
    error = np.hypot(found.standard_error, other.standard_error)
    assert abs(found.log_evidence - other.log_evidence) < 4 * error


# --- Refused -------------------------------------------------------------------------------------


def discrete():
    pm.Poisson("count", 3.0)


def improper():
    pm.Flat("anything")


def half_improper():
    pm.HalfFlat("anything")


def restricted():
    pm.Normal("x", 0, 1, transform=pm.distributions.transforms.log)


def unequal():
    pm.Normal("x", [0.0, 1.0], 1, transform=pm.distributions.transforms.ordered, initval=[0, 1])


def correlation():
    pm.LKJCorr("corr", n=3, eta=1)


def density_alone():
    pm.CustomDist("x", logp=lambda value: -(value**2))


def without_transform():
    pm.LogitNormal("x", 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior, message",
    [
        (
            discrete,
            "the free variable 'count' is discrete \\(Poisson\\); parameters must be continuous. Sum it",
        ),
        (improper, "the free variable 'anything' has the prior Flat, which is not a probability density"),
        (half_improper, "'anything' has the prior HalfFlat, .* needs a proper prior"),
        (
            restricted,
            "'x' has the transform LogTransform, which leaves out a part .* for example pm.Truncated",
        ),
        (unequal, "'x' is ordered, and its elements have different priors"),
        (correlation, "'corr' is a LKJCorr, .*: use pm.LKJCholeskyCov"),
        (density_alone, "PyMC cannot draw the free variable 'x' from its prior"),
        (
            without_transform,
            "'x' is not on the whole real line, and PyMC knows no transform for it. Name one",
        ),
    ],
)
def test_free_variables_that_are_refused(prior, message):
    with pm.Model() as pm_model:
        prior()
        pm.Normal("y", pm.Normal("mean", 0, 1), 1.0, observed=Y[:5])
    with pytest.raises(ModelError, match=message):
        ev.Model.from_pymc(pm_model)


def test_missing_values_and_mini_batches_are_refused():
    with pytest.warns(), pm.Model() as pm_model:
        pm.Normal("y", pm.Normal("mean", 0, 1), 1.0, observed=np.array([1.0, np.nan, 2.0]))
    with pytest.raises(ModelError, match="the data of 'y' have missing values, which PyMC makes parameters"):
        ev.Model.from_pymc(pm_model)
    with pytest.raises(ModelError, match="'y' has a total_size: .* evidentia draws the mini-batches"):
        ev.Model.from_pymc(regression(total_size=10_000))


def test_operations_without_jax_are_refused_by_name():
    with pm.Model() as pm_model:
        grid = np.linspace(-3, 3, 50)
        x = pm.Interpolated("x", grid, np.exp(-(grid**2) / 2))
        pm.Normal("y", x, 1.0, observed=Y[:5])
    with pytest.raises(
        ModelError, match="the PyMC model uses .*Spline.*, which PyTensor cannot convert to JAX"
    ):
        ev.estimate(ev.Model.from_pymc(pm_model))


def test_other_versions_and_other_models_are_refused(monkeypatch):
    with pytest.raises(ModelError, match="pm_model must be a pymc.Model or a bambi.Model; got function"):
        ev.Model.from_pymc(same_in_numpyro)
    with pytest.raises(ModelError, match="the PyMC model has neither an observed variable"):
        ev.Model.from_pymc(pm.Model())
    for version in ("5.9.2", "6.0.0"):
        monkeypatch.setattr(metadata, "version", lambda _, version=version: version)
        with pytest.raises(ModelError, match=f"supports PyMC 5.* before 6; PyMC {version} is installed"):
            ev.Model.from_pymc(regression())

    def missing(_):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ModelError, match="not installed: pip install 'evidentia\\[pymc\\]'"):
        ev.Model.from_pymc(regression())


@pytest.mark.slow
def test_infinite_bounds_of_rows_are_no_bounds():
    limits = np.where(np.arange(40) % 2, np.inf, 1.0)
    y = np.minimum(np.random.default_rng(0).normal(0.5, 1.0, 40), limits)
    with pm.Model() as pm_model:
        mu = pm.Normal("mu", 0.0, 1.0)
        latent = pm.Normal.dist(mu, 1.0)
        pm.Censored("y", latent, lower=np.full(40, -np.inf), upper=limits, observed=y)
    found = ev.estimate(ev.Model.from_pymc(pm_model), method=ev.Laplace())
    grid = np.linspace(-6.0, 6.0, 20_001)
    terms = np.where((y == limits)[:, None], norm.logsf(y[:, None], grid), norm.logpdf(y[:, None], grid))
    exact = logsumexp(terms.sum(axis=0) + norm.logpdf(grid)) + np.log(grid[1] - grid[0])
    assert found.log_evidence == pytest.approx(exact, abs=0.03)
