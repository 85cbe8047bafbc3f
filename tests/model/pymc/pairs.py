"""The same model in PyMC and in NumPyro, one for each kind of variable."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm

Y = np.array([0.3, -0.7, 1.1, 0.4, 2.0, -1.4], np.float32)
THREE = np.array([0.5, 1.0, 2.0], np.float32)


def in_pymc(prior):
    """A PyMC model with this prior, whose likelihood uses all of its values."""
    with pm.Model() as model:
        prior()
        total = sum((rv.sum() for rv in model.free_RVs), start=0.0)
        pm.Normal("y", total, 2.0, observed=Y)
    return model


def in_numpyro(prior):
    def function(y):
        values = prior()
        total = sum((value.sum() for value in values), start=0.0)
        numpyro.sample("y", dist.Normal(total, 2.0), obs=y)

    return function


def sampled(**distributions):
    return lambda: [numpyro.sample(name, each) for name, each in distributions.items()]


def _hierarchy():
    scale = pm.HalfNormal("scale", 2.0)
    pm.Uniform("x", -scale, 3.0 + scale, shape=2)


def _hierarchy_in_numpyro():
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    x = numpyro.sample("x", dist.Uniform(-scale, 3.0 + scale).expand([2]).to_event(1))
    return [scale, x]


def _positive():
    pm.HalfNormal("half", 2.0)
    pm.Gamma("gamma", 2.0, 3.0)
    pm.InverseGamma("inverse", 3.0, 2.0)
    pm.Exponential("exponential", 2.0)
    pm.HalfCauchy("cauchy", 2.0)
    pm.LogNormal("lognormal", 0.5, 0.7)
    pm.Weibull("weibull", 2.0, 3.0)
    pm.Pareto("pareto", 3.0, 1.5)
    pm.ChiSquared("chi", 3.0)


def _real():
    pm.Normal("normal", 1.0, tau=0.25)
    pm.StudentT("t", nu=5.0, mu=1.0, sigma=2.0)
    pm.Cauchy("cauchy", 1.0, 2.0)
    pm.Laplace("laplace", 1.0, 2.0)
    pm.Logistic("logistic", 1.0, 2.0)
    pm.Gumbel("gumbel", 1.0, 2.0)


def _bounded():
    pm.Beta("beta", 2.0, 3.0)
    pm.Uniform("uniform", -1.0, 2.0)
    pm.VonMises("angle", 0.5, 2.0)
    pm.Kumaraswamy("kumaraswamy", 2.0, 3.0)


def _truncated():
    pm.TruncatedNormal("both", 1.0, 2.0, lower=0.0, upper=3.0)
    pm.TruncatedNormal("lower", 1.0, 2.0, lower=0.5)
    pm.TruncatedNormal("upper", 1.0, 2.0, upper=0.5)
    pm.Truncated("general", pm.Normal.dist(1.0, 2.0), lower=-1.0, upper=2.5)
    pm.TruncatedNormal("vector", 1.0, 2.0, lower=0.0, upper=3.0, shape=3)


def _tail(low, high):
    return dist.TruncatedNormal(1.0, 2.0, low=low, high=high)


def _cholesky():
    pm.MvNormal("mv", np.array([1.0, -1.0]), cov=np.array([[2.0, 0.5], [0.5, 1.0]]))
    pm.MvNormal("chol", np.zeros(2), chol=np.array([[1.0, 0.0], [0.5, 2.0]]), shape=(3, 2))


PAIRS = {
    "scalar": (lambda: pm.Normal("x", 1.0, 2.0), sampled(x=dist.Normal(1.0, 2.0))),
    "vector": (
        lambda: pm.Normal("x", THREE, 2 * THREE, shape=3),
        sampled(x=dist.Normal(THREE, 2 * THREE).to_event(1)),
    ),
    "of one": (
        lambda: pm.Normal("x", 1.0, 2.0, shape=(1,)),
        sampled(x=dist.Normal(1.0, 2.0).expand([1]).to_event(1)),
    ),
    "matrix": (
        lambda: pm.Gamma("x", THREE, 2.0, shape=(2, 3)),
        sampled(x=dist.Gamma(THREE, 2.0).expand([2, 3]).to_event(2)),
    ),
    "hierarchy": (_hierarchy, _hierarchy_in_numpyro),
    "real": (
        _real,
        sampled(
            normal=dist.Normal(1.0, 2.0),
            t=dist.StudentT(5.0, 1.0, 2.0),
            cauchy=dist.Cauchy(1.0, 2.0),
            laplace=dist.Laplace(1.0, 2.0),
            logistic=dist.Logistic(1.0, 2.0),
            gumbel=dist.Gumbel(1.0, 2.0),
        ),
    ),
    "positive": (
        _positive,
        sampled(
            half=dist.HalfNormal(2.0),
            gamma=dist.Gamma(2.0, 3.0),
            inverse=dist.InverseGamma(3.0, 2.0),
            exponential=dist.Exponential(2.0),
            cauchy=dist.HalfCauchy(2.0),
            lognormal=dist.LogNormal(0.5, 0.7),
            weibull=dist.Weibull(3.0, 2.0),
            pareto=dist.Pareto(1.5, 3.0),
            chi=dist.Gamma(1.5, 0.5),
        ),
    ),
    "bounded": (
        _bounded,
        sampled(
            beta=dist.Beta(2.0, 3.0),
            uniform=dist.Uniform(-1.0, 2.0),
            angle=dist.VonMises(0.5, 2.0),
            kumaraswamy=dist.Kumaraswamy(2.0, 3.0),
        ),
    ),
    "truncated": (
        _truncated,
        sampled(
            both=_tail(0.0, 3.0),
            lower=_tail(0.5, None),
            upper=_tail(None, 0.5),
            general=_tail(-1.0, 2.5),
            vector=_tail(0.0, 3.0).expand([3]).to_event(1),
        ),
    ),
    "simplex": (
        lambda: pm.Dirichlet("x", THREE, shape=(2, 3)),
        sampled(x=dist.Dirichlet(THREE).expand([2]).to_event(1)),
    ),
    "multivariate normal": (
        _cholesky,
        sampled(
            mv=dist.MultivariateNormal(np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])),
            chol=dist.MultivariateNormal(np.zeros(2), scale_tril=np.array([[1.0, 0.0], [0.5, 2.0]]))
            .expand([3])
            .to_event(1),
        ),
    ),
    "zero sum": (lambda: pm.ZeroSumNormal("x", 2.0, shape=4), sampled(x=dist.ZeroSumNormal(2.0, (4,)))),
}
