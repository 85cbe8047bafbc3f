"""Priors over hundreds of orders of magnitude, heavy tails, correlations."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import gammainc, gammaln

import evidentia as ev

from .problem import (
    LOG_TWO_PI,
    Candidate,
    Drawn,
    density,
    log_integral_of,
    log_trapezoid,
    log_uniform,
    pick,
    single,
    wide,
)

PRECISIONS = ((1e-4, 10), (1e-4, 1000), (1e-3, 2), (0.01, 100))  # shape and rate of the prior, rows
SCALES = {
    "HalfCauchy(1e4)": (dist.HalfCauchy(1e4), stats.halfcauchy(scale=1e4)),
    "LogNormal(0, 20)": (dist.LogNormal(0.0, 20.0), stats.lognorm(20.0)),
    "InverseGamma(0.001, 0.001)": (dist.InverseGamma(0.001, 0.001), stats.invgamma(0.001, scale=0.001)),
    "HalfNormal(1000)": (dist.HalfNormal(1e3), stats.halfnorm(scale=1e3)),
    "Exponential(0.001)": (dist.Exponential(1e-3), stats.expon(scale=1e3)),
}
LOCATIONS = (
    (1, "Cauchy", 1.0, 1),
    (1, "Cauchy", 1e4, 100),
    (5, "StudentT", 10.0, 10),
    (20, "Laplace", 1.0, 10),
)


@cache
def _precision_model(shape: float) -> ev.Model:
    return ev.Model(
        {"precision": dist.Gamma(shape, shape)},
        lambda params, batch: dist.Normal(0.0, params["precision"] ** -0.5).log_prob(batch["y"]),
    )


def vague_precision(generator: np.random.Generator) -> Drawn:
    """Centred normal rows whose precision has a Gamma(a, a) prior, a from 10⁻⁴."""
    shape, count = pick(generator, PRECISIONS)
    scale = log_uniform(generator, -3, 3)
    y = single(scale * generator.standard_normal(count))
    after = shape + count / 2, shape + 0.5 * np.sum(wide(y) ** 2)
    truth = shape * np.log(shape) - gammaln(shape) + gammaln(after[0]) - after[0] * np.log(after[1])
    at = after[0] / after[1]
    second = Candidate({"precision": at}, stats.gamma.logpdf(at, after[0], scale=1 / after[1]))
    drawn = {"shape": shape, "rows": count, "scale": scale}
    truth -= 0.5 * count * LOG_TWO_PI
    return Drawn(_precision_model(shape), {"y": y}, truth, drawn, second)


@cache
def _scale_model(name: str) -> ev.Model:
    return ev.Model(
        {"scale": SCALES[name][0]},
        lambda params, batch: dist.Normal(0.0, params["scale"]).log_prob(batch["y"]),
    )


def vague_scale(generator: np.random.Generator) -> Drawn:
    """Centred normal rows whose scale has a prior over many orders of magnitude."""
    name = pick(generator, list(SCALES))
    count = pick(generator, (2, 100))
    scale = log_uniform(generator, -2, 3)
    y = single(scale * generator.standard_normal(count))
    square, prior = np.sum(wide(y) ** 2), SCALES[name][1]

    def log_density(log_scale):
        log_rows = -0.5 * count * LOG_TWO_PI - count * log_scale - 0.5 * square * np.exp(-2 * log_scale)
        return log_rows + prior.logpdf(np.exp(log_scale)) + log_scale

    centre = 0.5 * np.log(square / count)
    truth = log_integral_of(log_density, centre - 12, centre + 60)
    drawn = {"prior": name, "rows": count, "scale": scale}
    return Drawn(_scale_model(name), {"y": y}, truth, drawn)


@cache
def _locations_model(size: int, name: str, width: float) -> ev.Model:
    prior = {
        "Cauchy": dist.Cauchy(0.0, width),
        "StudentT": dist.StudentT(3.0, 0.0, width),
        "Laplace": dist.Laplace(0.0, width),
    }[name]
    return ev.Model(
        {"locations": prior.expand([size]).to_event(1)},
        lambda params, batch: (
            dist.Normal(params["locations"], batch["noise"][:, None]).log_prob(batch["y"]).sum(-1)
        ),
    )


def heavy_prior(generator: np.random.Generator) -> Drawn:
    """Normal columns whose locations have Cauchy, Student and Laplace priors, also far out."""
    size, name, width, count = pick(generator, LOCATIONS)
    noise = width * log_uniform(generator, -1.5, 1)
    prior = {
        "Cauchy": stats.cauchy(scale=width),
        "StudentT": stats.t(3, scale=width),
        "Laplace": stats.laplace(scale=width),
    }[name]
    locations = width * log_uniform(generator, -1, 1.5, size) * generator.choice((-1, 1), size)
    y = single(locations + noise * generator.standard_normal((count, size)))
    deviation = np.full(count, single(noise))
    sigma = float(deviation[0])
    means, error = wide(y).mean(0), sigma / np.sqrt(count)
    # Rows enter through their means; the rest of their density is a factor.
    truth = stats.norm.logpdf(wide(y), means, sigma).sum() + size * (0.5 * LOG_TWO_PI + np.log(error))
    for mean in means:
        low, high = mean - 12 * error, mean + 12 * error
        parts = [(low, 0.0), (0.0, high)] if low < 0 < high else [(low, high)]
        terms = [
            log_integral_of(lambda x, m=mean: stats.norm.logpdf(x, m, error) + prior.logpdf(x), *part)
            for part in parts
        ]
        truth += np.logaddexp.reduce(terms)
    drawn = {"size": size, "prior": name, "width": width, "rows": count, "noise": noise}

    def again() -> float:
        return _by_error_function(wide(y), sigma, prior, width)

    return Drawn(
        _locations_model(size, name, width), {"y": y, "noise": deviation}, float(truth), drawn, again
    )


def _by_error_function(y, sigma, prior, width) -> float:
    """The sum over two grids together, one for the prior and one for the likelihood."""
    total = 0.0
    for column in y.T:
        mean, error = column.mean(), sigma / np.sqrt(len(column))
        x = np.unique(
            np.concatenate(
                [
                    mean + error * np.linspace(-12, 12, 200_001),
                    width * np.sinh(np.linspace(-12, 12, 200_001)),
                ]
            )
        )
        x = x[np.abs(x - mean) < 12 * error]
        peak = stats.norm.logpdf(column, mean, sigma).sum()
        values = np.exp(stats.norm.logpdf(x, mean, error) - stats.norm.logpdf(0, 0, error) + prior.logpdf(x))
        total += peak + np.log(np.trapezoid(values, x))
    return float(total)


@cache
def _correlation_model(concentration: float) -> ev.Model:
    def log_likelihood(params, batch):
        r = params["root"][1, 0]
        rest = params["root"][1, 1] ** 2
        square = (batch["y"][:, 1] - r * batch["y"][:, 0]) ** 2 / rest + batch["y"][:, 0] ** 2
        return -0.5 * (square + jnp.log(rest)) - LOG_TWO_PI

    return ev.Model({"root": dist.LKJCholesky(2, concentration)}, log_likelihood)


def correlation(generator: np.random.Generator) -> Drawn:
    """Pairs of unit variance with an unknown correlation, up to 0.995, LKJ prior."""
    concentration, count = pick(generator, ((1.0, 1), (1.0, 100), (4.0, 1000)))
    r = pick(generator, (0.0, 0.5, -0.9, 0.995))
    first = generator.standard_normal(count)
    second = r * first + np.sqrt(1 - r**2) * generator.standard_normal(count)
    y = single(np.stack([first, second], 1))
    squares, product = np.sum(wide(y) ** 2), np.sum(wide(y)[:, 0] * wide(y)[:, 1])
    constant = gammaln(concentration + 0.5) - gammaln(concentration) - 0.5 * np.log(np.pi)

    def log_density(z):  # r = tanh z, whose derivative is 1 - r²
        log_rest = -2 * (np.logaddexp(z, -z) - np.log(2))
        tanh = np.tanh(z)
        log_rows = -0.5 * (squares - 2 * tanh * product) * np.exp(-log_rest) - 0.5 * count * log_rest
        return log_rows - count * LOG_TWO_PI + constant + concentration * log_rest

    truth = log_integral_of(log_density, -15, 15)
    drawn = {"concentration": concentration, "rows": count, "correlation": r, "edge": 15.0}
    return Drawn(_correlation_model(concentration), {"y": y}, truth, drawn)


@cache
def _log_gammas_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        x = params["x"]
        return jnp.sum(data["shapes"] * x - jnp.exp(x)) - data["log_constant"]

    return density({"x": dist.Uniform(-60.0, 20.0).expand([size]).to_event(1)}, log_likelihood)


def log_gammas(generator: np.random.Generator) -> Drawn:
    """Independent logarithms of gamma variables, skewed to the left, in a cube."""
    size = pick(generator, (1, 5, 20))
    shapes = single(log_uniform(generator, -0.5, 1, size))
    log_constant = single(gammaln(wide(shapes)).sum())
    truth = np.sum(gammaln(wide(shapes)) + np.log(gammainc(wide(shapes), np.exp(20.0))))
    truth -= float(log_constant) + size * np.log(80)
    at = np.log(wide(shapes)) - 0.3
    second = Candidate({"x": at}, stats.loggamma.logpdf(at, wide(shapes)).sum())
    drawn = {"size": size, "least shape": float(shapes.min()), "largest shape": float(shapes.max())}
    return Drawn(
        _log_gammas_model(size), {"shapes": shapes, "log_constant": log_constant}, truth, drawn, second
    )


@cache
def _cauchy_model(width: float) -> ev.Model:
    return ev.Model(
        {"centre": dist.Normal(0.0, width)},
        lambda params, batch: dist.Cauchy(params["centre"], batch["scale"]).log_prob(batch["y"]),
    )


def cauchy_rows(generator: np.random.Generator) -> Drawn:
    """Rows with a Cauchy law: few of them far apart give one mode each."""
    width, count = pick(generator, ((1.0, 2), (100.0, 3), (100.0, 30)))
    scale = single(np.full(count, width * log_uniform(generator, -2, 0)))
    spread = pick(generator, (0.0, 1.0))
    y = width * generator.standard_normal() + spread * width * generator.standard_normal(count)
    y = single(y + scale * generator.standard_cauchy(count))

    def log_density(x):
        log_rows = np.zeros(len(x))
        for value in wide(y):
            log_rows += stats.cauchy.logpdf(value, x, float(scale[0]))
        return log_rows + stats.norm.logpdf(x, 0, width)

    def again() -> float:
        grid = np.linspace(-10 * width, 10 * width, 400_001)
        return log_trapezoid(log_density(grid), grid[1] - grid[0])

    truth = log_integral_of(log_density, -10 * width, 10 * width)
    drawn = {"width": width, "rows": count, "scale": float(scale[0]), "spread": spread}
    return Drawn(_cauchy_model(width), {"y": y, "scale": scale}, truth, drawn, again)


FAMILIES = {
    "log-gammas": log_gammas,
    "Cauchy rows": cauchy_rows,
    "vague precision": vague_precision,
    "vague scale": vague_scale,
    "heavy prior": heavy_prior,
    "correlation": correlation,
}
