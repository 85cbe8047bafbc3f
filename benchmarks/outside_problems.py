"""The first problems that came from outside, with their exact log evidences.

Each has one data set. Most of them are of the public cases of other packages.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from fresh_families.densities import log_egg_box
from fresh_families.problem import LOG_TWO_PI, log_integral_of
from jax.scipy.special import logsumexp as log_sum
from scipy import stats
from scipy.special import gammaln, log_ndtr, logsumexp

import evidentia as ev

ONE = {"none": np.zeros(1, np.float32)}  # of a density without data


class Problem(NamedTuple):
    """A model, its data and its log evidence in nats."""

    model: Any
    data: Any
    truth: float


def density(prior: dict, log_density: Callable[[Any], Any], truth: float) -> Problem:
    """A density of the parameters, as the likelihood of one observation."""
    return Problem(
        ev.Model(prior, lambda params, data: log_density(params["x"]) + 0 * data["none"]), ONE, truth
    )


def cube(size: int, low: float, high: float) -> dict:
    """Independent uniform coordinates."""
    return {"x": dist.Uniform(low, high).expand([size]).to_event(1)}


def sum_of_normals(size: int) -> Problem:
    """Exchangeable normals that enter through their sum, 20 rows."""
    y = np.random.default_rng(3).normal(1, 1, 20).astype(np.float32)
    model = ev.Model(
        {"x": dist.Normal(0, 1).expand([size]).to_event(1)},
        lambda params, data: dist.Normal(params["x"].sum(), 1.0).log_prob(data["y"]),
    )
    covariance = np.eye(20) + size
    return Problem(model, {"y": y}, float(stats.multivariate_normal(np.zeros(20), covariance).logpdf(y)))


def vague_precision(count: int, has_location: bool = False) -> Problem:
    """Normal rows with a precision of Gamma(10⁻⁴, 10⁻⁴), about zero or a Cauchy location."""
    y, shape = np.random.default_rng(5).normal(0, 2, count).astype(np.float32), 1e-4
    prior = {"precision": dist.Gamma(shape, shape)}
    if has_location:
        prior["location"] = dist.Cauchy(0, 1)

    def log_likelihood(params, data):
        return dist.Normal(params.get("location", 0.0), params["precision"] ** -0.5).log_prob(data["y"])

    def log_given(location):
        squares = np.sum((y.astype(float) - np.asarray(location)[..., None]) ** 2, -1)
        log_constant = shape * np.log(shape) - gammaln(shape) + gammaln(shape + count / 2)
        return log_constant - 0.5 * count * LOG_TWO_PI - (shape + count / 2) * np.log(shape + squares / 2)

    def log_joint(location):
        return log_given(location) + stats.cauchy.logpdf(location)

    truth = log_integral_of(log_joint, -100.0, 100.0) if has_location else log_given(0.0)
    return Problem(ev.Model(prior, log_likelihood), {"y": y}, float(truth))


def spike_in_slab(size: int) -> Problem:
    """100 N(0.031, 0.01²) + N(0, 0.1²) in a cube."""

    def log_normal(x, mean, deviation):
        return -0.5 * jnp.sum(((x - mean) / deviation) ** 2) - size * (np.log(deviation) + 0.5 * LOG_TWO_PI)

    def log_density(x):
        return jnp.logaddexp(np.log(100.0) + log_normal(x, 0.031, 0.01), log_normal(x, 0.0, 0.1))

    return density(cube(size, -0.5, 0.5), log_density, float(np.log(101)))


def mixture(size: int) -> Problem:
    """Components of known deviation, ten rows in two groups; the truth by all partitions."""
    y = np.concatenate([np.random.default_rng(seed).normal(at, 1, 5) for seed, at in ((1, -3), (2, 3))])
    y, spread = y.astype(np.float32), 4.0

    def log_likelihood(params, data):
        parts = dist.Normal(params["means"], 1.0).log_prob(data["y"][:, None])
        return log_sum(jnp.log(params["shares"]) + parts, axis=-1)

    prior = {
        "shares": dist.Dirichlet(jnp.ones(size)),
        "means": dist.Normal(0, spread).expand([size]).to_event(1),
    }
    return Problem(ev.Model(prior, log_likelihood), {"y": y}, _log_mixture(y.astype(float), size, spread))


def _log_mixture(y: np.ndarray, size: int, spread: float) -> float:
    """The log evidence, as a sum over partitions of the rows into at most `size` groups."""
    count, full = len(y), (1 << len(y)) - 1
    block = np.full(full + 1, -np.inf)
    for mask in range(1, full + 1):
        own = y[[bool(mask >> row & 1) for row in range(count)]]
        precision = len(own) + spread**-2
        quadratic = np.sum(own**2) - np.sum(own) ** 2 / precision
        block[mask] = -0.5 * (len(own) * LOG_TWO_PI + np.log(spread**2 * precision) + quadratic)
        block[mask] += gammaln(len(own) + 1)  # of the uniform shares
    of_rows = {0: {0: 0.0}}  # log weights of the first rows' partitions, by rows used and groups
    for _ in range(size):
        grown: dict[int, dict[int, float]] = {}
        for used, groups in of_rows.items():
            for number, weight in groups.items():
                left = full & ~used
                if not left:
                    grown.setdefault(used, {})[number] = np.logaddexp(
                        grown.get(used, {}).get(number, -np.inf), weight
                    )
                    continue
                first, rest = left & -left, left & (left - 1)
                some = rest
                while True:
                    mask = used | first | some
                    new = weight + block[first | some]
                    before = grown.setdefault(mask, {}).get(number + 1, -np.inf)
                    grown[mask][number + 1] = np.logaddexp(before, new)
                    if not some:
                        break
                    some = (some - 1) & rest
        of_rows = grown
    labels = [
        weight + gammaln(size + 1) - gammaln(size - number + 1) for number, weight in of_rows[full].items()
    ]
    return float(logsumexp(labels) + gammaln(size) - gammaln(size + count))


def correlated_normal() -> Problem:
    """A normal in 25 dimensions with correlations of 0.4."""
    size = 25
    covariance = 0.6 * np.eye(size) + 0.4
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    log_constant = -0.5 * (np.linalg.slogdet(covariance)[1] + size * LOG_TWO_PI)
    return density(
        cube(size, -5, 5), lambda x: -0.5 * x @ precision @ x + log_constant, -size * float(np.log(10))
    )


def sum_of_squares() -> Problem:
    """Five normals that enter through the sum of their squares: 3,840 copies."""
    y = np.random.default_rng(0).normal(5, 1, 10).astype(np.float32)
    model = ev.Model(
        {"x": dist.Normal(0, 1).expand([5]).to_event(1)},
        lambda params, data: dist.Normal(jnp.sum(params["x"] ** 2), 1.0).log_prob(data["y"]),
    )

    def log_joint(total):
        return stats.chi2(5).logpdf(total) + stats.norm.logpdf(y.astype(float)[:, None], total, 1).sum(0)

    return Problem(model, {"y": y}, log_integral_of(log_joint, 1e-9, 60.0))


def egg_box(size: int) -> Problem:
    """exp (2 + Π cos(x/2))⁵ in a cube."""
    return density(
        cube(size, 0.0, 10 * np.pi),
        lambda x: (2 + jnp.prod(jnp.cos(x / 2))) ** 5,
        log_egg_box(size, 2.0, 1.0),
    )


def log_gammas(size: int) -> Problem:
    """Independent log-gamma(2, 3) variables as one vector."""

    def log_density(x):
        log_gamma = 2 * x - 3 * jnp.exp(x) + 2 * np.log(3.0)
        return jnp.sum(log_gamma + 0.5 * x**2 + 0.5 * LOG_TWO_PI)

    return density({"x": dist.Normal(0, 1).expand([size]).to_event(1)}, log_density, 0.0)


def end_of_uniform() -> Problem:
    """Two rows, uniform up to an end that is uniform up to 10."""
    y = np.array([1.3, 2.9], np.float32)
    model = ev.Model(
        {"end": dist.Uniform(0, 10)},
        lambda params, data: jnp.where(data["y"] < params["end"], -jnp.log(params["end"]), -jnp.inf),
    )
    return Problem(model, {"y": y}, float(np.log((1 / y.max().astype(float) - 0.1) / 10)))


def random_likelihood() -> Problem:
    """A function that returns another number at each call; the truth without its noise."""
    noise = np.random.default_rng(0)

    def log_likelihood(point):
        return -0.5 * float(np.sum(((point - 0.5) / 0.1) ** 2)) + noise.normal(0, 1)

    truth = 2 * np.log(0.1 * np.sqrt(2 * np.pi)) + 2 * np.log(2 * stats.norm.cdf(5) - 1)
    return Problem(
        ev.Model.from_callable(log_likelihood, lambda cube: cube, names=("a", "b")), None, float(truth)
    )


def far_below_the_prior(log_density: Callable[[np.ndarray], np.ndarray], truth: float) -> Problem:
    """A function on (-1, 1)² with parts that are narrower than what draws see."""
    model = ev.Model.from_callable(log_density, lambda cube: 2 * cube - 1, num_parameters=2, vectorized=True)
    return Problem(model, None, truth)


def narrow_normal() -> Problem:
    """A normalised normal of deviation 10⁻¹⁰, far below what float32 resolves."""
    log_constant = -np.log(2 * np.pi) - 2 * np.log(1e-10)
    return far_below_the_prior(
        lambda x: log_constant - 0.5 * np.sum(((x - 0.3) / 1e-10) ** 2, 1), -2 * float(np.log(2))
    )


def near_singularity() -> Problem:
    """1 / max(|x|, 10⁻⁸): each power of ten below one holds an eighth of the integral."""
    return far_below_the_prior(
        lambda x: -np.log(np.maximum(np.abs(x[:, 0]), 1e-8)), float(np.log(1 + 8 * np.log(10)))
    )


def probit_groups() -> Problem:
    """31 groups of 1 to 16 binary rows, with a variance of prior density (1 + v)⁻²."""
    generator = np.random.default_rng(7)
    sizes = generator.integers(1, 17, 31)
    group = np.repeat(np.arange(31), sizes)
    effects = 0.8 * generator.standard_normal(31)
    y = (generator.standard_normal(len(group)) < 0.4 + effects[group]).astype(np.int32)

    def program(group, y):
        share = numpyro.sample("share", dist.Uniform(0, 1))  # v / (1 + v), of density 1
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("groups", 31):
            effect = numpyro.sample("effect", dist.Normal(mean, jnp.sqrt(share / (1 - share))))
        with numpyro.plate("rows", len(y)):
            log_odds = log_probit(effect[group]) - log_probit(-effect[group])
            numpyro.sample("y", dist.Bernoulli(logits=log_odds), obs=y)

    successes = np.bincount(group, y, 31)
    return Problem(
        ev.Model.from_numpyro(program, groups="group"),
        {"group": group, "y": y},
        _log_probit_groups(successes, sizes),
    )


def log_probit(x):
    """log Φ(x) in JAX."""
    from jax.scipy.stats import norm

    return norm.logcdf(x)


def _log_probit_groups(successes: np.ndarray, sizes: np.ndarray) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    log_weights = np.log(weights) - 0.5 * LOG_TWO_PI
    shares, of_shares = np.polynomial.legendre.leggauss(40)
    shares, of_shares = 0.5 * (shares + 1), np.log(0.5 * of_shares)
    means = np.linspace(-2.0, 3.0, 101)  # that of the posterior is 0.5 ± 0.2
    of_means = -0.5 * means**2 - 0.5 * LOG_TWO_PI + np.log(means[1] - means[0])
    total = []
    for share, of_share in zip(shares, of_shares, strict=True):
        effect = means[:, None] + np.sqrt(share / (1 - share)) * nodes
        log_one, log_none = log_ndtr(effect)[..., None], log_ndtr(-effect)[..., None]
        groups = successes * log_one + (sizes - successes) * log_none + log_weights[:, None]
        total.append(of_share + of_means + logsumexp(groups, axis=1).sum(1))
    return float(logsumexp(total))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{f"sum of {size} normals": partial(sum_of_normals, size) for size in (7, 8, 12, 20)},
    **{f"precision of Gamma(10⁻⁴), {count} rows": partial(vague_precision, count) for count in (10, 200)},
    "the same with a Cauchy location": partial(vague_precision, 10, has_location=True),
    **{f"spike in a slab, {size} dimensions": partial(spike_in_slab, size) for size in (5, 10, 20)},
    **{f"mixture of {size}, ten rows": partial(mixture, size) for size in (7, 8)},
    "normal in 25 dimensions": correlated_normal,
    "squares of five normals": sum_of_squares,
    "egg box in 5 dimensions": partial(egg_box, 5),
    "20 log-gammas": partial(log_gammas, 20),
    "end of a uniform, two rows": end_of_uniform,
    "random likelihood": random_likelihood,
    "probit groups": probit_groups,
    "width 10⁻¹⁰": narrow_normal,
    "1 / max(abs x, 10⁻⁸)": near_singularity,
}
