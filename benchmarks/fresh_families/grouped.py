"""Hierarchies: funnels, intercepts, NumPyro programs with latents of groups and rows."""

from functools import cache, partial

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats

import evidentia as ev

from .problem import Drawn, log_integral_of, log_trapezoid, log_uniform, pick, single, wide

GROUPS = ((4, 5), (10, 1), (20, 5), (55, 4))  # groups, rows of each
NORMAL = stats.norm.logpdf


def _rows(generator: np.random.Generator, size: int, repeats: int, deviation: float):
    """Rows of groups with known noise: data, and log p(rows | mean, deviation of the means)."""
    noise = single(np.full(size * repeats, log_uniform(generator, -0.7, 0.7)))
    group = np.repeat(np.arange(size), repeats).astype(np.int32)
    y = single(
        deviation * generator.standard_normal(size)[group] + noise * generator.standard_normal(len(group))
    )
    sigma = float(noise[0])
    averages = wide(y).reshape(size, repeats).mean(1)
    within = np.sum((wide(y) - averages[group]) ** 2) / sigma**2
    constant = -0.5 * (within + size * (repeats - 1) * np.log(2 * np.pi * sigma**2) + size * np.log(repeats))

    def log_rows(scale, mean_variance=0.0):
        """Given scales (points,); a common mean N(0, mean_variance) is integrated out."""
        variance = scale**2 + sigma**2 / repeats
        total = constant + NORMAL(averages, 0, np.sqrt(variance)[:, None]).sum(1)
        if not mean_variance:
            return total
        precision = size / variance + 1 / mean_variance
        return (
            total
            + 0.5 * (averages.sum() / variance) ** 2 / precision
            - 0.5 * np.log(mean_variance * precision)
        )

    def log_rows_again(scale, mean_variance=0.0):
        block = np.kron(np.eye(size), np.ones((repeats, repeats)))
        covariance = sigma**2 * np.eye(len(y)) + scale**2 * block + mean_variance
        square = wide(y) @ np.linalg.solve(covariance, wide(y))
        return -0.5 * (square + np.linalg.slogdet(covariance)[1] + len(y) * np.log(2 * np.pi))

    return {"y": y, "group": group, "noise": noise}, log_rows, log_rows_again


def _twice(log_prior, log_rows, log_rows_again, low: float, high: float, mean_variance: float):
    """The integral over a log scale u, and a function that computes it again."""

    def log_density(u):
        return log_prior(u) + log_rows(np.exp(u), mean_variance)

    def second():
        grid = np.linspace(low, min(high, 8.0), 201)
        heights = [log_prior(u) + log_rows_again(np.exp(u), mean_variance) for u in grid]
        return log_trapezoid(np.array(heights), grid[1] - grid[0])

    return log_integral_of(log_density, low, high), second


def _half_normal(u):
    return stats.halfnorm.logpdf(np.exp(u)) + u


@cache
def _funnel_model(size: int) -> ev.Model:
    prior = {
        "log_scale": dist.Normal(0.0, 2.0),
        "means": lambda params: dist.Normal(jnp.zeros(size), jnp.exp(params["log_scale"])).to_event(1),
    }
    return ev.Model(
        prior,
        lambda params, batch: dist.Normal(params["means"][batch["group"]], batch["noise"]).log_prob(
            batch["y"]
        ),
    )


def funnel(generator: np.random.Generator) -> Drawn:
    """Means of groups with an unknown log scale, from vague to informed."""
    size, repeats = pick(generator, GROUPS)
    scale = log_uniform(generator, -1.5, 1)
    data, *log_rows = _rows(generator, size, repeats, scale)
    truth, second = _twice(lambda u: NORMAL(u, 0, 2), *log_rows, -14.0, 14.0, 0.0)
    drawn = {"groups": size, "rows of each": repeats, "scale": scale, "noise": float(data["noise"][0])}
    return Drawn(_funnel_model(size), data, truth, drawn, second)


@cache
def _intercepts_model(size: int) -> ev.Model:
    def log_likelihood(params, batch):
        effects = params["mean"] + params["scale"] * params["effects"]
        return dist.Normal(effects[batch["group"]], batch["noise"]).log_prob(batch["y"])

    prior = {
        "mean": dist.Normal(0.0, 2.0),
        "scale": dist.HalfNormal(1.0),
        "effects": dist.Normal(0.0, 1.0).expand([size]).to_event(1),
    }
    return ev.Model(prior, log_likelihood)


def intercepts(generator: np.random.Generator) -> Drawn:
    """Intercepts of groups about an unknown mean, not centred."""
    size, repeats = pick(generator, GROUPS)
    scale = log_uniform(generator, -1.5, 0.5)
    data, *log_rows = _rows(generator, size, repeats, scale)
    truth, second = _twice(_half_normal, *log_rows, -18.0, 3.0, 4.0)
    drawn = {"groups": size, "rows of each": repeats, "scale": scale, "noise": float(data["noise"][0])}
    return Drawn(_intercepts_model(size), data, truth, drawn, second)


@cache
def _program_model(size: int, integrates: bool) -> ev.Model:
    def program(y, group, noise):
        mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        with numpyro.plate("groups", size):
            effects = numpyro.sample("effects", dist.Normal(mean, scale))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(effects[group], noise), obs=y)

    return ev.Model.from_numpyro(program, groups="group" if integrates else None)


def _program(integrates: bool, generator: np.random.Generator) -> Drawn:
    size, repeats = pick(generator, GROUPS[:3])
    scale = log_uniform(generator, -1.5, 0.5)
    data, *log_rows = _rows(generator, size, repeats, scale)
    truth, second = _twice(_half_normal, *log_rows, -18.0, 3.0, 4.0)
    drawn = {"groups": size, "rows of each": repeats, "scale": scale, "noise": float(data["noise"][0])}
    return Drawn(_program_model(size, integrates), data, truth, drawn, second)


@cache
def _labels_model() -> ev.Model:
    def program(y, noise):
        share = numpyro.sample("share", dist.Beta(1.0, 1.0))
        with numpyro.plate("rows", len(y)):
            label = numpyro.sample("label", dist.Bernoulli(share), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(2.0 * label, noise), obs=y)

    return ev.Model.from_numpyro(program)


def labels(generator: np.random.Generator) -> Drawn:
    """A discrete label for each row, summed out; the share of the two is unknown.

    Π (s fᵢ + (1 - s) gᵢ) is a polynomial in s and 1 - s: its coefficients by one row at a time.
    """
    count = pick(generator, (2, 20, 200))
    noise = single(np.full(count, log_uniform(generator, -0.5, 0.5)))
    y = single(
        2.0 * (generator.random(count) < generator.random()) + noise * generator.standard_normal(count)
    )
    other, one = NORMAL(wide(y), 0, wide(noise)), NORMAL(wide(y), 2, wide(noise))
    logs = np.array([0.0])
    for first, second in zip(one, other, strict=True):
        logs = np.logaddexp(np.append(logs + second, -np.inf), np.insert(logs + first, 0, -np.inf))
    k = np.arange(count + 1)
    truth = float(np.logaddexp.reduce(logs + stats.betabinom.logpmf(k, count, 1, 1) - _log_choices(count, k)))

    def again():
        def log_density(odds):
            u = odds[:, None]
            terms = np.logaddexp(one - np.logaddexp(0, -u), other - np.logaddexp(0, u)).sum(1)
            return terms + stats.logistic.logpdf(odds)

        return log_integral_of(log_density, -40.0, 40.0)

    drawn = {"rows": count, "noise": float(noise[0])}
    return Drawn(_labels_model(), {"y": y, "noise": noise}, truth, drawn, again)


def _log_choices(count: int, k: np.ndarray) -> np.ndarray:
    return stats.binom.logpmf(k, count, 0.5) + count * np.log(2)


FAMILIES = {
    "funnel": funnel,
    "intercepts": intercepts,
    "groups as parameters": partial(_program, False),
    "groups integrated out": partial(_program, True),
    "discrete labels": labels,
}
