"""Symmetric families: exchangeable parts, signs, directions, and ordered values."""

from collections.abc import Callable
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp as log_sum
from numpyro.distributions.transforms import OrderedTransform
from scipy import stats
from scipy.special import gammaln, k0e, logsumexp

import evidentia as ev

from .problem import (
    Candidate,
    Drawn,
    log_integral_of,
    log_trapezoid,
    log_uniform,
    pick,
    single,
    wide,
)

# Sizes, prior deviation (of sums only), rows.
SUMS = ((2, 1.0, 10), (5, 1.0, 100), (7, 1.0, 10), (12, 1.0, 10), (25, 1.0, 10), (8, 1e3, 100))
NORMS = ((2, 10), (5, 100), (10, 10), (20, 10))
FLIPS = ((1, 10), (2, 100), (4, 10), (8, 1000))
MIXTURES = ((2, 10), (4, 7), (8, 8), (7, 7))
ORDERED = ((2, 10), (8, 1), (20, 100))
WIDTH = 3.0  # prior deviation of a component's mean
NORMAL = stats.norm.logpdf


@cache
def _sum_model(size: int, width: float) -> ev.Model:
    def log_likelihood(params, batch):
        return dist.Normal(params["parts"].sum(), batch["noise"]).log_prob(batch["y"])

    return ev.Model({"parts": dist.Normal(0.0, width).expand([size]).to_event(1)}, log_likelihood)


def sum_of_parts(generator: np.random.Generator) -> Drawn:
    """Exchangeable normals that enter through their sum."""
    size, width, count = pick(generator, SUMS)
    noise = single(width * log_uniform(generator, -1, 1) * generator.uniform(0.5, 2, count))
    total = width * np.sqrt(size) * generator.standard_normal()
    y = single(total + noise * generator.standard_normal(count))
    variance, weights = size * width**2, wide(noise) ** -2.0
    precision, projection = weights.sum(), weights @ wide(y)
    truth = NORMAL(wide(y), 0, wide(noise)).sum() - 0.5 * np.log1p(variance * precision)
    truth += 0.5 * projection**2 / (1 / variance + precision)

    def second():
        covariance = variance + np.diag(wide(noise) ** 2)
        return float(stats.multivariate_normal.logpdf(wide(y), np.zeros(count), covariance))

    drawn = {"size": size, "width": width, "rows": count, "noise": float(np.median(noise))}
    return Drawn(_sum_model(size, width), {"y": y, "noise": noise}, truth, drawn, second)


@cache
def _norm_model(size: int, power: int) -> ev.Model:
    def log_likelihood(params, batch):
        square = jnp.sum(params["x"] ** 2)
        mean = square if power == 2 else jnp.sqrt(square + 1e-12)
        return dist.Normal(mean, batch["noise"]).log_prob(batch["y"])

    return ev.Model({"x": dist.Normal(0.0, 1.0).expand([size]).to_event(1)}, log_likelihood)


def _norm(power: int, generator: np.random.Generator) -> Drawn:
    size, count = pick(generator, NORMS)
    noise = single(np.full(count, log_uniform(generator, -1, 0.5)))
    radius = np.sqrt(generator.chisquare(size)) * pick(generator, (1.0, 1.0, 1.5))
    y = single(radius**power + noise * generator.standard_normal(count))
    deviation, constant = _about_mean(wide(y), float(noise[0]))
    average = wide(y).mean()

    def of_square(u):
        square = np.exp(u)
        mean = square if power == 2 else np.sqrt(square)
        return stats.chi2.logpdf(square, size) + u + NORMAL(average, mean, deviation)

    def second():
        grid = np.linspace(1e-6, 20, 400_001)
        heights = stats.chi.logpdf(grid, size) + NORMAL(average, grid**power, deviation)
        return log_trapezoid(heights, grid[1] - grid[0]) + constant

    truth = log_integral_of(of_square, -25.0, 6.0) + constant
    drawn = {"size": size, "rows": count, "noise": float(noise[0]), "radius": float(radius)}
    return Drawn(_norm_model(size, power), {"y": y, "noise": noise}, truth, drawn, second)


def _about_mean(y: np.ndarray, noise: float) -> tuple[float, float]:
    """The deviation of the rows' average, and the log factor that is left besides its density."""
    count = len(y)
    within = -0.5 * np.sum((y - y.mean()) ** 2) / noise**2
    return noise / np.sqrt(count), within - 0.5 * (count - 1) * np.log(2 * np.pi * noise**2) - 0.5 * np.log(
        count
    )


@cache
def _squares_model(size: int) -> ev.Model:
    def log_likelihood(params, batch):
        return dist.Normal(params["x"] ** 2, batch["noise"][:, None]).log_prob(batch["y"]).sum(-1)

    return ev.Model({"x": dist.Normal(0.0, 1.0).expand([size]).to_event(1)}, log_likelihood)


def squares(generator: np.random.Generator) -> Drawn:
    """Columns about squares: two modes each, up to 256 in all."""
    size, count = pick(generator, FLIPS)
    noise = single(np.full(count, log_uniform(generator, -0.5, 0.5)))
    y = single(
        generator.standard_normal(size) ** 2 + noise[:, None] * generator.standard_normal((count, size))
    )
    grid = np.linspace(-9, 9, 200_001)
    about = [(column.mean(), *_about_mean(column, float(noise[0]))) for column in wide(y).T]

    def log_density(x, average, deviation):
        return NORMAL(x) + NORMAL(average, x**2, deviation)

    def of_column(average, deviation, constant):
        half = log_integral_of(lambda x: log_density(x, average, deviation), 0.0, 9.0)
        return half + np.log(2) + constant

    def second():
        step = grid[1] - grid[0]
        return sum(log_trapezoid(log_density(grid, *each), step) + rest for *each, rest in about)

    truth = sum(of_column(*each) for each in about)
    drawn = {"size": size, "rows": count, "noise": float(noise[0])}
    return Drawn(_squares_model(size), {"y": y, "noise": noise}, truth, drawn, second)


@cache
def _product_model() -> ev.Model:
    def log_likelihood(params, batch):
        return dist.Normal(params["a"] * params["b"] * batch["x"], batch["noise"]).log_prob(batch["y"])

    return ev.Model({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)}, log_likelihood)


def product(generator: np.random.Generator) -> Drawn:
    """A slope that is a product of two normals: density K₀(|c|)/π, a ridge in two quadrants."""
    count = pick(generator, (1, 100, 10_000))
    x = single(generator.standard_normal(count))
    noise = single(np.full(count, log_uniform(generator, -1, 0.7)))
    slope = generator.standard_normal() * generator.standard_normal()
    y = single(slope * x + noise * generator.standard_normal(count))
    deviation = float(noise[0])
    precision, projection = wide(x) @ wide(x) / deviation**2, wide(x) @ wide(y) / deviation**2
    constant = NORMAL(wide(y), 0, deviation).sum()

    def half(u, sign):
        size = np.exp(u)
        log_prior = np.log(np.maximum(k0e(size), 1e-300) / np.pi) - size + u
        return log_prior + sign * size * projection - 0.5 * size**2 * precision

    def second():
        grid = np.linspace(-40, 4, 100_001)  # log |a|; b is integrated out
        inner = np.exp(2 * grid) * precision
        of_b = -0.5 * np.log1p(inner) + 0.5 * np.exp(2 * grid) * projection**2 / (1 + inner)
        return log_trapezoid(np.log(2) + NORMAL(np.exp(grid)) + grid + of_b, grid[1] - grid[0]) + constant

    parts = [log_integral_of(partial(half, sign=sign), -40.0, 5.0) for sign in (-1, 1)]
    drawn = {"rows": count, "noise": deviation, "slope": slope}
    data = {"x": x, "y": y, "noise": noise}
    return Drawn(_product_model(), data, float(np.logaddexp(*parts)) + constant, drawn, second)


@cache
def _mixture_model(size: int, has_shares: bool) -> ev.Model:
    def log_likelihood(params, batch):
        parts = dist.Normal(params["means"], batch["noise"][:, None]).log_prob(batch["y"][:, None])
        return log_sum(parts + (jnp.log(params["shares"]) if has_shares else -np.log(size)), axis=1)

    prior = {"means": dist.Normal(0.0, WIDTH).expand([size]).to_event(1)}
    return ev.Model(
        prior | ({"shares": dist.Dirichlet(jnp.ones(size))} if has_shares else {}), log_likelihood
    )


@cache
def _splits(count: int) -> list[np.ndarray]:
    """For each set of rows, as bits, all its subsets."""
    found = []
    for mask in range(2**count):
        subset, subsets = mask, [mask]
        while subset:
            subset = (subset - 1) & mask
            subsets.append(subset)
        found.append(np.array(subsets))
    return found


def _log_of_allocations(y: np.ndarray, noise: float, size: int, has_shares: bool) -> float:
    """Sum over all allocations of rows to components, by convolution over subsets."""
    count = len(y)
    bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    number, total, square = bits.sum(1), bits @ y, bits @ y**2
    precision = WIDTH**-2 + number / noise**2
    block = -0.5 * number * np.log(2 * np.pi * noise**2) - 0.5 * np.log(WIDTH**2 * precision)
    block += -0.5 * square / noise**2 + 0.5 * (total / noise**2) ** 2 / precision
    block += gammaln(1 + number) if has_shares else -number * np.log(size)
    sums = block
    for _ in range(size - 1):
        sums = np.array([logsumexp(sums[s] + block[mask ^ s]) for mask, s in enumerate(_splits(count))])
    return float(sums[-1] + (gammaln(size) - gammaln(size + count) if has_shares else 0.0))


def _log_of_partitions(y: np.ndarray, noise: float, size: int, has_shares: bool) -> float:
    """The same over partitions, one row after the other, by predictive densities."""
    states = {(): 0.0}  # (number, total) of the blocks that are used
    for row, value in enumerate(y):
        found: dict[tuple, list[float]] = {}
        for blocks, weight in states.items():
            spare = size - len(blocks)
            for index in range(len(blocks) + (spare > 0)):
                number, total = blocks[index] if index < len(blocks) else (0, 0.0)
                variance = 1 / (WIDTH**-2 + number / noise**2)
                log_density = NORMAL(value, variance * total / noise**2, np.sqrt(variance + noise**2))
                copies = spare if index == len(blocks) else 1
                share = (1 + number) / (size + row) if has_shares else 1 / size
                changed = (*blocks[:index], (number + 1, total + value), *blocks[index + 1 :])
                found.setdefault(changed, []).append(weight + np.log(copies * share) + log_density)
        states = {blocks: float(np.logaddexp.reduce(each)) for blocks, each in found.items()}
    return float(logsumexp(list(states.values())))


def _mixture(has_shares: bool, generator: np.random.Generator) -> Drawn:
    size, count = pick(generator, MIXTURES)
    groups, distance = pick(generator, (1, 2, 3)), generator.uniform(1, 5)
    noise = single(np.full(count, log_uniform(generator, -0.5, 0.3)))
    y = single(distance * (generator.integers(groups, size=count) - (groups - 1) / 2))
    y = single(y + noise * generator.standard_normal(count))
    arguments = (wide(y), float(noise[0]), size, has_shares)
    drawn = {
        "components": size,
        "rows": count,
        "groups": groups,
        "distance": distance,
        "noise": float(noise[0]),
    }
    return Drawn(
        _mixture_model(size, has_shares),
        {"y": y, "noise": noise},
        _log_of_allocations(*arguments),
        drawn,
        partial(_log_of_partitions, *arguments),
    )


@cache
def _ordered_model(size: int) -> ev.Model:
    base = dist.Normal(0.0, 1.0).expand([size]).to_event(1)

    def log_likelihood(params, batch):
        values = params["values"]
        centres = jnp.concatenate([values[:1], jnp.log(jnp.diff(values))])
        return dist.Normal(centres, batch["noise"][:, None]).log_prob(batch["y"]).sum(-1)

    return ev.Model({"values": dist.TransformedDistribution(base, OrderedTransform())}, log_likelihood)


def ordered(generator: np.random.Generator) -> Drawn:
    """Ordered values whose first and whose log gaps are seen with noise."""
    size, count = pick(generator, ORDERED)
    noise = single(np.full(count, log_uniform(generator, -1, 0.5)))
    standard = generator.standard_normal(size)
    y = single(standard + noise[:, None] * generator.standard_normal((count, size)))
    deviation, precision = float(noise[0]), 1 + count / float(noise[0]) ** 2
    projection = wide(y).sum(0) / deviation**2
    truth = NORMAL(wide(y), 0, deviation).sum() - 0.5 * size * np.log(precision)
    truth += 0.5 * np.sum(projection**2) / precision
    at = projection / precision + 0.2 / np.sqrt(precision)
    values = np.cumsum(np.concatenate([at[:1], np.exp(at[1:])]))
    log_posterior = NORMAL(at, projection / precision, precision**-0.5).sum() - at[1:].sum()
    drawn = {"size": size, "rows": count, "noise": deviation}
    second = Candidate({"values": values}, log_posterior)
    return Drawn(_ordered_model(size), {"y": y, "noise": noise}, truth, drawn, second)


FAMILIES: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "sum of exchangeable parts": sum_of_parts,
    "ring": partial(_norm, 1),
    "sum of squares": partial(_norm, 2),
    "squares": squares,
    "product": product,
    "mixture with equal shares": partial(_mixture, False),
    "mixture with unknown shares": partial(_mixture, True),
    "ordered values": ordered,
}
