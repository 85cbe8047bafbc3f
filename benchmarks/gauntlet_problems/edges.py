"""Jumps and edges: change points, ends of supports, truncation."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr
from scipy import stats
from scipy.special import logsumexp

from .problem import Problem, independent, log_integral, over_rows, problem, single

NORMAL = stats.norm.logpdf


def change_point(count: int) -> Problem:
    """The mean changes at an unknown time, uniform over the rows' times.

    The likelihood is constant between two rows: the evidence is a sum over intervals, the means
    integrated out.
    """
    generator = np.random.default_rng(0)
    t = single(np.sort(generator.random(count)))
    y = single(np.where(t < 0.4, 0.0, 1.5) + generator.standard_normal(count))
    edges, target = np.concatenate([[0.0], t.astype(float), [1.0]]), y.astype(float)

    def segment(rows):
        n, precision = len(rows), 1 / 9 + len(rows)
        square = np.sum(rows**2) - np.sum(rows) ** 2 / precision
        return -0.5 * (n * np.log(2 * np.pi) + np.log(9 * precision) + square)

    terms = [segment(target[:i]) + segment(target[i:]) for i in range(count + 1)]
    with np.errstate(divide="ignore"):
        truth = logsumexp(np.array(terms) + np.log(np.diff(edges)))

    def log_likelihood(params, batch):
        # A row is late if its time is at least that of the change.
        mean = jnp.where(batch["t"] < params["time"], params["before"], params["after"])
        return dist.Normal(mean, 1.0).log_prob(batch["y"])

    prior = {
        "time": dist.Uniform(0.0, 1.0),
        "before": dist.Normal(0.0, 3.0),
        "after": dist.Normal(0.0, 3.0),
    }
    return problem(prior, log_likelihood, truth, t=t, y=y)


def uniform_end(count: int) -> Problem:
    """y ~ U(0, θ) with a gamma prior: zero likelihood below the largest row."""
    y = single(np.random.default_rng(0).uniform(0, 2.0, count))
    largest = float(y.max())

    def log_density(points):
        theta = largest + points[:, 0]
        return stats.gamma.logpdf(theta, 2.0) - count * np.log(theta)

    def log_likelihood(params, batch):
        inside = batch["y"] <= params["end"]
        return jnp.where(inside, -jnp.log(params["end"]), -jnp.inf)

    truth = log_integral(log_density, (0, 40))
    return problem({"end": dist.Gamma(2.0, 1.0)}, log_likelihood, truth, y=y)


def shifted_exponential(count: int) -> Problem:
    """y ~ θ + Exp(1): zero likelihood above the smallest row."""
    y = single(1.0 + np.random.default_rng(0).exponential(size=count))
    least, total = float(y.min()), y.sum(dtype=float)

    def log_density(points):
        theta = least - points[:, 0]
        return NORMAL(theta, 0, 3) - total + count * theta

    def log_likelihood(params, batch):
        late = batch["y"] - params["start"]
        return jnp.where(late >= 0, -late, -jnp.inf)

    truth = log_integral(log_density, (0, 40))
    return problem({"start": dist.Normal(0.0, 3.0)}, log_likelihood, truth, y=y)


def truncated(count: int) -> Problem:
    """Normal rows of which only the positive ones are seen; mean and log scale are unknown."""
    generator = np.random.default_rng(0)
    y = generator.normal(-0.5, 1.0, 20 * count)
    y = single(y[y > 0][:count])

    def log_likelihood(params, batch):
        mean, scale = params["mean"], jnp.exp(params["log_scale"])
        inside = dist.Normal(0.0, 1.0).log_prob((batch["y"] - mean) / scale) - params["log_scale"]
        return inside - log_ndtr(mean / scale)

    def pointwise(mean, log_scale, y):
        scale = np.exp(log_scale)
        return NORMAL(y, mean, scale) - stats.norm.logcdf(mean / scale)

    prior = {"mean": dist.Normal(0.0, 2.0), "log_scale": dist.Normal(0.0, 0.5)}
    log_prior = independent(lambda value: NORMAL(value, 0, 2), lambda value: NORMAL(value, 0, 0.5))
    truth = log_integral(over_rows(pointwise, log_prior, y), (-14, 10), (-3.5, 3.5))
    return problem(prior, log_likelihood, truth, y=y)


PROBLEMS = {
    "change point, 100 rows": partial(change_point, 100),
    "change point, 2,000 rows": partial(change_point, 2000),
    "end of a uniform, 20 rows": partial(uniform_end, 20),
    "end of a uniform, 500 rows": partial(uniform_end, 500),
    "shifted exponential, 50 rows": partial(shifted_exponential, 50),
    "truncated normal, 50 rows": partial(truncated, 50),
}
