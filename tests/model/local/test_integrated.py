"""Latent values in each row, integrated out: against exact marginal densities."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy.integrate import quad
from scipy.stats import multivariate_normal

import evidentia as ev
from evidentia.data.arrays import on_device
from evidentia.errors import ModelError
from evidentia.model.local import Integrated
from evidentia.model.local.mode import cholesky, solve_transposed
from evidentia.posterior.modes import FEW_ROWS, few_of
from evidentia.posterior.rows import Window

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12], np.float32)
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18], np.float32)
SCHOOLS = {"y": EFFECTS, "sigma": ERRORS}


def schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def not_centred(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)


def exact_schools():
    """Of the marginal normal, by quadrature over τ."""

    def density(tau):
        covariance = np.diag(ERRORS.astype(float) ** 2 + tau**2) + 25
        prior = 2 / (5 * np.pi * (1 + (tau / 5) ** 2))
        return prior * np.exp(multivariate_normal.logpdf(EFFECTS, np.zeros(8), covariance) + 31)

    near, far = quad(density, 0, 200, points=[1, 5, 20], limit=200)[0], quad(density, 200, np.inf)[0]
    return np.log(near + far) - 31


@pytest.mark.slow
@pytest.mark.parametrize("program", [schools, pytest.param(not_centred, marks=pytest.mark.reference)])
def test_eight_schools_in_either_form(program):
    found = ev.estimate(ev.Model.from_numpyro(program), SCHOOLS)
    assert abs(found.log_evidence - exact_schools()) < 4 * found.standard_error < 0.15
    assert list(found.posterior) == ["mu", "tau"] and found.num_observations == 8
    assert abs(found.diagnostics["inner_shift"]) < 1e-3 and found.verdict.word == "trusted"


def bound_log_likelihood(program, data, params):
    model = ev.Model.from_numpyro(program).bind(data)
    return np.asarray(jax.jit(model.densities.pointwise)(params, dict(data)))


@pytest.mark.reference
def test_several_latents_of_a_row_are_exact_for_gaussians():
    def program(y):
        factor = numpyro.sample("factor", dist.LKJCholesky(2))
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", dist.MultivariateNormal(jnp.ones(2), scale_tril=factor))
            shift = numpyro.sample("shift", dist.Normal(z[:, 0], 0.5))
            numpyro.sample("y", dist.Normal(z.at[:, 1].add(shift), 1.0).to_event(1), obs=y)

    y = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    factor = np.linalg.cholesky([[1.0, 0.6], [0.6, 1.0]])
    found = bound_log_likelihood(program, {"y": y}, {"factor": jnp.asarray(factor, jnp.float32)})
    # (z₀, z₁ + shift) = A (z₀, z₁) + (0, ε), with shift = z₀ + ε
    a = np.array([[1.0, 0.0], [1.0, 1.0]])
    covariance = a @ factor @ factor.T @ a.T + np.diag([0.0, 0.25]) + np.eye(2)
    exact = multivariate_normal.logpdf(y, [1.0, 2.0], covariance)
    np.testing.assert_allclose(found, exact, atol=0.02)  # three dimensions: 256 quasi-random nodes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local", "low", "high"),
    [
        (dist.StudentT(4.0, 0.5, 2.0), -np.inf, np.inf),
        (dist.Gamma(3.0, 2.0), 0, np.inf),
        (dist.Beta(2.0, 3.0), 0, 1),
    ],
)
def test_other_laws_of_latents(local, low, high):
    def program(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", local)
            numpyro.sample("y", dist.Normal(z, scale), obs=y)

    y = np.array([0.3, 1.0, 2.0], np.float32)
    found = bound_log_likelihood(program, {"y": y}, {"scale": jnp.asarray(0.7)})

    def density(z, value):
        return np.exp(float(local.log_prob(z)) - 0.5 * ((value - z) / 0.7) ** 2) / (0.7 * np.sqrt(2 * np.pi))

    exact = [np.log(quad(density, low, high, args=(value,))[0]) for value in y]
    np.testing.assert_allclose(found, exact, atol=2e-3)


@pytest.mark.reference
def test_derivatives_are_those_of_the_marginal_density():
    y = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)

    def conditional(params, rows):
        return lambda u: jnp.sum(
            -0.5 * ((rows - params["mean"] - jnp.exp(params["log_sd"]) * u) ** 2) - 0.5 * jnp.log(2 * jnp.pi),
            axis=1,
        )

    def exact(params):
        covariance = jnp.exp(2 * params["log_sd"]) * jnp.ones((3, 3)) + jnp.eye(3)
        mean = jnp.full(3, params["mean"])
        return jnp.sum(jax.scipy.stats.multivariate_normal.logpdf(y, mean, covariance))

    params = {"mean": jnp.asarray(0.3), "log_sd": jnp.asarray(0.4)}
    integrated = Integrated(conditional, lambda params, rows: lambda u: {"u": u}, 1)
    second = jax.jit(jax.hessian(lambda params: jnp.sum(integrated(params, y))))(params)
    jax.tree.map(
        lambda mine, other: np.testing.assert_allclose(mine, other, atol=2e-3),
        second,
        jax.hessian(exact)(params),
    )


def test_rows_whose_latents_matter_to_others_are_not_integrated_apart():
    def walk(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("rows", len(y)):
            step = numpyro.sample("step", dist.Normal(0, scale))
        numpyro.sample("y", dist.Normal(jnp.cumsum(step), 1.0), obs=y)

    y = np.random.default_rng(0).normal(size=12).astype(np.float32)
    with pytest.raises(
        ModelError, match="the latent values of a row change the log-likelihood of other rows"
    ):
        ev.Model.from_numpyro(walk).bind({"y": y})


def test_the_prior_of_a_latent_may_not_depend_on_one_summed_out():
    def program(y):
        share = numpyro.sample("share", dist.Beta(1, 1))
        with numpyro.plate("rows", len(y)):
            k = numpyro.sample("k", dist.Bernoulli(share))
            z = numpyro.sample("z", dist.Normal(3.0 * k, 1.0))
            numpyro.sample("y", dist.Normal(z, 1.0), obs=y)

    with pytest.raises(ModelError, match="'z' depends on a discrete latent"):
        ev.Model.from_numpyro(program).bind({"y": np.arange(6, dtype=np.float32)})


def test_too_many_latents_of_a_row_are_refused():
    def program(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", dist.Normal(0, scale).expand([9]).to_event(1))
            numpyro.sample("y", dist.Normal(z.sum(-1), 1.0), obs=y)

    with pytest.raises(ModelError, match="9 latent values in each row or group; at most 8"):
        ev.Model.from_numpyro(program).bind({"y": np.arange(6, dtype=np.float32)})


def test_small_matrices_are_factorised_entry_by_entry():
    half = np.random.default_rng(0).normal(size=(7, 4, 4)).astype(np.float32)
    matrices = half @ half.transpose(0, 2, 1) + 2 * np.eye(4, dtype=np.float32)
    factor = cholesky(jnp.asarray(matrices))
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrices), atol=1e-4)
    vectors = jnp.ones((7, 4))
    exact = np.linalg.solve(np.linalg.cholesky(matrices).transpose(0, 2, 1), np.ones((7, 4, 1)))[..., 0]
    np.testing.assert_allclose(solve_transposed(factor, vectors), exact, atol=1e-4)


def test_priors_of_parameters_may_not_depend_on_latents_of_rows():
    def program(y):
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", dist.Normal(0, 1))
        slope = numpyro.sample("slope", dist.Normal(z.mean(), 1.0))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(slope * z, 1.0), obs=y)

    with pytest.raises(ModelError, match="the prior of 'slope' depends on latents with a value in each row"):
        ev.Model.from_numpyro(program).bind({"y": np.arange(6, dtype=np.float32)})


@pytest.mark.parametrize("handler", [handlers.scale(scale=2.0), handlers.mask(mask=False)])
def test_scaled_and_masked_latents_are_refused(handler):
    def program(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with handler, numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", dist.Normal(0, scale))
            numpyro.sample("y", dist.Normal(z, 1.0), obs=y)

    with pytest.raises(ModelError, match="'z' has a value in each row and is scaled or masked"):
        ev.Model.from_numpyro(program).bind({"y": np.arange(6, dtype=np.float32)})


def folded(y):
    """Two values of z explain each y."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + (z + 0.5) ** 2, 0.1), obs=y)


@pytest.mark.reference
def test_several_modes_of_a_latent_are_found_and_the_run_is_repeated():
    rng = np.random.default_rng(0)
    y = (0.3 + (rng.normal(size=50) + 0.5) ** 2 + 0.1 * rng.normal(size=50)).astype(np.float32)
    found = ev.estimate(ev.Model.from_numpyro(folded), {"y": y})
    z, mu = np.linspace(-7, 7, 20_001), np.linspace(-0.2, 0.8, 401)

    def log_likelihood(mu):
        log_terms = (
            -0.5 * z**2 - 0.5 * ((y[:, None] - mu - (z + 0.5) ** 2) / 0.1) ** 2 - np.log(2 * np.pi * 0.1)
        )
        return np.sum(np.log(np.trapezoid(np.exp(log_terms), z)))

    logs = np.array([log_likelihood(one) for one in mu]) - 0.5 * mu**2 - 0.5 * np.log(2 * np.pi)
    exact = logs.max() + np.log(np.trapezoid(np.exp(logs - logs.max()), mu))
    assert abs(found.log_evidence - exact) < 4 * found.standard_error < 0.4
    assert abs(found.diagnostics["inner_shift"]) < 0.1 and "coarse inner integrals" not in found.signs
    assert found.diagnostics["inner_rule"] == 2
    effects = ev.group_effects(ev.Model.from_numpyro(folded), found, {"y": y})
    # Both values of z that explain y count: the larger deviates by half their distance or less.
    shares = np.exp(found.weighted.log_weights - np.logaddexp.reduce(found.weighted.log_weights))
    distance = np.sqrt(np.maximum(y - shares @ found.weighted["mu"], 0))
    assert np.all(effects["z (sd)"] < distance + 0.3) and np.median(effects["z (sd)"]) > 0.2


@pytest.mark.reference
def test_a_run_stopped_in_its_repetition_keeps_the_first_result():
    y = (0.3 + (np.random.default_rng(0).normal(size=50) + 0.5) ** 2).astype(np.float32)
    seen = []

    def stop(update):
        seen.append(update.num_observations)
        if len(seen) > 1 and seen[-1] < seen[-2]:
            raise KeyboardInterrupt

    few = ev.SGAIS(num_particles=32, chunk_size=10)
    stopped = pytest.warns(ev.errors.EvidenceWarning, match="stopped when the run was repeated with better")
    # Coarse integrals have peaks where there are none, so that weights may be heavy too.
    coarse = pytest.warns(ev.errors.DiagnosticWarning, match="integrals over the latents|importance weights")
    with stopped, coarse:
        found = ev.estimate(ev.Model.from_numpyro(folded), {"y": y}, method=few, progress=stop)
    assert not found.completed and found.num_observations == 50 > seen[-1]
    assert "coarse inner integrals" in found.signs


@pytest.mark.parametrize("count", [8, 1500])
def test_rows_for_a_search_are_counted_without_padding(count):
    data = {"y": np.resize(EFFECTS, count), "sigma": np.resize(ERRORS, count)}
    arrays = on_device(data)
    few = few_of(ev.Model.from_numpyro(schools).bind(data), Window(arrays, 0, count))
    assert len(arrays["y"]) >= count and few.size == min(count, FEW_ROWS)
