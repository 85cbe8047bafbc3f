"""Exchangeable positive and bounded parameters: sums of rates, largest values."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import gammaln

import evidentia as ev

from .problem import LOG_TWO_PI, Candidate, Drawn, log_integral_of, log_uniform, pick, single, wide

RATES = ((2, 1.0, 100), (5, 0.2, 1), (8, 1.0, 10), (15, 0.5, 10))  # parts, their shape, rows
LARGEST = ((2, 1), (3, 100), (6, 10))


def _rows_about(generator, centre: float, count: int, noise: float):
    """Rows about a value with their known deviation, and the sufficient numbers."""
    deviation = np.full(count, single(noise))
    y = single(centre + noise * generator.standard_normal(count))
    mean, sigma = wide(y).mean(), float(deviation[0])
    error = sigma / np.sqrt(count)
    log_factor = stats.norm.logpdf(wide(y), mean, sigma).sum() + 0.5 * LOG_TWO_PI + np.log(error)
    return {"y": y, "noise": deviation}, mean, error, log_factor


def _about(function):
    return lambda params, batch: dist.Normal(function(params), batch["noise"]).log_prob(batch["y"])


@cache
def _rates_model(size: int, shape: float) -> ev.Model:
    return ev.Model(
        {"rates": dist.Gamma(shape, 1.0).expand([size]).to_event(1)},
        lambda params, batch: dist.Poisson(params["rates"].sum() * batch["exposure"]).log_prob(batch["y"]),
    )


def sum_of_rates(generator: np.random.Generator) -> Drawn:
    """Counts whose rate is a sum of exchangeable gamma variables."""
    size, shape, count = pick(generator, RATES)
    exposure = single(log_uniform(generator, -1, 1) * generator.uniform(0.5, 2, count))
    y = single(generator.poisson(generator.gamma(size * shape) * exposure))
    after = size * shape + wide(y).sum(), 1 + wide(exposure).sum()
    truth = gammaln(after[0]) - gammaln(size * shape) - after[0] * np.log(after[1])
    truth += np.sum(wide(y) * np.log(wide(exposure)) - gammaln(wide(y) + 1))
    total = (after[0] + 0.5) / after[1]
    # Given their sum, the shares have their prior, a Dirichlet.
    shares = np.arange(1.0, size + 1) / np.sum(np.arange(1.0, size + 1))
    log_posterior = stats.gamma.logpdf(total, after[0], scale=1 / after[1])
    log_posterior += stats.dirichlet.logpdf(shares, np.full(size, shape)) - (size - 1) * np.log(total)
    second = Candidate({"rates": total * shares}, log_posterior)
    drawn = {"size": size, "shape": shape, "rows": count, "total": float(y.sum())}
    return Drawn(_rates_model(size, shape), {"y": y, "exposure": exposure}, truth, drawn, second)


@cache
def _largest_model(size: int) -> ev.Model:
    prior = {"x": dist.Uniform(0.0, 1.0).expand([size]).to_event(1)}
    return ev.Model(prior, _about(lambda params: jnp.max(params["x"])))


def largest(generator: np.random.Generator) -> Drawn:
    """The largest of exchangeable uniform variables."""
    size, count = pick(generator, LARGEST)
    centre, noise = generator.beta(size, 1), log_uniform(generator, -1, 0.5)
    data, mean, error, log_factor = _rows_about(generator, centre, count, noise)

    def log_density(x):
        return stats.norm.logpdf(mean, x, error) + np.log(size) + (size - 1) * np.log(np.maximum(x, 1e-300))

    truth = log_factor + log_integral_of(log_density, 0.0, 1.0)

    def again() -> float:
        draws = (np.arange(2_000_000) + 0.5) / 2_000_000
        heights = stats.norm.logpdf(mean, draws ** (1 / size), error)  # quantiles of the maximum
        return float(log_factor + np.log(np.mean(np.exp(heights - heights.max()))) + heights.max())

    return Drawn(_largest_model(size), data, truth, {"size": size, "rows": count, "noise": noise}, again)


FAMILIES = {"sum of rates": sum_of_rates, "largest": largest}
