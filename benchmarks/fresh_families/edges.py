"""Edges and changes: ends of supports, bounded parameters, rare regions, change points."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import expn, gammaln, log_ndtr, logsumexp

import evidentia as ev

from .problem import LOG_TWO_PI, Candidate, Drawn, density, log_integral_of, log_uniform, pick, single, wide

ENDS = (1, 2, 20, 1000)  # rows
BOUNDED = ((0.0, 1.0, 1), (0.0, 1.0, 100), (-1000.0, 1000.0, 10), (0.0, 1e-3, 10))  # interval, rows
CHANGES = (10, 100)
NORMAL = stats.norm.logpdf


@cache
def _end_model() -> ev.Model:
    def log_likelihood(params, batch):
        return jnp.where(batch["y"] <= params["end"], -jnp.log(params["end"]), -jnp.inf)

    return ev.Model({"end": dist.Gamma(2.0, 1.0)}, log_likelihood)


def uniform_end(generator: np.random.Generator) -> Drawn:
    """y ~ U(0, θ), θ ~ Gamma(2, 1): ∫ θ¹⁻ⁿ exp(-θ) from the largest row: scipy's expn."""
    count, end = pick(generator, ENDS), log_uniform(generator, -1, 1)
    y = single(generator.uniform(0, end, count))
    largest = float(y.max())
    truth = np.log(expn(count - 1, largest)) + (2 - count) * np.log(largest)

    def second():
        return log_integral_of(
            lambda u: -(count - 1) * np.log(largest + np.exp(u)) - largest - np.exp(u) + u, -40.0, 6.0
        )

    return Drawn(_end_model(), {"y": y}, truth, {"rows": count, "end": end}, second)


@cache
def _start_model() -> ev.Model:
    def log_likelihood(params, batch):
        late = (batch["y"] - params["start"]) * batch["rate"]
        return jnp.where(late >= 0, jnp.log(batch["rate"]) - late, -jnp.inf)

    return ev.Model({"start": dist.Normal(0.0, 3.0)}, log_likelihood)


def exponential_start(generator: np.random.Generator) -> Drawn:
    """y ~ θ + Exp(rate): the posterior rises to the smallest row and ends there."""
    count, start = pick(generator, ENDS), 3 * generator.standard_normal()
    rate = single(np.full(count, log_uniform(generator, -1, 1)))
    y = single(start + generator.exponential(size=count) / rate)
    slope, least = float(rate[0]), float(y.min())
    constant = count * np.log(slope) - slope * wide(y).sum()
    tilt = count * slope
    truth = constant + 4.5 * tilt**2 + log_ndtr((least - 9 * tilt) / 3)

    def second():
        def log_density(u):  # θ below the smallest row by exp(u)
            theta = least - np.exp(u)
            return NORMAL(theta, 0, 3) + tilt * theta + u

        return constant + log_integral_of(log_density, -40.0, 5.0)

    drawn = {"rows": count, "start": float(start), "rate": slope}
    return Drawn(_start_model(), {"y": y, "rate": rate}, truth, drawn, second)


@cache
def _bounded_model(low: float, high: float) -> ev.Model:
    return ev.Model(
        {"mean": dist.Uniform(low, high)},
        lambda params, batch: dist.Normal(params["mean"], batch["noise"]).log_prob(batch["y"]),
    )


def bounded_mean(generator: np.random.Generator) -> Drawn:
    """A mean in an interval; the rows may be about a place outside of it."""
    low, high, count = pick(generator, BOUNDED)
    span = high - low
    noise = single(np.full(count, span * log_uniform(generator, -2, 1)))
    deviation = float(noise[0])
    centre = low + span * generator.uniform(0, 1) + pick(generator, (0, 0, 3)) * deviation
    y = single(centre + deviation * generator.standard_normal(count))
    average, error = wide(y).mean(), deviation / np.sqrt(count)
    constant = NORMAL(wide(y), average, deviation).sum() + 0.5 * LOG_TWO_PI + np.log(error) - np.log(span)
    ends = np.array([low - average, high - average]) / error
    ends = ends if ends[0] < 0 else -ends[::-1]  # the tail that is not rounded to one
    upper, lower = log_ndtr(ends[1]), log_ndtr(ends[0])
    truth = constant + upper + np.log1p(-np.exp(lower - upper))

    def second():
        return constant + log_integral_of(lambda x: NORMAL(x, average, error), low, high)

    drawn = {"interval": [low, high], "rows": count, "noise": deviation, "centre": float(centre)}
    return Drawn(_bounded_model(low, high), {"y": y, "noise": noise}, truth, drawn, second)


@cache
def _rare_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        return jnp.where(params["x"] @ data["direction"] > data["limit"], 0.0, -jnp.inf)

    return density({"x": dist.Normal(0.0, 1.0).expand([size]).to_event(1)}, log_likelihood)


def rare_region(generator: np.random.Generator) -> Drawn:
    """The probability of a half-space under a normal, down to 10⁻⁶; the likelihood is 0 or 1."""
    size = pick(generator, (1, 3, 10))
    direction = generator.standard_normal(size)
    direction = single(direction / np.linalg.norm(direction))
    limit = single(generator.uniform(-1, 4.7))
    scaled = float(limit) / np.linalg.norm(wide(direction))
    truth = log_ndtr(-scaled)
    at = wide(direction) * (scaled + 0.5)
    second = Candidate({"x": at}, NORMAL(at).sum() - np.log(stats.norm.sf(scaled)))
    data = {"direction": direction, "limit": limit}
    return Drawn(_rare_model(size), data, truth, {"size": size, "limit": float(limit)}, second)


@cache
def _change_model() -> ev.Model:
    def log_likelihood(params, batch):
        mean = jnp.where(batch["t"] < params["time"], params["before"], params["after"])
        return dist.Normal(mean, batch["noise"]).log_prob(batch["y"])

    prior = {"time": dist.Uniform(0.0, 1.0), "before": dist.Normal(0.0, 3.0), "after": dist.Normal(0.0, 3.0)}
    return ev.Model(prior, log_likelihood)


def change_point(generator: np.random.Generator) -> Drawn:
    """The mean changes at an unknown time: a sum over the intervals between rows."""
    count, step = pick(generator, CHANGES), generator.uniform(0, 4)
    t = single(np.sort(generator.random(count)))
    noise = single(np.full(count, log_uniform(generator, -0.5, 0.5)))
    deviation = float(noise[0])
    y = single(np.where(t < generator.random(), 0.0, step) + deviation * generator.standard_normal(count))
    edges = np.concatenate([[0.0], wide(t), [1.0]])
    target = wide(y)
    sums = np.concatenate([[0.0], np.cumsum(target)])
    rows = np.arange(count + 1)

    def of_means(total, number):
        precision = 1 / 9 + number / deviation**2
        return -0.5 * np.log(9 * precision) + 0.5 * (total / deviation**2) ** 2 / precision

    terms = of_means(sums, rows) + of_means(sums[-1] - sums, count - rows)
    constant = NORMAL(target, 0, deviation).sum()
    with np.errstate(divide="ignore"):
        log_lengths = np.log(np.diff(edges))
    truth = constant + logsumexp(terms + log_lengths)

    def second():
        noises, found = deviation**2 * np.eye(count), []
        for late in range(count + 1):
            is_late = np.arange(count) >= late
            covariance = noises + 9.0 * np.equal.outer(is_late, is_late)
            found.append(stats.multivariate_normal.logpdf(target, np.zeros(count), covariance))
        return float(logsumexp(np.array(found) + log_lengths))

    drawn = {"rows": count, "noise": deviation, "step": float(step)}
    return Drawn(_change_model(), {"t": t, "y": y, "noise": noise}, truth, drawn, second)


@cache
def _matrix_model(size: int, concentration: float) -> ev.Model:
    def log_likelihood(params, data):
        return data["power"] * jnp.linalg.slogdet(params["matrix"])[1]

    return density({"matrix": dist.LKJ(size, concentration)}, log_likelihood)


def correlation_matrix(generator: np.random.Generator) -> Drawn:
    """A power of the determinant of a correlation matrix, whose prior is LKJ (2009, Eq. 16)."""
    size, concentration = pick(generator, ((2, 1.0), (3, 2.0), (5, 1.0)))
    power = single(log_uniform(generator, -1, 1.5))

    def log_constant(shape):
        k = np.arange(1, size)
        return np.sum(
            0.5 * k * np.log(np.pi)
            + gammaln(shape + 0.5 * (size - 1 - k))
            - gammaln(shape + 0.5 * (size - 1))
        )

    truth = log_constant(concentration + float(power)) - log_constant(concentration)
    correlation = 0.3
    at = correlation + (1 - correlation) * np.eye(size)

    def second():
        from numpyro.distributions import LKJ

        log_density = [
            float(LKJ(size, shape).log_prob(at)) for shape in (concentration, concentration + float(power))
        ]
        return float(log_density[0] + float(power) * np.linalg.slogdet(at)[1] - log_density[1])

    drawn = {"size": size, "concentration": concentration, "power": float(power)}
    return Drawn(_matrix_model(size, concentration), {"power": power}, truth, drawn, second)


FAMILIES = {
    "end of a uniform": uniform_end,
    "start of an exponential": exponential_start,
    "bounded mean": bounded_mean,
    "rare region": rare_region,
    "change point": change_point,
    "correlation matrix": correlation_matrix,
}
