"""Symmetric functions of exchangeable parameters: sums, squares, products, largest values."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import gammaln

import evidentia as ev

from .problem import LOG_TWO_PI, ROWS, Candidate, Drawn, log_integral_of, log_uniform, pick, single, wide


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
def _sum_model(size: int) -> ev.Model:
    prior = {"x": dist.Normal(0.0, 1.0).expand([size]).to_event(1)}
    return ev.Model(prior, _about(lambda params: params["x"].sum()))


def sum_of_normals(generator: np.random.Generator) -> Drawn:
    """Exchangeable normals that enter through their sum."""
    size, count = pick(generator, (2, 4, 7, 12, 25)), pick(generator, ROWS[:3])
    centre, noise = generator.normal(0, np.sqrt(size)), log_uniform(generator, -1, 1)
    data, mean, error, log_factor = _rows_about(generator, centre, count, noise)
    truth = log_factor + stats.norm.logpdf(mean, 0, np.sqrt(size + error**2))
    gain = mean / (size + error**2)
    # Along the sum the posterior is narrower than the prior; across it, it is the prior.
    log_posterior = -0.5 * size * LOG_TWO_PI + 0.5 * np.log((size + error**2) / error**2)
    second = Candidate({"x": np.full(size, gain)}, log_posterior)
    return Drawn(_sum_model(size), data, truth, {"size": size, "rows": count, "noise": noise}, second)


@cache
def _squares_model(size: int) -> ev.Model:
    prior = {"x": dist.Normal(0.0, 1.0).expand([size]).to_event(1)}
    return ev.Model(prior, _about(lambda params: jnp.sum(params["x"] ** 2)))


def sum_of_squares(generator: np.random.Generator) -> Drawn:
    """Normals that enter through the sum of their squares: signs, orders and rotations."""
    size, count = pick(generator, (2, 3, 5, 10)), pick(generator, ROWS[:3])
    centre, noise = generator.chisquare(size), log_uniform(generator, -0.5, 1)
    data, mean, error, log_factor = _rows_about(generator, centre, count, noise)

    def log_density(log_square, scale=1.0):
        square = np.exp(log_square)
        return stats.norm.logpdf(mean, square, error) + stats.chi2.logpdf(square, size) + log_square

    truth = log_factor + log_integral_of(log_density, -60 / size - 5, np.log(200 + 10 * abs(mean)))

    def again() -> float:
        grid = np.linspace(1e-9, 200 + 10 * abs(mean), 2_000_001)  # of the radius squared, or its root
        radius = np.sqrt(grid[-1]) * np.linspace(0, 1, len(grid))[1:]
        values = stats.norm.pdf((mean - radius**2) / error) / error * stats.chi.pdf(radius, size)
        return float(log_factor + np.log(np.trapezoid(values, radius)))

    return Drawn(_squares_model(size), data, truth, {"size": size, "rows": count, "noise": noise}, again)


@cache
def _product_model() -> ev.Model:
    prior = {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}
    return ev.Model(prior, _about(lambda params: params["a"] * params["b"]))


def product(generator: np.random.Generator) -> Drawn:
    """The product of two normals, which can change sign together and be exchanged."""
    count, noise = pick(generator, ROWS[:3]), log_uniform(generator, -1, 1)
    centre = pick(generator, (0.0, 0.5, 3.0))
    data, mean, error, log_factor = _rows_about(generator, centre, count, noise)

    def log_density(a):  # b is integrated out
        return stats.norm.logpdf(a) + stats.norm.logpdf(mean, 0, np.hypot(a, error))

    truth = log_factor + log_integral_of(log_density, 0.0, 12.0) + np.log(2)
    drawn = {"rows": count, "noise": noise, "centre": centre, "edge": 12.0}
    return Drawn(_product_model(), data, truth, drawn)


@cache
def _rates_model(size: int, shape: float) -> ev.Model:
    return ev.Model(
        {"rates": dist.Gamma(shape, 1.0).expand([size]).to_event(1)},
        lambda params, batch: dist.Poisson(params["rates"].sum() * batch["exposure"]).log_prob(batch["y"]),
    )


def sum_of_rates(generator: np.random.Generator) -> Drawn:
    """Counts whose rate is a sum of exchangeable gamma variables."""
    size, shape = pick(generator, ((2, 1.0), (5, 0.2), (8, 1.0), (15, 0.5)))
    count = pick(generator, ROWS[:3])
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
    size, count = pick(generator, (2, 3, 6)), pick(generator, ROWS[:3])
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


FAMILIES = {
    "sum of normals": sum_of_normals,
    "sum of squares": sum_of_squares,
    "product": product,
    "sum of rates": sum_of_rates,
    "largest": largest,
}
