"""Each kind of PyMC variable, against the same model in NumPyro."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pymc as pm
import pytest
from scipy import integrate, special

import evidentia as ev
from evidentia.model.program import Densities
from evidentia.model.pymc.special import inverse_erfc, scaled_erfc
from evidentia.model.statements import latent_sites, statements_of
from evidentia.system.compilation import in_float64
from tests.model.pymc.pairs import PAIRS, Y, in_numpyro, in_pymc

DATA = {"y": Y}
ORDERED = pm.distributions.transforms.ordered
QUICK = {"xla_backend_optimization_level": 0}  # programs that run once


def densities(model: ev.Model) -> Densities:
    """The functions of a model as `Model.bind` makes them, without its checks."""
    sites = latent_sites(statements_of(model.prior, DATA))
    return Densities(model.prior, sites, model.log_likelihood, DATA)


@cache
def of_pymc(prior) -> Densities:
    return densities(ev.Model.from_pymc(in_pymc(prior)))


def draws(found: Densities, count: int):
    def draw(key):
        return found.place(found.draw(key))[0]

    keys = jax.random.split(jax.random.key(0), count)
    return jax.jit(jax.vmap(draw), compiler_options=QUICK)(keys)


def heights(found: Densities, params) -> np.ndarray:
    """Log prior density, and log-likelihood of each row, at several parameters."""

    def height(params):
        return jnp.append(found.pointwise(params, DATA), found.log_prior_of(params))

    return np.asarray(jax.jit(jax.vmap(height), compiler_options=QUICK)(params))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_prior_and_likelihood_are_those_of_numpyro(kind):
    mine = of_pymc(PAIRS[kind][0])
    same = densities(ev.Model.from_numpyro(in_numpyro(PAIRS[kind][1])))
    assert mine.sites == same.sites
    params = draws(same, 8)
    np.testing.assert_allclose(heights(mine, params), heights(same, params), rtol=1e-5, atol=1e-4)


@pytest.mark.reference
@pytest.mark.parametrize("kind", PAIRS)
def test_transforms_undo_and_have_their_jacobian(kind):
    """unplace(place(u)) is u; the prior of u is that of θ times |det ∂θ/∂u|, in float64."""
    mine = of_pymc(PAIRS[kind][0])

    def checked(position):
        params, terms = mine.place(position)
        jacobian = jax.jacfwd(lambda u: flat(mine.place(u)[0]))(position)
        return mine.unplace(params), sum(terms.values()), mine.log_prior_of(params), jacobian

    def flat(params):
        return jnp.concatenate([jnp.ravel(value) for value in params.values()])

    with in_float64():
        position = np.linspace(-0.9, 0.8, mine.size)
        again, of_position, of_params, jacobian = jax.jit(checked, compiler_options=QUICK)(position)
        assert of_position.dtype == np.float64
        np.testing.assert_allclose(again, position, rtol=1e-6, atol=1e-6)
        if jacobian.shape[0] == jacobian.shape[1]:  # simplexes and sums of zero: NumPyro's, above
            np.testing.assert_allclose(of_position, of_params + np.linalg.slogdet(jacobian)[1], rtol=1e-6)


ALONE = {
    "half Student-t": lambda: pm.HalfStudentT("x", nu=3, sigma=2),
    "skew normal": lambda: pm.SkewNormal("x", mu=0, sigma=1, alpha=2),
    "exponential plus normal": lambda: pm.ExGaussian("x", 0, 1, nu=1),
    "triangular": lambda: pm.Triangular("x", lower=0, upper=2, c=0.5),
    "wald": lambda: pm.Wald("x", mu=1, lam=2),
    "mixture": lambda: pm.NormalMixture("x", w=[0.3, 0.7], mu=[-1, 2], sigma=[1, 0.5]),
    "truncated gamma": lambda: pm.Truncated("x", pm.Gamma.dist(2, 1), lower=0.5, upper=4),
    "named transform": lambda: pm.LogitNormal("x", 0, 1, transform=pm.distributions.transforms.logodds),
}


@pytest.mark.reference
@pytest.mark.parametrize("kind", ALONE)
def test_single_variables_have_the_integral_one(kind):
    """And the mean of their draws is that of the density, to four standard errors."""
    mine = of_pymc(ALONE[kind])
    u = jnp.linspace(-40, 40, 20_001)
    params, terms = jax.jit(jax.vmap(mine.place), compiler_options=QUICK)(u[:, None])
    density = np.nan_to_num(np.exp(np.asarray(terms["x"], np.float64)))
    assert integrate.trapezoid(density, u) == pytest.approx(1, abs=1e-3)
    mean = integrate.trapezoid(np.where(density > 0, density * params["x"], 0), u)
    drawn = draws(mine, 1024)["x"]
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / np.sqrt(1024)


@pytest.mark.slow
def test_the_density_of_ordered_values_is_normalised():
    """3! and 4! times the density of three and four independent ones; draws ascend."""

    def prior():
        pm.Normal("normal", 1.0, 2.0, shape=3, transform=ORDERED, initval=[-1.0, 0.0, 1.0])
        pm.Gamma("gamma", 2.0, 3.0, shape=4, transform=ORDERED, initval=[0.1, 0.2, 0.3, 0.4])

    mine = of_pymc(prior)
    params = draws(mine, 8)
    assert all((np.diff(value) >= 0).all() for value in params.values())
    single = dist.Normal(1.0, 2.0).log_prob(params["normal"]).sum(1)
    single += dist.Gamma(2.0, 3.0).log_prob(params["gamma"]).sum(1)
    found = heights(mine, params)[:, -1]
    np.testing.assert_allclose(found, np.asarray(single) + np.log(6 * 24), rtol=1e-5, atol=1e-4)
    descending = {name: value[:, ::-1] for name, value in params.items()}
    assert (heights(mine, descending)[:, -1] == -np.inf).all()


@pytest.mark.reference
def test_ordered_values_have_the_evidence_of_exchangeable_ones():
    """The order is a name: a model with it has the evidence of the one without."""
    y = {"y": np.random.default_rng(0).normal([-2, 2], 0.5, (40, 2)).ravel()}

    def mixture(**transform):
        with pm.Model() as model:
            mu = pm.Normal("mu", 0, 3, shape=2, initval=[-1, 1], **transform)
            pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=0.5, observed=y["y"])
        return ev.estimate(ev.Model.from_pymc(model))

    ordered, free = mixture(transform=ORDERED), mixture()
    assert abs(ordered.log_evidence - free.log_evidence) < 4 * np.hypot(
        ordered.standard_error, free.standard_error
    )


@pytest.mark.reference
def test_cholesky_factors_of_covariances_are_normalised():
    """The density of L from those of correlations and deviations, with a numerical Jacobian."""
    size, eta = 3, 2.0

    def prior():
        pm.LKJCholeskyCov("chol", n=size, eta=eta, sd_dist=pm.Exponential.dist(0.5, shape=size))

    mine = of_pymc(prior)
    drawn = draws(mine, 1024)["chol"]
    below = np.tril_indices(size, -1)

    def parts(packed):
        factor = jnp.zeros((size, size)).at[np.tril_indices(size)].set(packed)
        deviations = jnp.linalg.norm(factor, axis=1)
        return deviations, factor / deviations[:, None]

    def flat(packed):
        deviations, correlation = parts(packed)
        return jnp.concatenate([deviations, correlation[below]])

    few = drawn[:4]
    deviations, correlation = jax.vmap(parts)(few)
    log_det = jnp.linalg.slogdet(jax.vmap(jax.jacfwd(flat))(few))[1]
    expected = dist.LKJCholesky(size, eta).log_prob(correlation) + log_det
    expected += dist.Exponential(0.5).log_prob(deviations).sum(1)
    np.testing.assert_allclose(heights(mine, {"chol": few})[:, -1], expected, atol=1e-3)
    deviations, correlation = jax.vmap(parts)(drawn)
    correlations = np.asarray(jnp.einsum("nij,nkj->nik", correlation, correlation))[:, *below]
    # Marginally a correlation is 2 Beta(a, a) - 1 with a = η + n/2 - 1, of variance 1 / (2a + 1).
    np.testing.assert_allclose(correlations.var(0), 1 / (2 * (eta + size / 2 - 1) + 1), rtol=0.2)
    np.testing.assert_allclose(np.mean(deviations, 0), 2.0, atol=4 * 2.0 / 32)


@pytest.mark.slow
def test_scaled_erfc_keeps_its_digits():
    x = np.array([-2.0, 0.0, 0.7, 3.0, 9.9, 10.1, 50.0, 1e4], np.float32)
    np.testing.assert_allclose(scaled_erfc(x), special.erfcx(x.astype(float)), rtol=3e-5)
    np.testing.assert_allclose(inverse_erfc(np.float32([0.1, 1.5])), special.erfcinv([0.1, 1.5]), rtol=1e-5)
