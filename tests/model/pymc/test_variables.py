"""Each kind of PyMC variable, against the same model in NumPyro."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pymc as pm
import pytest
from scipy import integrate, special

import evidentia as ev
from evidentia.compilation import in_float64
from tests.model.pymc.pairs import PAIRS, Y, in_numpyro, in_pymc

DATA = {"y": Y}
ORDERED = pm.distributions.transforms.ordered


def bound(prior):
    return ev.Model.from_pymc(in_pymc(prior)).bind(DATA)


def at(bound, params, function):
    return np.asarray(jax.vmap(function)({name: params[name] for name in bound.parameter_shapes}))


@pytest.mark.parametrize("kind", PAIRS)
def test_prior_and_likelihood_are_those_of_numpyro(kind):
    """Log densities agree at draws from either prior, and the medians of the draws do.

    A median of n draws has a standard error of about 1.25 deviations / √n, here from quartiles.
    """
    mine = bound(PAIRS[kind][0])
    same = ev.Model.from_numpyro(in_numpyro(PAIRS[kind][1])).bind(DATA)
    assert mine.parameter_shapes == same.parameter_shapes
    ours, theirs = (
        one.constrain(one.sample_prior(jax.random.key(seed), 1024)) for seed, one in enumerate((mine, same))
    )
    for draws in (ours, theirs):
        few = {name: value[:8] for name, value in draws.items()}
        for one in ("log_prior_of", "likelihood"):
            functions = [
                each.densities.log_prior_of
                if one == "log_prior_of"
                else lambda params, each=each: each.densities.pointwise(params, DATA)
                for each in (mine, same)
            ]
            first, second = (at(each, few, f) for each, f in zip((mine, same), functions, strict=True))
            np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-4)
    for name in ours:
        quartiles = np.quantile(theirs[name], [0.25, 0.75], axis=0)
        error = 1.25 * np.diff(quartiles, axis=0)[0] / 1.35 * np.sqrt(2 / 1024)
        assert (np.abs(np.median(ours[name], 0) - np.median(theirs[name], 0)) < 5 * error).all()


@pytest.mark.parametrize("kind", PAIRS)
def test_transforms_undo_and_have_their_jacobian(kind):
    """unconstrain(constrain(u)) is u; the prior of u is that of θ times |det ∂θ/∂u|."""
    mine = bound(PAIRS[kind][0])
    position = np.linspace(-0.9, 0.8, mine.num_parameters).astype(np.float32)
    params, _ = mine.place(position)
    np.testing.assert_allclose(mine.unconstrain(params), position, rtol=1e-3, atol=1e-3)
    if sum(np.size(value) for value in params.values()) != mine.num_parameters:
        return  # a simplex, or values that sum to zero: against NumPyro's above
    with in_float64():
        wide = position.astype(np.float64)

        def flat(u):
            return jnp.concatenate([jnp.ravel(value) for value in mine.densities.place(u)[0].values()])

        jacobian = jnp.linalg.slogdet(jax.jacfwd(flat)(wide))[1]
        placed, terms = mine.densities.place(wide)
        assert jnp.result_type(*terms.values()) == jnp.float64
        expected = mine.densities.log_prior_of(placed) + jacobian
        np.testing.assert_allclose(sum(terms.values()), expected, rtol=1e-6)


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


@pytest.mark.parametrize("kind", ALONE)
def test_single_variables_have_the_integral_one(kind):
    """And the mean of their draws is that of the density, to four standard errors."""
    mine = bound(ALONE[kind])
    u = np.linspace(-40, 40, 20_001, dtype=np.float32)[:, None]
    density = np.nan_to_num(np.exp(mine.log_priors(u)))
    x = np.asarray(mine.constrain(u)["x"], np.float64)
    assert integrate.trapezoid(density, u[:, 0]) == pytest.approx(1, abs=1e-3)
    draws = np.asarray(mine.constrain(mine.sample_prior(jax.random.key(0), 1024))["x"])
    mean = integrate.trapezoid(density * np.where(density > 0, x, 0), u[:, 0])
    assert abs(draws.mean() - mean) < 4 * draws.std() / np.sqrt(1024)


def test_the_density_of_ordered_values_is_normalised():
    """3! and 4! times the density of three and four independent ones; draws ascend."""

    def prior():
        pm.Normal("normal", 1.0, 2.0, shape=3, transform=ORDERED, initval=[-1.0, 0.0, 1.0])
        pm.Gamma("gamma", 2.0, 3.0, shape=4, transform=ORDERED, initval=[0.1, 0.2, 0.3, 0.4])

    mine = bound(prior)
    params = mine.constrain(mine.sample_prior(jax.random.key(0), 1024))
    assert all((np.diff(value) >= 0).all() for value in params.values())
    few = {name: value[:8] for name, value in params.items()}
    single = dist.Normal(1.0, 2.0).log_prob(few["normal"]).sum(1) + dist.Gamma(2.0, 3.0).log_prob(
        few["gamma"]
    ).sum(1)
    expected = np.asarray(single) + np.log(6 * 24)
    np.testing.assert_allclose(at(mine, few, mine.densities.log_prior_of), expected, rtol=1e-5, atol=1e-4)


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


def test_cholesky_factors_of_covariances_are_normalised():
    """The density of L from those of correlations and deviations, with a numerical Jacobian."""
    size, eta = 3, 2.0

    def prior():
        pm.LKJCholeskyCov("chol", n=size, eta=eta, sd_dist=pm.Exponential.dist(0.5, shape=size))

    mine = bound(prior)
    draws = mine.constrain(mine.sample_prior(jax.random.key(0), 1024))["chol"]
    below = np.tril_indices(size, -1)

    def parts(packed):
        factor = jnp.zeros((size, size)).at[np.tril_indices(size)].set(packed)
        deviations = jnp.linalg.norm(factor, axis=1)
        return deviations, factor / deviations[:, None]

    def flat(packed):
        deviations, correlation = parts(packed)
        return jnp.concatenate([deviations, correlation[below]])

    for packed in draws[:4]:
        deviations, correlation = parts(packed)
        log_det = jnp.linalg.slogdet(jax.jacfwd(flat)(packed))[1]
        expected = dist.LKJCholesky(size, eta).log_prob(correlation) + log_det
        expected += dist.Exponential(0.5).log_prob(deviations).sum()
        found = mine.densities.log_prior_of({"chol": packed})
        assert float(found) == pytest.approx(float(expected), abs=1e-3)
    deviations, correlation = jax.vmap(parts)(draws)
    correlations = np.asarray(jnp.einsum("nij,nkj->nik", correlation, correlation))[:, *below]
    # Marginally a correlation is 2 Beta(a, a) - 1 with a = η + n/2 - 1, of variance 1 / (2a + 1).
    np.testing.assert_allclose(correlations.var(0), 1 / (2 * (eta + size / 2 - 1) + 1), rtol=0.2)
    np.testing.assert_allclose(np.mean(deviations, 0), 2.0, atol=4 * 2.0 / 32)


def test_scaled_erfc_keeps_its_digits():
    from evidentia.model.pymc.special import inverse_erfc, scaled_erfc

    x = np.array([-2.0, 0.0, 0.7, 3.0, 9.9, 10.1, 50.0, 1e4], np.float32)
    np.testing.assert_allclose(scaled_erfc(x), special.erfcx(x.astype(float)), rtol=3e-5)
    np.testing.assert_allclose(inverse_erfc(np.float32([0.1, 1.5])), special.erfcinv([0.1, 1.5]), rtol=1e-5)
