"""NumPyro programs with a latent in each row, discrete or of two modes, that is integrated out."""

from functools import cache
from itertools import product

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

import evidentia as ev

from .problem import LOG_TWO_PI, Drawn, log_integral, log_trapezoid, log_uniform, pick, single, wide

WIDTH = 3.0  # prior deviation of a slope
RATERS = 3
NORMAL = stats.norm.logpdf


@cache
def _slopes_model() -> ev.Model:
    def program(x, y, noise):
        slopes = numpyro.sample("slopes", dist.Normal(0.0, WIDTH).expand([2]).to_event(1))
        with numpyro.plate("rows", len(y)):
            label = numpyro.sample(
                "label", dist.Categorical(jnp.ones(2) / 2), infer={"enumerate": "parallel"}
            )
            numpyro.sample("y", dist.Normal(slopes[label] * x, noise), obs=y)

    return ev.Model.from_numpyro(program)


def two_slopes(generator: np.random.Generator) -> Drawn:
    """A mixture of two regressions through the origin: each row has one of two slopes."""
    count = pick(generator, (8, 100))
    x = single(generator.standard_normal(count))
    noise = single(np.full(count, log_uniform(generator, -0.7, 0.3)))
    slopes, deviation = WIDTH * generator.standard_normal(2), float(noise[0])
    y = single(slopes[generator.integers(2, size=count)] * x + noise * generator.standard_normal(count))

    def log_density(points):
        squares = [-0.5 * ((wide(y) - slope[:, None] * wide(x)) / deviation) ** 2 for slope in points.T]
        constant = count * (np.log(2 * deviation) + 0.5 * LOG_TWO_PI)
        return np.logaddexp(*squares).sum(1) - constant + NORMAL(points, 0, WIDTH).sum(1)

    truth = log_integral(log_density, (-20.0, 20.0), (-20.0, 20.0))
    drawn = {"rows": count, "noise": deviation, "slopes": slopes.tolist(), "edge": 20.0}
    return Drawn(_slopes_model(), {"x": x, "y": y, "noise": noise}, truth, drawn)


@cache
def _raters_model() -> ev.Model:
    def program(y):
        share = numpyro.sample("share", dist.Beta(1.0, 1.0))
        hits = numpyro.sample("hits", dist.Beta(1.0, 1.0).expand([RATERS]).to_event(1))
        alarms = numpyro.sample("alarms", dist.Beta(1.0, 1.0).expand([RATERS]).to_event(1))
        with numpyro.plate("rows", len(y)):
            label = numpyro.sample("label", dist.Bernoulli(share), infer={"enumerate": "parallel"})
            yes = jnp.where(label[..., None] == 1, hits, alarms)
            numpyro.sample("y", dist.Bernoulli(yes).to_event(1), obs=y)

    return ev.Model.from_numpyro(program)


def raters(generator: np.random.Generator) -> Drawn:
    """Dawid and Skene's (1979) model of raters: the true labels are unknown, and can be swapped.

    Given the labels, all probabilities are integrated as Beta functions. Labels of rows with the
    same answers are counted: a sum over how many of each pattern are ones.
    """
    count = pick(generator, (6, 14))
    label = generator.random(count) < generator.random()
    yes = np.where(label[:, None], generator.beta(4, 2, RATERS), generator.beta(2, 4, RATERS))
    y = (generator.random((count, RATERS)) < yes).astype(np.int32)

    def log_given(ones, answered):
        """Labels with `ones` ones, and `answered` (…, raters) of them answered yes."""
        zeros, rest = count - ones, y.sum(0) - answered
        rates = betaln(1 + answered, 1 + ones[:, None] - answered) + betaln(
            1 + rest, 1 + zeros[:, None] - rest
        )
        return betaln(1 + ones, 1 + zeros) + rates.sum(1)

    patterns, counts = np.unique(y, axis=0, return_counts=True)
    k = np.array(list(product(*[range(number + 1) for number in counts])))
    log_ways = (gammaln(counts + 1) - gammaln(k + 1) - gammaln(counts - k + 1)).sum(1)
    truth = float(logsumexp(log_ways + log_given(k.sum(1), k @ patterns)))

    def second():
        labels = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float(logsumexp(log_given(labels.sum(1), labels @ y)))

    return Drawn(_raters_model(), {"y": y}, truth, {"rows": count}, second)


@cache
def _squares_model() -> ev.Model:
    def program(y, noise):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with numpyro.plate("rows", len(y)):
            root = numpyro.sample("root", dist.Normal(0.0, scale))
            numpyro.sample("y", dist.Normal(root**2, noise), obs=y)

    return ev.Model.from_numpyro(program)


def roots(generator: np.random.Generator) -> Drawn:
    """Rows about squares of normal latents: the inner integral of each row has two modes."""
    count = pick(generator, (5, 40))
    noise = single(np.full(count, log_uniform(generator, -0.5, 0.3)))
    scale = log_uniform(generator, -0.5, 0.5)
    latent = scale * generator.standard_normal(count)
    y = single(latent**2 + noise * generator.standard_normal(count))
    step = 0.005
    root = step * (np.arange(6_000) + 0.5)
    of_root = NORMAL(wide(y)[:, None], root**2, float(noise[0])) + np.log(2 * step)
    log_squares, log_step = np.linspace(-40, 7, 12_001, retstep=True)
    squares = np.exp(log_squares)
    of_square = NORMAL(wide(y)[:, None], squares, float(noise[0])) + log_squares + np.log(log_step)

    def integral(inner, points):
        """Over the log of the scale; inner(scale) has an axis of rows and one of latents."""
        grid, width = np.linspace(-6, 6, points, retstep=True)
        heights = [logsumexp(inner(one), axis=1).sum() for one in np.exp(grid)]
        return log_trapezoid(np.array(heights) + NORMAL(grid), width)

    def second():
        return integral(lambda one: of_square + stats.gamma.logpdf(squares, 0.5, scale=2 * one**2), 121)

    truth = integral(lambda one: of_root + NORMAL(root, 0, one), 161)
    drawn = {"rows": count, "noise": float(noise[0]), "scale": scale}
    return Drawn(_squares_model(), {"y": y, "noise": noise}, truth, drawn, second)


FAMILIES = {"two slopes": two_slopes, "raters": raters, "roots in each row": roots}
