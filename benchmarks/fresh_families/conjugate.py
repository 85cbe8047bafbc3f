"""Conjugate families: normals, counts, shares, covariances, angles; 1 to 60 dimensions."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats
from scipy.special import betaln, gammaln, i0e, multigammaln

import evidentia as ev

from .problem import LOG_TWO_PI, Candidate, Drawn, log_uniform, pick, single, wide

# Dimensions, prior deviation, rows: each entry of a palette is one compiled program.
MEANS = ((1, 1e-3, 1), (1, 1e6, 100), (3, 1.0, 10_000), (10, 1e3, 10), (40, 1.0, 100), (60, 1e-3, 1000))
COEFFICIENTS = ((1, 1e3, 3), (5, 1.0, 100_000), (20, 10.0, 10), (60, 1.0, 1000))
# Shape and rate of the variance, the mean's prior deviation in units of the rows', rows.
SCALED = ((3.0, 2.0, 2.0, 2), (0.5, 0.5, 10.0, 100), (0.01, 0.01, 100.0, 10), (3.0, 2.0, 2.0, 1000))
RATES = (  # dimensions, shape and rate of the gamma prior, rows
    (1, 2.0, 1.0, 10_000),
    (5, 0.5, 0.01, 10),
    (20, 1.0, 1.0, 100),
    (1, 1e-3, 1e-3, 1),
    (2, 2.0, 1.0, 1_000_000),
)
SHARES = ((1, 1.0, 1.0, 1), (1, 0.02, 0.02, 10), (5, 0.5, 0.5, 1000), (20, 2.0, 5.0, 100))
CATEGORIES = ((3, 0.1, 10), (5, 1.0, 1000), (20, 0.5, 100), (40, 1.0, 1))  # classes, concentration, rows
MATRICES = ((2, 2), (2, 1000), (3, 30), (5, 100))
ANGLES = ((1, 0.01, 1), (1, 2.0, 100), (5, 0.01, 10))


@cache
def _means_model(size: int, width: float) -> ev.Model:
    prior = {"means": dist.Normal(0.0, width).expand([size]).to_event(1)}
    return ev.Model(
        prior,
        lambda params, batch: (
            dist.Normal(params["means"], batch["noise"][:, None]).log_prob(batch["y"]).sum(-1)
        ),
    )


def normal_means(generator: np.random.Generator) -> Drawn:
    """Columns of rows about unknown means; each row has its own known deviation."""
    size, width, count = pick(generator, MEANS)
    conflict = pick(generator, (0.3, 1.0, 1.0, 10.0))
    noise = single(width * log_uniform(generator, -1.5, 1.5) * generator.uniform(0.5, 2.0, count))
    means = width * conflict * generator.standard_normal(size)
    y = single(means + noise[:, None] * generator.standard_normal((count, size)))
    weights = 1 / wide(noise) ** 2
    precision, projection = 1 / width**2 + weights.sum(), weights @ wide(y)
    log_rows = stats.norm.logpdf(wide(y), 0, wide(noise)[:, None]).sum()
    truth = log_rows - 0.5 * size * np.log(width**2 * precision) + 0.5 * projection @ projection / precision
    at = projection / precision + 0.5 / np.sqrt(precision)
    log_posterior = stats.norm.logpdf(at, projection / precision, precision**-0.5).sum()
    drawn = {
        "size": size,
        "width": width,
        "rows": count,
        "conflict": conflict,
        "noise": float(np.median(noise)),
    }
    second = Candidate({"means": at}, log_posterior)
    return Drawn(_means_model(size, width), {"y": y, "noise": noise}, truth, drawn, second)


@cache
def _scaled_model(shape: float, rate: float, width: float) -> ev.Model:
    def log_likelihood(params, batch):
        return dist.Normal(params["mean"], jnp.sqrt(params["variance"])).log_prob(batch["y"])

    prior = {
        "variance": dist.InverseGamma(shape, rate),
        "mean": lambda params: dist.Normal(0.0, width * jnp.sqrt(params["variance"])),
    }
    return ev.Model(prior, log_likelihood)


def mean_and_variance(generator: np.random.Generator) -> Drawn:
    """Unknown mean and variance, with vague and informed normal-inverse-gamma priors."""
    shape, rate, width, count = pick(generator, SCALED)
    scale = log_uniform(generator, -1.5, 1.5)
    y = single(scale * (width * generator.standard_normal() + generator.standard_normal(count)))
    rows, precision = wide(y), width**-2 + count
    mean = rows.sum() / precision
    after = shape + count / 2, rate + 0.5 * (rows @ rows - rows.sum() ** 2 / precision)
    truth = gammaln(after[0]) - gammaln(shape) + shape * np.log(rate) - after[0] * np.log(after[1])
    truth += -0.5 * np.log(width**2 * precision) - 0.5 * count * LOG_TWO_PI
    variance = after[1] / (after[0] + 1)
    deviation = np.sqrt(variance / precision)
    at = {"variance": variance, "mean": mean + 0.3 * deviation}
    log_posterior = stats.invgamma.logpdf(variance, after[0], scale=after[1])
    log_posterior += stats.norm.logpdf(at["mean"], mean, deviation)
    drawn = {"shape": shape, "rate": rate, "width": width, "rows": count, "scale": scale}
    second = Candidate(at, log_posterior)
    return Drawn(_scaled_model(shape, rate, width), {"y": y}, truth, drawn, second)


@cache
def _rates_model(size: int, shape: float, rate: float) -> ev.Model:
    prior = {"rates": dist.Gamma(shape, rate).expand([size]).to_event(1)}
    return ev.Model(
        prior,
        lambda params, batch: (
            dist.Poisson(params["rates"] * batch["exposure"][:, None]).log_prob(batch["y"]).sum(-1)
        ),
    )


def counts(generator: np.random.Generator) -> Drawn:
    """Columns of Poisson counts with known exposures and gamma priors."""
    size, shape, rate, count = pick(generator, RATES)
    exposure = single(log_uniform(generator, -1, 1) * generator.uniform(0.5, 2.0, count))
    rates = log_uniform(generator, -1, 1.5, size)
    y = single(generator.poisson(rates * exposure[:, None]))
    totals, time = wide(y).sum(0), wide(exposure).sum()
    after = shape + totals, rate + time
    truth = size * (shape * np.log(rate) - gammaln(shape))
    truth += np.sum(gammaln(after[0]) - after[0] * np.log(after[1]) - gammaln(wide(y) + 1).sum(0))
    truth += np.sum(wide(y) * np.log(wide(exposure))[:, None])
    at = (after[0] + 0.5) / after[1]
    second = Candidate({"rates": at}, stats.gamma.logpdf(at, after[0], scale=1 / after[1]).sum())
    drawn = {"size": size, "shape": shape, "rate": rate, "rows": count, "largest": float(y.max())}
    return Drawn(_rates_model(size, shape, rate), {"y": y, "exposure": exposure}, truth, drawn, second)


@cache
def _shares_model(size: int, successes: float, failures: float) -> ev.Model:
    prior = {"shares": dist.Beta(successes, failures).expand([size]).to_event(1)}
    return ev.Model(
        prior,
        lambda params, batch: (
            dist.Binomial(batch["trials"][:, None], params["shares"]).log_prob(batch["y"]).sum(-1)
        ),
    )


def shares(generator: np.random.Generator) -> Drawn:
    """Columns of binomial counts; shares down to 10⁻³, beta priors."""
    size, successes, failures, count = pick(generator, SHARES)
    trials = single(generator.integers(1, pick(generator, (2, 30)), count))
    truths = log_uniform(generator, -3, 0, size)
    y = single(generator.binomial(trials.astype(int)[:, None], truths))
    won, lost = wide(y).sum(0), wide(trials).sum() - wide(y).sum(0)
    choices = gammaln(wide(trials) + 1)[:, None] - gammaln(wide(y) + 1)
    choices -= gammaln(wide(trials)[:, None] - wide(y) + 1)
    truth = choices.sum() + np.sum(betaln(successes + won, failures + lost) - betaln(successes, failures))
    at = (won + 1) / (won + lost + 2)
    second = Candidate({"shares": at}, stats.beta.logpdf(at, successes + won, failures + lost).sum())
    drawn = {"size": size, "prior": [successes, failures], "rows": count, "won": float(won.sum())}
    return Drawn(_shares_model(size, successes, failures), {"y": y, "trials": trials}, truth, drawn, second)


@cache
def _categories_model(size: int, concentration: float) -> ev.Model:
    prior = {"shares": dist.Dirichlet(jnp.full(size, concentration))}
    return ev.Model(prior, lambda params, batch: jnp.log(params["shares"])[batch["y"]])


def categories(generator: np.random.Generator) -> Drawn:
    """Categorical rows with 3 to 40 classes, some of them empty: a simplex."""
    size, concentration, count = pick(generator, CATEGORIES)
    y = generator.choice(size, count, p=generator.dirichlet(np.full(size, 0.5))).astype(np.int32)
    after = concentration + np.bincount(y, minlength=size)
    truth = gammaln(size * concentration) - size * gammaln(concentration)
    truth += gammaln(after).sum() - gammaln(after.sum())
    at = (after + 0.5) / np.sum(after + 0.5)
    second = Candidate({"shares": at}, stats.dirichlet.logpdf(at / at.sum(), after))
    drawn = {"classes": size, "concentration": concentration, "rows": count}
    return Drawn(_categories_model(size, concentration), {"y": y}, truth, drawn, second)


@cache
def _linear_model(size: int, width: float) -> ev.Model:
    prior = {"weights": dist.Normal(0.0, width).expand([size]).to_event(1)}
    return ev.Model(
        prior,
        lambda params, batch: dist.Normal(batch["x"] @ params["weights"], batch["noise"]).log_prob(
            batch["y"]
        ),
    )


def linear(generator: np.random.Generator) -> Drawn:
    """Linear regression with known noise; columns from orthogonal to nearly the same."""
    size, width, count = pick(generator, COEFFICIENTS)
    alike = pick(generator, (0.0, 0.9, 0.999))
    x = np.sqrt(1 - alike) * generator.standard_normal((count, size))
    x = single(x + np.sqrt(alike) * generator.standard_normal((count, 1)))
    noise = np.full(count, single(width * log_uniform(generator, -1, 1)))
    y = single(x @ (width * generator.standard_normal(size)) + noise * generator.standard_normal(count))
    features, deviation = wide(x) * width, float(noise[0])
    precision = np.eye(size) + features.T @ features / deviation**2
    projection = features.T @ wide(y) / deviation**2
    mean = np.linalg.solve(precision, projection)
    truth = stats.norm.logpdf(wide(y), 0, deviation).sum()
    truth += 0.5 * (projection @ mean - np.linalg.slogdet(precision)[1])
    second = Candidate(
        {"weights": width * mean},
        0.5 * np.linalg.slogdet(precision)[1] - size * (0.5 * LOG_TWO_PI + np.log(width)),
    )
    drawn = {"size": size, "width": width, "rows": count, "alike": alike, "noise": deviation}
    return Drawn(_linear_model(size, width), {"x": x, "y": y, "noise": noise}, truth, drawn, second)


@cache
def _precision_model(size: int) -> ev.Model:
    def log_likelihood(params, batch):
        inner = jnp.einsum("ni,ij,nj->n", batch["y"], params["precision"], batch["y"])
        log_root = jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(params["precision"]))))
        return log_root - 0.5 * (inner + size * LOG_TWO_PI)

    prior = {"precision": dist.Wishart(size + 1.0, rate_matrix=jnp.eye(size))}
    return ev.Model(prior, log_likelihood)


def covariance(generator: np.random.Generator) -> Drawn:
    """Rows with an unknown precision matrix, Wishart prior."""
    size, count = pick(generator, MATRICES)
    root = generator.standard_normal((size, size)) * log_uniform(generator, -1, 1)
    y = single(generator.standard_normal((count, size)) @ root.T)
    freedom, scatter = size + 1.0, np.eye(size) + wide(y).T @ wide(y)
    after = freedom + count
    # The rate matrix I is the inverse of Wishart's scale, and has ½ in the exponent.
    truth = (
        multigammaln(after / 2, size) - multigammaln(freedom / 2, size) - 0.5 * count * size * np.log(np.pi)
    )
    truth += -0.5 * after * np.linalg.slogdet(scatter)[1]
    scale = np.linalg.inv(scatter)
    at = 0.9 * after * scale
    second = Candidate({"precision": at}, stats.wishart.logpdf(at, after, scale))
    return Drawn(_precision_model(size), {"y": y}, truth, {"size": size, "rows": count}, second)


@cache
def _angles_model(size: int, concentration: float) -> ev.Model:
    prior = {"angles": dist.VonMises(0.0, concentration).expand([size]).to_event(1)}
    return ev.Model(
        prior,
        lambda params, batch: (
            dist.VonMises(params["angles"], batch["concentration"][:, None]).log_prob(batch["y"]).sum(-1)
        ),
    )


def angles(generator: np.random.Generator) -> Drawn:
    """Directions about unknown mean directions, which may be at ±π: a circle."""
    size, prior, count = pick(generator, ANGLES)
    concentration = single(np.full(count, log_uniform(generator, -1, 1.5)))
    centres = pick(generator, (np.pi, 0.0, 1.5)) + 0.3 * generator.standard_normal(size)
    y = generator.vonmises(0, concentration[0], (count, size)) + centres
    y = single((y + np.pi) % (2 * np.pi) - np.pi)
    vector = prior + np.sum(wide(concentration)[:, None] * np.exp(1j * wide(y)), axis=0)
    after = np.abs(vector)
    truth = np.sum(np.log(i0e(after)) + after) - size * (np.log(i0e(prior)) + prior)
    truth -= size * np.sum(LOG_TWO_PI + np.log(i0e(wide(concentration))) + wide(concentration))
    at = np.angle(vector)
    second = Candidate({"angles": at}, stats.vonmises.logpdf(at, after, np.angle(vector)).sum())
    drawn = {"size": size, "prior": prior, "rows": count, "concentration": float(concentration[0])}
    data = {"y": y, "concentration": concentration}
    return Drawn(_angles_model(size, prior), data, truth, drawn, second)


FAMILIES = {
    "normal means": normal_means,
    "mean and variance": mean_and_variance,
    "counts": counts,
    "shares": shares,
    "categories": categories,
    "linear regression": linear,
    "covariance": covariance,
    "angles": angles,
}
