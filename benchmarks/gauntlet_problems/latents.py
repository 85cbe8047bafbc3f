"""Latents of rows and of groups, which are integrated out: funnels in either form, regressions."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats
from scipy.special import logsumexp

import evidentia as ev

from .problem import Problem, log_integral, single
from .ridges import funnel

NORMAL = stats.norm.logpdf
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
GRID = np.linspace(-8, 8, 801)  # of effects, in units of their deviation


def schools(is_centred: bool) -> Problem:
    """Eight schools (Rubin 1981); the mean is integrated out exactly."""

    def program(effect, error):
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        scale = numpyro.sample("scale", dist.HalfCauchy(5))
        with numpyro.plate("schools", len(effect)):
            theta = _normal("theta", mean, scale, is_centred)
            numpyro.sample("effect", dist.Normal(theta, error), obs=effect)

    def log_density(points):
        scale = np.exp(points[:, 0])
        variances = ERRORS**2 + scale[:, None] ** 2
        precision = np.sum(1 / variances, axis=1) + 1 / 25
        linear = np.sum(EFFECTS / variances, axis=1)
        of_mean = 0.5 * linear**2 / precision - 0.5 * np.log(25 * precision)
        log_prior = stats.halfcauchy.logpdf(scale, scale=5) + points[:, 0]
        return log_prior + of_mean + NORMAL(EFFECTS, 0, np.sqrt(variances)).sum(1)

    data = {"effect": single(EFFECTS), "error": single(ERRORS)}
    return Problem(ev.Model.from_numpyro(program), data, log_integral(log_density, (-40, 40)))


def funnel_of_groups(is_centred: bool) -> Problem:
    """The vague funnel, with the means of its groups integrated out."""
    known = funnel(80, 5.0)

    def program(y, group):
        log_scale = numpyro.sample("log_scale", dist.Normal(0, 2))
        with numpyro.plate("groups", 8):
            means = _normal("means", 0.0, jnp.exp(log_scale), is_centred)
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(means[group], 5.0), obs=y)

    return known._replace(model=ev.Model.from_numpyro(program, groups="group"))


def _normal(name: str, mean: Any, scale: Any, is_centred: bool) -> Any:
    if is_centred:
        return numpyro.sample(name, dist.Normal(mean, scale))
    return mean + scale * numpyro.sample(f"{name} in units", dist.Normal(0, 1))


def intercepts(groups: int, repeats: int, deviation: float) -> Problem:
    """Logistic random intercepts by a formula; a group counts by its successes only."""
    generator = np.random.default_rng(groups)
    logits = 0.5 + deviation * generator.standard_normal(groups)
    group = np.repeat(np.arange(groups), repeats)
    y = generator.uniform(size=len(group)) < 1 / (1 + np.exp(-logits[group]))
    numbers = np.bincount(np.bincount(group, y).astype(int), minlength=repeats + 1)
    log_weights = NORMAL(GRID) + np.log(GRID[1] - GRID[0])

    def log_density(points):
        found = []
        for intercept, log_scale in points:
            eta = intercept + np.exp(log_scale) * GRID
            terms = np.arange(repeats + 1)[:, None] * eta - repeats * np.logaddexp(0, eta)
            found.append(numbers @ logsumexp(terms + log_weights, axis=1))
        log_prior = NORMAL(points[:, 0], 0, 2.5) - np.exp(points[:, 1]) + points[:, 1]
        return np.array(found) + log_prior

    truth = log_integral(log_density, (-8, 8), (-12, 2.5))
    data = {"y": y, "group": group}
    return Problem(ev.Regression("y ~ (1 | group)", family="bernoulli"), data, truth)


def noisy_column(count: int) -> Problem:
    """y ~ N(b x, 0.5²) where x ~ N(0, 1) is measured with deviation 0.7: exact given b."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal(count)
    measured = single(x + 0.7 * generator.standard_normal(count))
    y = single(0.8 * x + 0.5 * generator.standard_normal(count))

    def program(measured, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y)):
            true = numpyro.sample("true", dist.Normal(0, 1))
            numpyro.sample("measured", dist.Normal(true, 0.7), obs=measured)
            numpyro.sample("y", dist.Normal(slope * true, 0.5), obs=y)

    total, share = 1 + 0.7**2, 1 / (1 + 0.7**2)  # x given its measurement: N(share m, 0.7² share)

    def log_density(points):
        b = points[:, :1]
        of_y = NORMAL(y.astype(float), b * share * measured, np.sqrt(0.25 + b**2 * 0.49 * share))
        return NORMAL(points[:, 0]) + of_y.sum(1) + NORMAL(measured.astype(float), 0, np.sqrt(total)).sum()

    data = {"measured": measured, "y": y}
    return Problem(ev.Model.from_numpyro(program), data, log_integral(log_density, (-10, 10)))


PROBLEMS = {
    "eight schools, centred": partial(schools, True),
    "eight schools, not centred": partial(schools, False),
    "funnel of groups, centred": partial(funnel_of_groups, True),
    "funnel of groups, not centred": partial(funnel_of_groups, False),
    "8 groups of 5 binary rows": partial(intercepts, 8, 5, 1.0),
    "40 groups of 5 binary rows, alike": partial(intercepts, 40, 5, 0.0),
    "100 groups of 20 binary rows": partial(intercepts, 100, 20, 1.0),
    "column with errors, 200 rows": partial(noisy_column, 200),
}
