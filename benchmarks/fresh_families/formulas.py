"""Regressions by a formula, with priors in the units of the table."""

from functools import cache

import numpy as np
import numpyro.distributions as dist
from gauntlet_problems.problem import log_integral
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

import evidentia as ev

from .problem import Drawn, log_integral_of, log_trapezoid, log_uniform, pick, single, wide

WIDTHS = (1.0, 10.0)
NORMAL = stats.norm.logpdf


@cache
def _jzs_model(size: int) -> ev.Regression:
    return ev.Regression("y ~ " + " + ".join(f"x{number}" for number in range(size)))


def jzs(generator: np.random.Generator) -> Drawn:
    """The default prior: one integral over g (Rouder and Morey 2012)."""
    size, count = pick(generator, ((1, 5), (2, 30), (5, 300)))
    x = generator.standard_normal((count, size)) * log_uniform(generator, -2, 2) + 3.0
    y = 10 + x @ generator.normal(0, 0.5, size) / x.std() + generator.standard_normal(count)
    centred, target = x - x.mean(0), y - y.mean()
    fitted = centred @ np.linalg.lstsq(centred, target, rcond=None)[0]
    freedom, total = count - 1, target @ target
    unexplained = 1 - (fitted @ fitted) / total
    null = gammaln(freedom / 2) - freedom / 2 * np.log(np.pi * total) - 0.5 * np.log(count)
    prior = stats.invgamma(0.5, scale=count * 0.125 / 2)

    def log_density(u):  # u = log g
        log_bayes = 0.5 * (freedom - size) * np.log1p(np.exp(u)) - 0.5 * freedom * np.log1p(
            np.exp(u) * unexplained
        )
        return log_bayes + prior.logpdf(np.exp(u)) + u

    def second():
        # Contrasts of the rows have covariance σ² (I + g P); σ² is integrated out for each g.
        contrasts = np.linalg.svd(np.eye(count) - 1 / count)[0][:, :freedom]
        z, inside = contrasts.T @ y, contrasts.T @ centred
        values, vectors = np.linalg.eigh(inside @ np.linalg.inv(inside.T @ inside) @ inside.T)
        squares, grid = (vectors.T @ z) ** 2, np.linspace(-25, 70, 9501)
        spread = 1 + np.exp(grid)[:, None] * np.round(values)
        heights = -0.5 * np.log(spread).sum(1) - 0.5 * freedom * np.log(np.pi * (squares / spread).sum(1))
        heights += gammaln(freedom / 2) - 0.5 * np.log(count) + prior.logpdf(np.exp(grid)) + grid
        return log_trapezoid(heights, grid[1] - grid[0])

    data = {"y": y} | {f"x{number}": column for number, column in enumerate(x.T)}
    drawn = {"columns": size, "rows": count, "R²": float(1 - unexplained)}
    return Drawn(_jzs_model(size), data, null + log_integral_of(log_density, -25.0, 75.0), drawn, second)


@cache
def _through_origin_model(width: float) -> ev.Regression:
    return ev.Regression(
        "y ~ 0 + x",
        prior="normal",
        priors={"x": dist.Normal(0.0, width), "scale": dist.HalfNormal(2.0)},
    )


def through_origin(generator: np.random.Generator) -> Drawn:
    """Normal regression without an intercept: the slope is integrated out."""
    width, count = pick(generator, WIDTHS), pick(generator, (3, 30, 300))
    x = wide(single(generator.standard_normal(count) + pick(generator, (0.0, 5.0))))
    y = wide(
        single(
            generator.standard_normal() * x
            + log_uniform(generator, -0.7, 0.7) * generator.standard_normal(count)
        )
    )

    def log_density(u):
        variance = np.exp(2 * u)
        inner = 1 + width**2 * (x @ x) / variance
        squares = y @ y / variance - width**2 * (x @ y / variance) ** 2 / inner
        log_prior = stats.halfnorm.logpdf(np.exp(u), scale=2) + u
        return log_prior - 0.5 * (squares + np.log(inner) + count * (np.log(2 * np.pi) + 2 * u))

    def second():
        values, vectors = np.linalg.eigh(width**2 * np.outer(x, x))
        squares, grid = (vectors.T @ y) ** 2, np.linspace(-8, 3, 2201)
        spread = np.exp(2 * grid)[:, None] + np.maximum(values, 0)
        heights = -0.5 * (squares / spread + np.log(2 * np.pi * spread)).sum(1)
        heights += stats.halfnorm.logpdf(np.exp(grid), scale=2) + grid
        return log_trapezoid(heights, grid[1] - grid[0])

    drawn = {"width": width, "rows": count, "slope": float(x @ y / (x @ x))}
    return Drawn(
        _through_origin_model(width),
        {"x": x, "y": y},
        log_integral_of(log_density, -10.0, 4.0),
        drawn,
        second,
    )


@cache
def _poisson_model(width: float) -> ev.Regression:
    return ev.Regression("y ~ 0 + x", family="poisson", priors={"x": dist.Normal(0.0, width)})


def poisson_slope(generator: np.random.Generator) -> Drawn:
    """A Poisson slope through the origin."""
    width, count = pick(generator, WIDTHS), pick(generator, (3, 30, 300))
    x = wide(single(generator.uniform(-1, 2, count)))
    y = generator.poisson(np.exp(generator.normal(0, 1) * x)).astype(float)
    constant = -gammaln(y + 1).sum()

    def log_density(b):
        return constant + b * (x @ y) - np.exp(np.outer(b, x)).sum(1) + NORMAL(b, 0, width)

    def second():
        grid = np.linspace(-8 * width, 8 * width, 40_001)
        heights = [stats.poisson.logpmf(y, np.exp(np.clip(b * x, -80, 80))).sum() for b in grid[::4]]
        return log_trapezoid(np.array(heights) + NORMAL(grid[::4], 0, width), 4 * (grid[1] - grid[0]))

    truth = log_integral_of(log_density, -8.0 * width, 8.0 * width)
    drawn = {"width": width, "rows": count, "events": float(y.sum())}
    return Drawn(_poisson_model(width), {"x": x, "y": y}, truth, drawn, second)


@cache
def _logistic_model(width: float) -> ev.Regression:
    priors = {"Intercept": dist.Normal(0.0, 2.5), "x": dist.Normal(0.0, width)}
    return ev.Regression("y ~ x", family="bernoulli", priors=priors)


def logistic(generator: np.random.Generator) -> Drawn:
    """Logistic regression, at times separable; the intercept is at the mean of the column."""
    width, count = pick(generator, WIDTHS), pick(generator, (8, 100))
    x = wide(single(generator.standard_normal(count)))
    slope = generator.standard_normal() * pick(generator, (1.0, 10.0))
    y = generator.random(count) < expit(0.5 * generator.standard_normal() + slope * x)
    y[np.argmin(x)], y[np.argmax(x)] = False, True  # both categories are there
    centred, signs = x - x.mean(), np.where(y, 1.0, -1.0)

    def log_density(points):
        log_rows = 0.0
        for value, sign in zip(centred, signs, strict=True):
            log_rows = log_rows - np.logaddexp(0, -sign * (points[:, 0] + points[:, 1] * value))
        return log_rows + NORMAL(points[:, 0], 0, 2.5) + NORMAL(points[:, 1], 0, width)

    def second():
        intercepts, slopes = np.linspace(-20, 20, 401), np.linspace(-8 * width, 8 * width, 1201)
        step = (intercepts[1] - intercepts[0]) * (slopes[1] - slopes[0])
        parts = [log_density(np.stack([np.full(1201, each), slopes], 1)) for each in intercepts]
        return float(logsumexp(parts) + np.log(step))

    truth = log_integral(log_density, (-20.0, 20.0), (-8.0 * width, 8.0 * width))
    drawn = {"width": width, "rows": count, "slope": float(slope), "successes": int(y.sum())}
    return Drawn(_logistic_model(width), {"x": x, "y": y.astype(float)}, truth, drawn, second)


FAMILIES = {
    "formula with JZS": jzs,
    "formula through the origin": through_origin,
    "Poisson formula": poisson_slope,
    "logistic formula": logistic,
}
