"""Regressions and heavy tails with one or two parameters; truths by quadrature."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

from .problem import Problem, independent, log_integral, over_rows, problem, single

NORMAL = stats.norm.logpdf


def logistic(count: int, labels=None, order=None, scale: float = 2.5) -> Problem:
    """Logistic regression with one feature; `labels(x)` gives labels without noise."""
    generator = np.random.default_rng(0)
    x = single(generator.standard_normal(count))
    noisy = generator.random(count) < expit(1.5 * x - 0.5)
    y = single(noisy if labels is None else labels(x))
    if order is not None:
        x, y = (array[order(x, y)] for array in (x, y))

    def log_likelihood(params, batch):
        logits = params["slope"] * batch["x"] + params["intercept"]
        return batch["y"] * logits - jax.nn.softplus(logits)

    def pointwise(slope, intercept, x, y):
        logits = slope * x + intercept
        return y * logits - np.logaddexp(0, logits)

    prior = {"slope": dist.Normal(0.0, scale), "intercept": dist.Normal(0.0, scale)}
    log_prior = independent(*[lambda value: NORMAL(value, 0, scale)] * 2)
    bound = (-8 * scale, 8 * scale)
    truth = log_integral(over_rows(pointwise, log_prior, x, y), bound, bound)
    return problem(prior, log_likelihood, truth, x=x, y=y)


def poisson(count: int) -> Problem:
    """Poisson regression with one feature."""
    generator = np.random.default_rng(0)
    x = single(generator.standard_normal(count))
    y = single(generator.poisson(np.exp(0.7 * x + 0.3)))

    def log_likelihood(params, batch):
        return dist.Poisson(jnp.exp(params["slope"] * batch["x"] + params["intercept"])).log_prob(batch["y"])

    def pointwise(slope, intercept, x, y):
        logs = slope * x + intercept
        return y * logs - np.exp(logs) - gammaln(y + 1)

    prior = {"slope": dist.Normal(0.0, 1.0), "intercept": dist.Normal(0.0, 1.0)}
    truth = log_integral(over_rows(pointwise, independent(NORMAL, NORMAL), x, y), (-6, 6), (-6, 6))
    return problem(prior, log_likelihood, truth, x=x, y=y)


def negative_binomial(count: int) -> Problem:
    """Counts with more spread than Poisson's: log mean and log concentration."""
    y = single(np.random.default_rng(0).negative_binomial(2.0, 0.3, count))

    def log_likelihood(params, batch):
        mean, concentration = jnp.exp(params["log_mean"]), jnp.exp(params["log_concentration"])
        return dist.NegativeBinomial2(mean, concentration).log_prob(batch["y"])

    def pointwise(log_mean, log_concentration, y):
        mean, size = np.exp(log_mean), np.exp(log_concentration)
        constant = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        return constant + size * np.log(size / (size + mean)) + y * np.log(mean / (size + mean))

    prior = {"log_mean": dist.Normal(0.0, 2.0), "log_concentration": dist.Normal(0.0, 2.0)}
    log_prior = independent(*[lambda value: NORMAL(value, 0, 2)] * 2)
    truth = log_integral(over_rows(pointwise, log_prior, y), (-12, 12), (-12, 12))
    return problem(prior, log_likelihood, truth, y=y)


def gamma(count: int) -> Problem:
    """Gamma rows with unknown shape and rate, both log-normal."""
    y = single(np.random.default_rng(0).gamma(3.0, 0.5, count))

    def log_likelihood(params, batch):
        return dist.Gamma(params["shape"], params["rate"]).log_prob(batch["y"])

    def pointwise(log_shape, log_rate, y):
        shape, rate = np.exp(log_shape), np.exp(log_rate)
        return shape * log_rate - gammaln(shape) + (shape - 1) * np.log(y) - rate * y

    prior = {"shape": dist.LogNormal(0.0, 1.0), "rate": dist.LogNormal(0.0, 1.0)}
    truth = log_integral(over_rows(pointwise, independent(NORMAL, NORMAL), y), (-6, 6), (-6, 6))
    return problem(prior, log_likelihood, truth, y=y)


def cauchy_prior(count: int) -> Problem:
    """A normal mean with a Cauchy prior, the data far out in its tail."""
    y = single(np.random.default_rng(0).normal(30.0, 1.0, count))
    log_joint = over_rows(lambda mean, y: NORMAL(y, mean), independent(stats.cauchy.logpdf), y)
    return problem(
        {"mean": dist.Cauchy(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["mean"], 1.0).log_prob(batch["y"]),
        log_integral(log_joint, (-500, 500)),
        y=y,
    )


def separable_cauchy(count: int) -> Problem:
    """Separable logistic regression without intercept, the slope with a Cauchy prior."""
    x = single(np.random.default_rng(0).standard_normal(count))
    y = single(x > 0)

    def log_likelihood(params, batch):
        logits = params["slope"] * batch["x"]
        return batch["y"] * logits - jax.nn.softplus(logits)

    # With t = asinh(slope) the prior's tail falls exponentially.
    def pointwise(t, x, y):
        logits = np.sinh(t) * x
        return y * logits - np.logaddexp(0, logits)

    def log_prior(points):
        t = points[:, 0]
        return -np.log(np.pi) - 2 * np.log(np.cosh(t)) + np.log(np.cosh(t))

    truth = log_integral(over_rows(pointwise, log_prior, x, y), (-30, 60))
    return problem({"slope": dist.Cauchy(0.0, 1.0)}, log_likelihood, truth, x=x, y=y)


def student(count: int) -> Problem:
    """Location and log scale of Student-t rows with two degrees of freedom."""
    y = single(1.0 + 0.5 * np.random.default_rng(0).standard_t(2.0, count))

    def log_likelihood(params, batch):
        return dist.StudentT(2.0, params["location"], jnp.exp(params["log_scale"])).log_prob(batch["y"])

    def pointwise(location, log_scale, y):
        scale = np.exp(log_scale)
        return stats.t.logpdf((y - location) / scale, 2.0) - log_scale

    prior = {"location": dist.Normal(0.0, 3.0), "log_scale": dist.Normal(0.0, 1.0)}
    log_prior = independent(lambda value: NORMAL(value, 0, 3), NORMAL)
    truth = log_integral(over_rows(pointwise, log_prior, y), (-20, 20), (-6, 6))
    return problem(prior, log_likelihood, truth, y=y)


def two_outliers(distance: float) -> Problem:
    """Two Cauchy rows far apart: the posterior of their location has two modes."""
    y = single([-distance / 2, distance / 2])
    log_prior = independent(lambda value: NORMAL(value, 0, 20))
    log_joint = over_rows(lambda location, y: stats.cauchy.logpdf(y - location), log_prior, y)
    return problem(
        {"location": dist.Normal(0.0, 20.0)},
        lambda params, batch: dist.Cauchy(params["location"], 1.0).log_prob(batch["y"]),
        log_integral(log_joint, (-160, 160)),
        y=y,
    )


def horseshoe(size: int, count: int) -> Problem:
    """Normal means with a horseshoe prior; row i informs mean i mod `size`.

    Given the global scale, the means are independent: log p(D) = log ∫ p(τ) Π_k ∫ p(λ_k)
    N(ȳ_k; 0, τ²λ_k² + 1/m) dλ_k dτ, with m rows for each mean.
    """
    generator, group = np.random.default_rng(0), np.arange(count) % size
    means = np.where(np.arange(size) < 1, 4.0, 0.0)
    y = single(means[group] + generator.standard_normal(count))
    repeats = count // size

    def log_likelihood(params, batch):
        mean = params["global_scale"] * params["local_scales"] * params["standard_means"]
        return dist.Normal(mean[batch["group"]], 1.0).log_prob(batch["y"])

    averages = np.array([y[group == k].mean(dtype=float) for k in range(size)])
    # log τ and log λ on a grid: half-Cauchy densities fall exponentially there.
    logs = np.linspace(-25, 25, 4001)
    log_cauchy = np.log(2 / np.pi) + logs - np.logaddexp(0, 2 * logs) + np.log(logs[1] - logs[0])
    sums = np.logaddexp(2 * np.linspace(-50, 50, 8001), -np.log(repeats))  # log variance of an average
    parts = [-0.5 * (sums + np.log(2 * np.pi) + average**2 * np.exp(-sums)) for average in averages]
    inner = sum(np.array([logsumexp(log_cauchy + part[i : i + 4001]) for i in range(4001)]) for part in parts)
    within = np.sum((y - averages[group]) ** 2, dtype=float)
    constant = -0.5 * (within + (count - size) * np.log(2 * np.pi) + size * np.log(repeats))
    prior = {
        "global_scale": dist.HalfCauchy(1.0),
        "local_scales": dist.HalfCauchy(jnp.ones(size)).to_event(1),
        "standard_means": dist.Normal(jnp.zeros(size), 1.0).to_event(1),
    }
    truth = logsumexp(log_cauchy + inner) + constant
    return problem(prior, log_likelihood, truth, y=y, group=group.astype(np.int32))


FEW_ROWS = {
    "logistic, 1 row": partial(logistic, 1),
    "logistic, 3 rows": partial(logistic, 3),
    "logistic, 20 rows": partial(logistic, 20),
    "logistic, separable": partial(logistic, 10, lambda x: x > 0.1),
    "logistic, separable, wide prior": partial(logistic, 30, lambda x: x > 0.1, scale=20.0),
    "Poisson, 5 rows": partial(poisson, 5),
    "Poisson, 50 rows": partial(poisson, 50),
}
MANY_ROWS = {
    "logistic, 5,000 rows": partial(logistic, 5000),
    "negative binomial, 200 rows": partial(negative_binomial, 200),
    "gamma, 100 rows": partial(gamma, 100),
}
ORDERS = {"logistic, labels sorted": partial(logistic, 2000, order=lambda x, y: np.argsort(y, kind="stable"))}
TAILS = {
    "Cauchy prior, 5 rows": partial(cauchy_prior, 5),
    "separable, Cauchy prior": partial(separable_cauchy, 20),
    "Student-t, 30 rows": partial(student, 30),
    "two outliers, 20 apart": partial(two_outliers, 20.0),
    "horseshoe, 5 means": partial(horseshoe, 5, 50),
}
