"""One observation, as a density of up to 25 parameters: spikes, ridges, shells, edges, peaks.

The data hold the constants of the density, so that all seeds of a dimension share a program.
Priors are uniform on a cube; what a density has outside of it is counted, or below 10⁻⁴ nats.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp as log_sum
from scipy import stats
from scipy.special import gammaln, log_ndtr, logsumexp

import evidentia as ev

from .problem import LOG_TWO_PI, Candidate, Drawn, density, log_integral_of, log_uniform, pick, single, wide

SPIKES, PEAKS, SHELLS, CORRELATED = (1, 2, 5, 10, 20), (1, 2, 5), (2, 3, 10, 20), (2, 5, 12, 25)


def _cube(size: int, half: float):
    return {"x": dist.Uniform(-half, half).expand([size]).to_event(1)}


def _log_normal(x, mean, deviation):
    """Log density of independent normals; one deviation for all coordinates of a row."""
    deviation = jnp.asarray(deviation)
    squares = jnp.sum(((x - mean) / deviation[..., None]) ** 2, -1)
    return -0.5 * squares - x.shape[-1] * (jnp.log(deviation) + 0.5 * LOG_TWO_PI)


def _log_inside(low: float, high: float, mean: np.ndarray, deviation: float) -> float:
    """Log probability of a box under independent normals, in either tail."""
    lower, upper = (low - mean) / deviation, (high - mean) / deviation
    lower, upper = np.where(lower > 0, -upper, lower), np.where(lower > 0, -lower, upper)
    return float(np.sum(log_ndtr(upper) + np.log1p(-np.exp(log_ndtr(lower) - log_ndtr(upper)))))


@cache
def _mixture_model(size: int, half: float) -> ev.Model:
    def log_likelihood(params, data):
        parts = _log_normal(params["x"], data["means"], data["deviations"])
        return log_sum(parts + data["log_weights"])

    return density(_cube(size, half), log_likelihood)


def _mixture(size, half, means, deviations, log_weights, drawn) -> Drawn:
    data = {
        "means": single(means),
        "deviations": single(deviations),
        "log_weights": single(log_weights),
    }
    parts = [
        float(weight) + _log_inside(-half, half, wide(mean), float(deviation))
        for weight, mean, deviation in zip(
            data["log_weights"], data["means"], data["deviations"], strict=True
        )
    ]
    # Chib's identity at one point with the density summed on its own.
    at = data["means"][0] + 0.3 * data["deviations"][0]
    at = np.clip(wide(at), -half, half)
    log_prior = -size * np.log(2 * half)
    truth = logsumexp(parts) + log_prior
    inside = [
        stats.norm.logpdf(at, wide(mean), float(deviation)).sum() + float(weight)
        for weight, mean, deviation in zip(
            data["log_weights"], data["means"], data["deviations"], strict=True
        )
    ]
    boxes = [
        stats.norm.cdf(half, wide(mean), float(deviation))
        - stats.norm.cdf(-half, wide(mean), float(deviation))
        for mean, deviation in zip(data["means"], data["deviations"], strict=True)
    ]
    total = sum(
        np.exp(float(weight)) * np.prod(box) for weight, box in zip(data["log_weights"], boxes, strict=True)
    )
    second = Candidate({"x": at}, logsumexp(inside) - np.log(total))
    return Drawn(_mixture_model(size, half), data, truth, {"size": size, **drawn}, second)


def spike_in_slab(generator: np.random.Generator) -> Drawn:
    """A narrow heavy normal within a wide one: a transition of the first order."""
    size = pick(generator, SPIKES)
    centre = generator.uniform(-0.1, 0.1, size)
    spike, weight = log_uniform(generator, -2.3, -1.5), log_uniform(generator, 0, 3)
    drawn = {"spike": spike, "weight": weight}
    return _mixture(size, 0.5, [centre, np.zeros(size)], [spike, 0.1], [np.log(weight), 0.0], drawn)


def peaks(generator: np.random.Generator) -> Drawn:
    """Two to four normals apart in a cube, of unequal widths and weights."""
    size, count = pick(generator, ((1, 4), (2, 4), (5, 3), (10, 2)))
    means = generator.uniform(-7, 7, (count, size))
    deviations = log_uniform(generator, -1, 0, count)
    log_weights = generator.normal(0, 1.5, count)
    return _mixture(size, 10.0, means, deviations, log_weights, {"peaks": count})


def narrow_peak(generator: np.random.Generator) -> Drawn:
    """One normal, of width 10⁻⁸ to 1, in a square or a cube."""
    size = pick(generator, PEAKS)
    width = log_uniform(generator, -8 if size <= 2 else -4, 0)
    # Near the origin float32 resolves narrow peaks.
    centre = generator.uniform(-1, 1, size) * min(0.4, 1e4 * width)
    return _mixture(size, 0.5, [centre], [width], [0.0], {"width": width})


@cache
def _correlated_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        whitened = data["whitening"] @ (params["x"] - data["centre"])
        return _log_normal(whitened, 0.0, 1.0) + data["log_determinant"]

    return density(_cube(size, 10.0), log_likelihood)


def correlated(generator: np.random.Generator) -> Drawn:
    """A normal with equal correlations and unequal deviations, a cube as prior."""
    size = pick(generator, CORRELATED)
    correlation = pick(generator, (0.4, 0.9, 0.99))
    covariance = correlation + (1 - correlation) * np.eye(size)
    deviations = pick(generator, (np.ones(size), 10 ** np.linspace(-1, 0, size)))
    centre = single(generator.uniform(-3, 3, size))
    whitening = single(np.linalg.inv(np.linalg.cholesky(covariance)) / deviations)
    log_determinant = single(np.linalg.slogdet(wide(whitening))[1])
    truth = float(log_determinant) - np.linalg.slogdet(wide(whitening))[1] - size * np.log(20)
    data = {"whitening": whitening, "centre": centre, "log_determinant": log_determinant}
    at = wide(centre) + 0.1
    inverse = wide(whitening).T @ wide(whitening)
    log_posterior = stats.multivariate_normal.logpdf(at, wide(centre), np.linalg.inv(inverse))
    drawn = {"size": size, "correlation": correlation, "narrowest": float(deviations[0])}
    return Drawn(_correlated_model(size), data, truth, drawn, Candidate({"x": at}, log_posterior))


@cache
def _shell_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        radius = jnp.sqrt(jnp.sum((params["x"] - data["centre"]) ** 2) + 1e-20)
        return dist.Normal(data["radius"], data["width"]).log_prob(radius)

    return density(_cube(size, 6.0), log_likelihood)


def shell(generator: np.random.Generator) -> Drawn:
    """A normal shell within a cube."""
    size = pick(generator, SHELLS)
    radius, width = single(generator.uniform(1, 4)), single(log_uniform(generator, -2, -0.7))
    centre = single(generator.uniform(-0.5, 0.5, size))
    area = np.log(2) + 0.5 * size * np.log(np.pi) - gammaln(size / 2)

    def log_density(values):
        return stats.norm.logpdf(values, radius, width) + (size - 1) * np.log(values)

    low, high = max(1e-9, float(radius) - 7 * float(width)), float(radius) + 7 * float(width)
    log_box = size * np.log(12)
    truth = area + log_integral_of(log_density, low, high) - log_box

    def second():
        # Moments of a normal, far from zero: E r^(d-1) by the recurrence of raw moments.
        moments = [1.0, float(radius)]
        for order in range(2, size):
            moments.append(float(radius) * moments[-1] + (order - 1) * float(width) ** 2 * moments[-2])
        return area + np.log(moments[size - 1]) - log_box

    drawn = {"size": size, "radius": float(radius), "width": float(width)}
    data = {"centre": centre, "radius": radius, "width": width}
    return Drawn(_shell_model(size), data, truth, drawn, second)


@cache
def _twisted_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        first, second = params["x"][::2], params["x"][1::2]
        straight = second - data["bend"] * (first**2 - 1)
        return _log_normal(first, 0.0, 1.0) + _log_normal(straight, 0.0, data["width"])

    return density(_cube(size, 20.0), log_likelihood)


def twisted(generator: np.random.Generator) -> Drawn:
    """Pairs of parameters on a banana: a normal after a map that keeps volumes."""
    size = pick(generator, (2, 6, 20))
    bend, width = single(generator.uniform(0.1, 1)), single(log_uniform(generator, -1.5, 0))
    truth = -size * np.log(40)  # 10⁻⁵ of the mass is outside
    first = generator.standard_normal(size // 2)
    straight = 0.3 * float(width) * np.ones(size // 2)
    at = np.stack([first, straight + float(bend) * (first**2 - 1)], 1).ravel()
    log_posterior = stats.norm.logpdf(first).sum() + stats.norm.logpdf(straight, 0, float(width)).sum()
    drawn = {"size": size, "bend": float(bend), "width": float(width)}
    data = {"bend": bend, "width": width}
    return Drawn(_twisted_model(size), data, truth, drawn, Candidate({"x": at}, log_posterior))


@cache
def _pole_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        x = params["x"]
        height = -jnp.log(jnp.maximum(jnp.abs(x[0]), data["least"]))
        return jnp.where(x[-1] > data["edge"], height, -jnp.inf)

    return density(_cube(size, 1.0), log_likelihood)


def pole(generator: np.random.Generator) -> Drawn:
    """1/|x| down to 10⁻⁶ in the first direction; a part of the last is excluded."""
    size = pick(generator, (2, 4))
    least, edge = single(log_uniform(generator, -6, -1)), single(generator.uniform(-0.8, 0.8))
    share = np.log(0.5 * (1 - float(edge)))
    truth = np.log1p(-np.log(float(least))) + share

    def second():
        return log_integral_of(lambda u: u - np.maximum(u, np.log(float(least))), -60.0, 0.0) + share

    data, drawn = {"least": least, "edge": edge}, {"least": float(least), "edge": float(edge)}
    return Drawn(_pole_model(size), data, truth, {"size": size, **drawn}, second)


@cache
def _egg_box_model(size: int) -> ev.Model:
    def log_likelihood(params, data):
        return (data["offset"] + jnp.prod(jnp.cos(params["x"] / 2))) ** 5 * data["height"]

    return density({"x": dist.Uniform(0.0, 10 * np.pi).expand([size]).to_event(1)}, log_likelihood)


def egg_box(generator: np.random.Generator) -> Drawn:
    """A lattice of peaks (Feroz, Hobson, Bridges 2009, section 6.1), of drawn heights."""
    size = pick(generator, (1, 2, 3))
    offset, height = single(generator.uniform(1, 2)), single(log_uniform(generator, -1.5, 0))
    a, h = float(offset), float(height)
    truth = log_egg_box(size, a, h)

    def second():
        # Both signs on a quarter of the period, by the midpoint rule, which is exact.
        one = np.cos((np.arange(64) + 0.5) * np.pi / 128)
        product = np.ones(1)
        for _ in range(size):
            product = np.multiply.outer(product, one).ravel()
        both = np.concatenate([product, -product])
        return float(logsumexp(h * (a + both) ** 5) - np.log(both.size))

    drawn = {"size": size, "offset": a, "height": h}
    return Drawn(_egg_box_model(size), {"offset": offset, "height": height}, truth, drawn, second)


def log_egg_box(size: int, a: float, h: float) -> float:
    """The log mean of exp h (a + p)⁵ over a cube, with p = Π cos(x/2).

    It is a series in p with positive coefficients, by the recurrence of the exponential of a
    polynomial; even moments of a cosine are binomial, odd ones are zero.
    """
    terms = int(60 + 12 * h * 5 * (a + 1) ** 5)
    polynomial = [h * c * a ** (5 - k) for k, c in enumerate((1, 5, 10, 10, 5, 1))]
    logs = [polynomial[0]]
    for k in range(1, terms):
        parts = [np.log(j * polynomial[j] / k) + logs[k - j] for j in range(1, min(k, 5) + 1)]
        logs.append(logsumexp(parts))
    even = np.arange(0, terms, 2)
    log_moment = gammaln(even + 1) - 2 * gammaln(even / 2 + 1) - even * np.log(2)
    return float(logsumexp(np.array(logs)[even] + size * log_moment))


FAMILIES = {
    "spike in slab": spike_in_slab,
    "peaks": peaks,
    "narrow peak": narrow_peak,
    "correlated normal": correlated,
    "shell": shell,
    "twisted normal": twisted,
    "pole and edge": pole,
    "egg box": egg_box,
}
