"""Problems with conjugate priors; their evidence is exact."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import betaln, gammaln

import evidentia as ev

from .problem import Problem, problem, single


def coin(count: int) -> Problem:
    """Bernoulli rows with a uniform prior."""
    y = single(np.random.default_rng(0).random(count) < 0.7)
    heads = y.sum()
    return problem(
        {"bias": dist.Beta(1.0, 1.0)},
        lambda params, batch: dist.Bernoulli(params["bias"]).log_prob(batch["y"]),
        betaln(1 + heads, 1 + count - heads),
        y=y,
    )


def counts(count: int) -> Problem:
    """Poisson rows, the rate with a gamma prior."""
    y = single(np.random.default_rng(0).poisson(3.4, count))
    total = y.sum(dtype=float)
    truth = gammaln(2 + total) - (2 + total) * np.log(1 + count) - gammaln(y.astype(float) + 1).sum()
    return problem(
        {"rate": dist.Gamma(2.0, 1.0)},
        lambda params, batch: dist.Poisson(params["rate"]).log_prob(batch["y"]),
        truth,
        y=y,
    )


def categories(count: int) -> Problem:
    """Categorical rows with five classes, a flat Dirichlet prior."""
    y = np.random.default_rng(0).choice(5, count, p=[0.5, 0.3, 0.15, 0.05, 0.0]).astype(np.int32)
    tally = np.bincount(y, minlength=5)
    return problem(
        {"shares": dist.Dirichlet(jnp.ones(5))},
        lambda params, batch: jnp.log(params["shares"])[batch["y"]],
        gammaln(5) - gammaln(5 + count) + gammaln(1 + tally).sum(),
        y=y,
    )


def normal(count: int) -> Problem:
    """Unknown mean and variance, normal-inverse-gamma prior."""
    y = single(np.random.default_rng(0).normal(1.5, 0.7, count))

    def log_likelihood(params, batch):
        scale = jnp.sqrt(params["variance"])
        return dist.Normal(params["mean"] * scale, scale).log_prob(batch["y"])

    wide, precision = y.astype(float), 0.25 + count
    shape, rate = 3 + count / 2, 2 + 0.5 * (np.sum(wide**2) - np.sum(wide) ** 2 / precision)
    truth = gammaln(shape) - gammaln(3.0) + 3 * np.log(2.0) - shape * np.log(rate)
    truth += 0.5 * np.log(0.25 / precision) - 0.5 * count * np.log(2 * np.pi)
    prior = {"variance": dist.InverseGamma(3.0, 2.0), "mean": dist.Normal(0.0, 2.0)}
    return problem(prior, log_likelihood, truth, y=y)


def far_prior(count: int) -> Problem:
    """A mean ten prior deviations from where the prior expects it."""
    y = single(np.random.default_rng(0).normal(10.0, 1.0, count))
    wide = y.astype(float)
    truth = -0.5 * count * np.log(2 * np.pi) - 0.5 * np.log(1 + count)
    truth += -0.5 * (np.sum(wide**2) - np.sum(wide) ** 2 / (1 + count))
    return problem(
        {"mean": dist.Normal(0.0, 1.0)},
        lambda params, batch: dist.Normal(params["mean"], 1.0).log_prob(batch["y"]),
        truth,
        y=y,
    )


def linear(count: int, size: int, arrange=lambda generator, x, y: (x, y)) -> Problem:
    """Linear regression; `arrange` changes features, targets or the order of rows."""
    model = ev.models.linear_regression(num_features=size)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((count, size))
    y = x @ generator.standard_normal(size) + 0.5 + generator.standard_normal(count)
    x, y = (single(array) for array in arrange(generator, x, y))
    data = {"x": x, "y": y}
    return Problem(model, data, model.exact_log_evidence(data))


def sorted_by_target(generator, x, y):
    order = np.argsort(y)
    return x[order], y[order]


def sorted_by_feature(generator, x, y):
    order = np.argsort(x[:, 0])
    return x[order], y[order]


def drifting(generator, x, y):
    """The truth drifts, which the model does not know."""
    return x, y + np.linspace(-2, 2, len(y)) * x[:, 0]


def in_blocks(generator, x, y):
    """Five blocks of rows, each with its own level of the first feature."""
    x[:, 0] = np.repeat(np.arange(5), len(y) // 5) - 2
    return x, y


def duplicated(generator, x, y):
    """Each row a hundred times."""
    count = len(y) // 100
    return np.repeat(x[:count], 100, axis=0), np.repeat(y[:count], 100)


def scaled(generator, x, y):
    """Features with scales from 10⁻⁶ to 10⁶."""
    return x * 10.0 ** np.linspace(-6, 6, x.shape[1]), y


def constant(generator, x, y):
    """A feature that is constant, beside the intercept."""
    x[:, 0] = 3.0
    return x, y


def collinear(generator, x, y):
    """Two features that are the same."""
    x[:, 1] = x[:, 0]
    return x, y


PROBLEMS = {
    "coin, 1 row": partial(coin, 1),
    **{f"coin, {count} rows": partial(coin, count) for count in (5, 1000)},
    **{f"counts, {count} rows": partial(counts, count) for count in (5, 200)},
    "categories, 300 rows": partial(categories, 300),
    "normal, 1 row": partial(normal, 1),
    **{f"normal, {count} rows": partial(normal, count) for count in (3, 500)},
    **{f"prior ten deviations off, {count} rows": partial(far_prior, count) for count in (20, 10_000)},
    "linear, 1 row, 5 features": partial(linear, 1, 5),
    "linear, 10 rows, 20 features": partial(linear, 10, 20),
    "linear, 50 rows, 5 features": partial(linear, 50, 5),
    "linear, 100,000 rows, 5 features": partial(linear, 100_000, 5),
}
ORDERS = {
    f"linear, {arrange.__name__.replace('_', ' ')}": partial(linear, 10_000, 5, arrange)
    for arrange in (sorted_by_target, sorted_by_feature, drifting, in_blocks, duplicated)
}
SCALES = {
    f"linear, {arrange.__name__}": partial(linear, 10_000, 5, arrange)
    for arrange in (scaled, constant, collinear)
}
DIMENSIONS = {
    f"linear, {size} features": partial(linear, rows, size)
    for size, rows in ((50, 1000), (100, 2000), (200, 2000), (500, 2000))
}
