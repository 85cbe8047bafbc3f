"""Laws of rows whose two parameters trade off: tails, truncation, over-dispersion."""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import betaln as jax_betaln
from jax.scipy.special import log_ndtr as jax_log_ndtr
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln as log_beta
from scipy.special import gammaln, log_ndtr, logsumexp

import evidentia as ev

from .problem import LOG_TWO_PI, Drawn, log_integral, log_trapezoid, log_uniform, pick, single, wide

ROWS = (5, 100)
TRIALS = 12
DEGREES = (-9.0, 6.0)  # of freedom: the range of their logarithm
NORMAL = stats.norm.logpdf


@cache
def _tails_model() -> ev.Model:
    prior = {"degrees": dist.Gamma(2.0, 0.1), "location": dist.Normal(0.0, 10.0)}
    return ev.Model(
        prior,
        lambda params, batch: dist.StudentT(params["degrees"], params["location"], batch["scale"]).log_prob(
            batch["y"]
        ),
    )


def degrees_of_freedom(generator: np.random.Generator) -> Drawn:
    """Student rows of known scale with an unknown number of degrees of freedom."""
    count = pick(generator, ROWS)
    degrees = log_uniform(generator, -0.3, 1.5)
    scale = single(np.full(count, log_uniform(generator, -1, 1)))
    y = single(10 * generator.standard_normal() + scale * generator.standard_t(degrees, count))

    def log_density(points):
        nu, location = np.exp(points[:, :1]), points[:, 1:]
        rows = stats.t.logpdf(wide(y), nu, location, float(scale[0]))
        return (
            rows.sum(1) + (stats.gamma.logpdf(nu, 2, scale=10) + np.log(nu) + NORMAL(location, 0, 10))[:, 0]
        )

    drawn = {"rows": count, "degrees": degrees, "scale": float(scale[0])}
    if count == ROWS[0]:
        truth = _over_peaks(log_density, y, scale[0])
    else:
        truth = log_integral(log_density, DEGREES, (-60.0, 60.0))
    second = partial(_by_intervals, wide(y), float(scale[0]))
    return Drawn(_tails_model(), {"y": y, "scale": scale}, truth, drawn, second)


def _by_intervals(y, scale) -> float:
    """The log integral over the location first, from row to row: there may be a peak at each."""
    edges = np.unique([-60, *np.clip(y, -60, 60), 60])

    def given(log_degrees):
        nu = np.exp(log_degrees)
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi * scale**2)

        def height(location):
            rows = constant - (nu + 1) / 2 * np.log1p(((y - location) / scale) ** 2 / nu)
            return np.sum(rows) + NORMAL(location, 0, 10)

        top = max(height(one) for one in (*edges, np.median(y)))
        parts = [quad(lambda one: np.exp(height(one) - top), *pair, limit=200)[0] for pair in pairwise(edges)]
        return np.log(sum(parts)) + top + stats.gamma.logpdf(nu, 2, scale=10) + log_degrees

    nodes, step = np.linspace(*DEGREES, 90, retstep=True)
    return log_trapezoid(np.array([given(one) for one in nodes]), step)


def _over_peaks(log_density, y, scale) -> float:
    """The log integral where heavy tails may leave a narrow peak of the location at each row."""
    about = wide(y)[:, None] + scale * np.sinh(np.linspace(-7, 7, 400))
    places = np.unique(np.clip(np.append(np.linspace(-60, 60, 3000), about), -60, 60))
    log_degrees, step = np.linspace(*DEGREES, 300, retstep=True)
    heights = [log_density(np.column_stack([np.full(len(places), one), places])) for one in log_degrees]
    return float(logsumexp(np.array(heights) + np.log(step * np.gradient(places))))


@cache
def _truncated_model() -> ev.Model:
    def log_likelihood(params, batch):
        mean, scale = params["mean"], params["scale"]
        return dist.Normal(mean, scale).log_prob(batch["y"]) - jax_log_ndtr(mean / scale)

    return ev.Model({"mean": dist.Normal(0.0, 10.0), "scale": dist.HalfNormal(10.0)}, log_likelihood)


def truncated(generator: np.random.Generator) -> Drawn:
    """Positive rows of a normal law cut at zero: exponential ones leave a ridge of means below."""
    count = pick(generator, ROWS)
    size, is_exponential = log_uniform(generator, -0.5, 0.5), bool(generator.integers(2))
    normals = stats.truncnorm.rvs(-0.5, np.inf, loc=0.5, size=count, random_state=generator)
    y = single(size * (generator.exponential(size=count) if is_exponential else normals))
    total, square = wide(y).sum(), np.sum(wide(y) ** 2)

    def log_density(mean, scale, ratio):
        rows = -0.5 * (square - 2 * mean * total + count * mean**2) / scale**2
        rows -= count * (np.log(scale) + 0.5 * LOG_TWO_PI + log_ndtr(ratio))
        return rows + NORMAL(mean, 0, 10) + stats.halfnorm.logpdf(scale, scale=10)

    def of_cells(of_mean, low, high, columns):
        """The sum over cells of the log scale and of the mean, or of its ratio to the scale."""
        log_scale, height = np.linspace(-9, 5, 1400, retstep=True)
        other, width = np.linspace(low, high, columns, retstep=True)
        scale = np.exp(log_scale)[:, None]
        heights = log_density(other, scale, other / scale) if of_mean else _of_ratio(other, scale)
        return log_trapezoid(heights + log_scale[:, None], height * width)

    def _of_ratio(ratio, scale):
        return log_density(ratio * scale, scale, ratio) + np.log(scale)

    drawn = {"rows": count, "size": size, "exponential": is_exponential}
    truth = of_cells(True, -70.0, 70.0, 3500)
    return Drawn(_truncated_model(), {"y": y}, truth, drawn, lambda: of_cells(False, -50.0, 80.0, 3000))


@cache
def _dispersed_model() -> ev.Model:
    def log_likelihood(params, batch):
        a, b = params["successes"], params["failures"]
        return batch["log_choices"] + jax_betaln(a + batch["y"], b + TRIALS - batch["y"]) - jax_betaln(a, b)

    return ev.Model({name: dist.LogNormal(0.0, 2.0) for name in ("successes", "failures")}, log_likelihood)


def dispersed(generator: np.random.Generator) -> Drawn:
    """Beta-binomial rows, from shares near 0 and 1 to binomial: a ridge of large parameters."""
    count = pick(generator, ROWS)
    mean, strength = generator.uniform(0.05, 0.95), log_uniform(generator, -1, 3)
    y = generator.binomial(TRIALS, generator.beta(mean * strength, (1 - mean) * strength, count))
    log_choices = single(gammaln(TRIALS + 1) - gammaln(y + 1) - gammaln(TRIALS - y + 1))
    values, repeats = np.unique(y, return_counts=True)

    def log_density(a, b):
        rows = [log_beta(a + k, b + TRIALS - k) - log_beta(a, b) for k in values]
        return repeats @ np.array(rows) + log_choices.sum(dtype=float) + NORMAL(np.log([a, b]), 0, 2).sum(0)

    def of_odds(points):  # ln (a / b) and ln (a b): the ridge of large a and b is along one axis
        odds, product = points.T
        return log_density(np.exp(0.5 * (product + odds)), np.exp(0.5 * (product - odds))) - np.log(2)

    def second():
        logs, step = np.linspace(-16, 16, 1000, retstep=True)
        a, b = np.exp(np.meshgrid(logs, logs)).reshape(2, -1)
        return log_trapezoid(log_density(a, b), step**2)

    drawn = {"rows": count, "mean": mean, "strength": strength}
    truth = log_integral(of_odds, (-32.0, 32.0), (-32.0, 32.0))
    return Drawn(_dispersed_model(), {"y": single(y), "log_choices": log_choices}, truth, drawn, second)


FAMILIES = {
    "degrees of freedom": degrees_of_freedom,
    "truncated normal": truncated,
    "over-dispersed shares": dispersed,
}
