"""Curved and singular posteriors: products, bananas, funnels, rings, small networks."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import k0e

from .problem import Problem, independent, log_integral, over_rows, problem, single

NORMAL = stats.norm.logpdf


def ridge(count: int) -> Problem:
    """y ~ N(a b x₀ x₁, 1): only the product of a and b is known, and their common sign is not.

    The product c of two standard normals has density K₀(|c|)/π.
    """
    generator = np.random.default_rng(0)
    x = single(generator.standard_normal((count, 2)))
    y = single(1.2 * x[:, 0] * x[:, 1] + generator.standard_normal(count))
    feature, target = x.astype(float).prod(1), y.astype(float)
    truth = _about_product(feature, target)
    return problem(
        {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(
            params["a"] * params["b"] * batch["x"][:, 0] * batch["x"][:, 1], 1.0
        ).log_prob(batch["y"]),
        truth,
        x=x,
        y=y,
    )


def product(count: int) -> Problem:
    """y ~ N(a b, 1): the product of two normals as a mean."""
    y = single(np.random.default_rng(0).normal(0.5, 1.0, count))
    return problem(
        {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["a"] * params["b"], 1.0).log_prob(batch["y"]),
        _about_product(np.ones(count), y.astype(float)),
        y=y,
    )


def _about_product(feature: np.ndarray, target: np.ndarray) -> float:
    best, precision = feature @ target / (feature @ feature), feature @ feature
    least = -0.5 * np.sum((target - best * feature) ** 2) - 0.5 * len(target) * np.log(2 * np.pi)

    def log_density(points, sign):
        log_size = points[:, 0]
        size = np.exp(log_size)
        log_prior = np.log(np.maximum(k0e(size), 1e-300) / np.pi) - size + log_size
        return log_prior - 0.5 * precision * (sign * size - best) ** 2 + least

    # K₀ has a pole at zero: integrate over log |c|, for either sign.
    parts = [log_integral(partial(log_density, sign=sign), (-40, 5)) for sign in (-1, 1)]
    return float(np.logaddexp(*parts))


def banana(count: int) -> Problem:
    """y ~ N(a + b², 1); a is integrated out exactly."""
    y = single(np.random.default_rng(0).normal(1.0, 1.0, count))
    average, within = y.mean(dtype=float), np.sum((y - y.mean(dtype=float)) ** 2, dtype=float)
    constant = -0.5 * (within + (count - 1) * np.log(2 * np.pi) + np.log(count))

    def log_density(points):
        b = points[:, 0]
        return NORMAL(b) + NORMAL(average, b**2, np.sqrt(1 + 1 / count)) + constant

    return problem(
        {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["a"] + params["b"] ** 2, 1.0).log_prob(batch["y"]),
        log_integral(log_density, (-10, 10)),
        y=y,
    )


def funnel(count: int, noise: float, size: int = 8) -> Problem:
    """Group means z ~ N(0, exp(s)²), s ~ N(0, 2²); with much noise the posterior is a funnel."""
    generator, group = np.random.default_rng(0), np.arange(count) % size
    y = single(generator.standard_normal(size)[group] + noise * generator.standard_normal(count))
    repeats = count // size
    averages = np.array([y[group == k].mean(dtype=float) for k in range(size)])
    within = np.sum((y - averages[group]) ** 2, dtype=float) / noise**2
    constant = (
        -0.5 * within - 0.5 * (count - size) * np.log(2 * np.pi * noise**2) - 0.5 * size * np.log(repeats)
    )

    def log_density(points):
        s = points[:, 0]
        scales = np.sqrt(np.exp(2 * s) + noise**2 / repeats)[:, None]
        return NORMAL(s, 0, 2) + NORMAL(averages, 0, scales).sum(1) + constant

    return problem(
        {
            "log_scale": dist.Normal(0.0, 2.0),
            "means": lambda params: dist.Normal(jnp.zeros(size), jnp.exp(params["log_scale"])).to_event(1),
        },
        lambda params, batch: dist.Normal(params["means"][batch["group"]], noise).log_prob(batch["y"]),
        log_integral(log_density, (-16, 16)),
        y=y,
        group=group.astype(np.int32),
    )


def intercepts(count: int, size: int) -> Problem:
    """y ~ N(mean + scale z_g, 1), z ~ N(0, I): non-centred intercepts of groups that are unequal.

    An average of n rows of a group is N(mean, scale² + 1/n).
    """
    generator = np.random.default_rng(0)
    group = np.sort(np.concatenate([np.arange(size), generator.integers(size, size=count - size)]))
    y = single(0.5 + 0.7 * generator.standard_normal(size)[group] + generator.standard_normal(count))
    number = np.bincount(group)
    averages = np.bincount(group, y.astype(float)) / number
    within = np.sum((y - averages[group]) ** 2)
    constant = -0.5 * (within + (count - size) * np.log(2 * np.pi) + np.sum(np.log(number)))

    def log_density(points):
        mean, log_scale = points.T[:, :, None]
        spread = np.sqrt(np.exp(2 * log_scale) + 1 / number)
        log_prior = NORMAL(points[:, 0]) + stats.halfnorm.logpdf(np.exp(points[:, 1])) + points[:, 1]
        return log_prior + NORMAL(averages, mean, spread).sum(1) + constant

    return problem(
        {
            "mean": dist.Normal(0.0, 1.0),
            "scale": dist.HalfNormal(1.0),
            "effects": dist.Normal(jnp.zeros(size), 1.0).to_event(1),
        },
        lambda params, batch: dist.Normal(
            params["mean"] + params["scale"] * params["effects"][batch["group"]], 1.0
        ).log_prob(batch["y"]),
        log_integral(log_density, (-6, 6), (-20, 3)),
        y=y,
        group=group.astype(np.int32),
    )


def ring(count: int, size: int = 2) -> Problem:
    """y ~ N(|θ|, 0.5²) with θ ~ N(0, I): every direction of θ is equally likely."""
    y = single(np.random.default_rng(0).normal(2.0, 0.5, count))
    log_prior = independent(partial(stats.chi.logpdf, df=size))
    log_joint = over_rows(lambda radius, y: NORMAL(y, radius, 0.5), log_prior, y)
    return problem(
        {"theta": dist.Normal(jnp.zeros(size), 1.0).to_event(1)},
        lambda params, batch: dist.Normal(jnp.sqrt(jnp.sum(params["theta"] ** 2) + 1e-12), 0.5).log_prob(
            batch["y"]
        ),
        log_integral(log_joint, (1e-9, 12)),
        y=y,
    )


def factor(count: int) -> Problem:
    """Rows of three columns, y ~ N(0, λ λᵀ + I), λ ~ N(0, I): λ and -λ are the same model."""
    generator = np.random.default_rng(0)
    loading = np.array([1.0, -0.5, 0.3])
    y = single(generator.standard_normal((count, 1)) * loading + generator.standard_normal((count, 3)))
    gram = y.astype(float).T @ y.astype(float)

    # |λλᵀ + I| = 1 + |λ|², and the inverse is I - λλᵀ/(1 + |λ|²).
    def log_density(points):
        size = 1 + np.sum(points**2, axis=1)
        square = np.trace(gram) - np.einsum("pi,ij,pj->p", points, gram, points) / size
        return NORMAL(points).sum(1) - 0.5 * (square + count * (np.log(size) + 3 * np.log(2 * np.pi)))

    def log_likelihood(params, batch):
        loading = params["loading"]
        size = 1 + jnp.sum(loading**2)
        square = jnp.sum(batch["y"] ** 2, axis=1) - (batch["y"] @ loading) ** 2 / size
        return -0.5 * (square + jnp.log(size) + 3 * jnp.log(2 * jnp.pi))

    # Half of the space, doubled: the other half is its mirror image.
    truth = log_integral(log_density, (0, 6), (-6, 6), (-6, 6)) + np.log(2)
    return problem({"loading": dist.Normal(jnp.zeros(3), 1.0).to_event(1)}, log_likelihood, truth, y=y)


def unit(count: int) -> Problem:
    """A network of one tanh unit, y ~ N(a tanh(b x), 0.5²): a and b change sign together."""
    generator = np.random.default_rng(0)
    x = single(generator.standard_normal(count))
    y = single(np.tanh(0.8 * x) + 0.5 * generator.standard_normal(count))
    log_joint = over_rows(
        lambda a, b, x, y: NORMAL(y, a * np.tanh(b * x), 0.5), independent(NORMAL, NORMAL), x, y
    )
    return problem(
        {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["a"] * jnp.tanh(params["b"] * batch["x"]), 0.5).log_prob(
            batch["y"]
        ),
        log_integral(log_joint, (0, 8), (-8, 8)) + np.log(2),
        x=x,
        y=y,
    )


PROBLEMS = {
    **{f"ridge, {count:,} rows": partial(ridge, count) for count in (100, 1000, 10_000, 100_000)},
    **{f"product, {count:,} rows": partial(product, count) for count in (10, 1000)},
    **{f"banana, {count:,} rows": partial(banana, count) for count in (100, 10_000)},
    "funnel, informed": partial(funnel, 400, 1.0),
    "funnel, vague": partial(funnel, 80, 5.0),
    **{
        f"{size} intercepts, {count} rows": partial(intercepts, count, size)
        for count, size in ((60, 8), (403, 118))
    },
    **{f"ring, {count:,} rows": partial(ring, count) for count in (100, 10_000)},
    "factor, 300 rows": partial(factor, 300),
    **{f"tanh unit, {count:,} rows": partial(unit, count) for count in (100, 5000)},
}
