"""Posteriors with several modes: mixtures, frequencies, squares."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import evidentia as ev

from .problem import Problem, independent, log_integral, over_rows, problem, single

NORMAL = stats.norm.logpdf
CENTRES = {2: [-2.0, 1.5], 3: [-1.5, 0.0, 2.0]}


def two_means(count: int, distance: float) -> Problem:
    """Half of the rows about each of two unknown means; which is which is not declared."""
    generator = np.random.default_rng(0)
    y = single(
        distance * np.where(generator.random(count) < 0.5, 0.5, -0.5) + generator.standard_normal(count)
    )

    def log_likelihood(params, batch):
        parts = dist.Normal(params["means"], 1.0).log_prob(batch["y"][:, None])
        return jax.nn.logsumexp(parts, axis=1) - jnp.log(2.0)

    def pointwise(one, other, y):
        return np.logaddexp(NORMAL(y, one), NORMAL(y, other)) - np.log(2)

    log_prior = independent(*[partial(NORMAL, scale=3.0)] * 2)
    log_joint = over_rows(pointwise, log_prior, y)
    prior = {"means": dist.Normal(jnp.zeros(2), 3.0).to_event(1)}
    return problem(prior, log_likelihood, log_integral(log_joint, (-15, 15), (-15, 15)), y=y)


def rare_component(count: int) -> Problem:
    """A few of the rows about an unknown mean, amid a known normal; their share is unknown, too.

    The smaller the share, the less is known of the mean.
    """
    generator = np.random.default_rng(0)
    rare = generator.random(count) < 0.01
    y = single(np.where(rare, 1.5 + 0.6 * generator.standard_normal(count), generator.standard_normal(count)))

    def log_likelihood(params, batch):
        common = jnp.log1p(-params["share"]) + dist.Normal(0.0, 1.0).log_prob(batch["y"])
        return jnp.logaddexp(
            common, jnp.log(params["share"]) + dist.Normal(params["mean"], 0.6).log_prob(batch["y"])
        )

    def pointwise(log_odds, mean, y):
        return np.logaddexp(NORMAL(y), log_odds + NORMAL(y, mean, 0.6)) - np.logaddexp(0.0, log_odds)

    # A uniform share has log odds with a logistic density.
    log_joint = over_rows(pointwise, independent(stats.logistic.logpdf, partial(NORMAL, scale=3.0)), y)
    prior = {"share": dist.Uniform(0.0, 1.0), "mean": dist.Normal(0.0, 3.0)}
    return problem(prior, log_likelihood, log_integral(log_joint, (-40, 5), (-15, 15)), y=y)


def sinusoid(count: int) -> Problem:
    """y ~ N(a sin ωt + b cos ωt, 1), ω uniform: many modes in ω; a and b are integrated out."""
    generator = np.random.default_rng(0)
    t = single(np.sort(generator.uniform(0, 10, count)))
    y = single(0.9 * np.sin(4.1 * t) + generator.standard_normal(count))
    times, target = t.astype(float), y.astype(float)

    def log_density(points):
        angle = points * times
        basis = np.stack([np.sin(angle), np.cos(angle)], axis=1)
        precision = np.eye(2) + basis @ basis.swapaxes(1, 2)
        projection = basis @ target
        fitted = np.einsum("pi,pi->p", projection, np.linalg.solve(precision, projection[..., None])[..., 0])
        constant = count * np.log(2 * np.pi) + target @ target
        return -0.5 * (constant + np.linalg.slogdet(precision)[1] - fitted) - np.log(10)

    def log_likelihood(params, batch):
        angle = params["frequency"] * batch["t"]
        mean = params["amplitudes"][0] * jnp.sin(angle) + params["amplitudes"][1] * jnp.cos(angle)
        return dist.Normal(mean, 1.0).log_prob(batch["y"])

    prior = {
        "frequency": dist.Uniform(0.0, 10.0),
        "amplitudes": dist.Normal(jnp.zeros(2), 1.0).to_event(1),
    }
    return problem(prior, log_likelihood, log_integral(log_density, (0, 10)), t=t, y=y)


def squares(count: int, size: int, prior_mean: float = 0.0) -> Problem:
    """Columns y_j ~ N(θ_j², 1): 2ᵈ modes, of equal mass if the prior's mean is zero."""
    generator = np.random.default_rng(0)
    y = single(1.5 + generator.standard_normal((count, size)))
    log_prior = independent(lambda value: NORMAL(value, prior_mean))
    truth = sum(
        log_integral(over_rows(lambda theta, y: NORMAL(y, theta**2), log_prior, column), (-9, 9))
        for column in y.T
    )
    return problem(
        {"theta": dist.Normal(jnp.full(size, prior_mean), 1.0).to_event(1)},
        lambda params, batch: dist.Normal(params["theta"] ** 2, 1.0).log_prob(batch["y"]).sum(1),
        truth,
        y=y,
    )


def four_modes(count: int, size: int) -> Problem:
    """Two squares, as unequal as their modes are alike, and `size` coefficients besides.

    y ~ N(m + x·b, 1) with m = a² + a/20 in one half of the rows, c² + (3c + 10a)/100 in the other;
    b is integrated out.
    """
    generator = np.random.default_rng(0)
    x, is_first = single(generator.standard_normal((count, size))), np.arange(count) % 2 == 0
    y = single(np.where(is_first, 2.4**2, 4.0**2) + x.sum(1) + generator.standard_normal(count))

    def means(a, c):
        return a**2 + 0.05 * a, c**2 + 0.03 * c + 0.1 * a

    wide, target = x.astype(float), y.astype(float)
    inverse = np.linalg.inv(np.eye(count) + wide @ wide.T)
    halves = np.stack([is_first, ~is_first], 1).astype(float)
    curvature, slope, height = (
        halves.T @ inverse @ halves,
        halves.T @ inverse @ target,
        target @ inverse @ target,
    )
    constant = 0.5 * (np.linalg.slogdet(inverse)[1] - count * np.log(2 * np.pi))

    def log_density(points):
        both = np.stack(means(*points.T), 1)
        squares = height - 2 * both @ slope + np.einsum("pi,ij,pj->p", both, curvature, both)
        return constant - 0.5 * squares + NORMAL(points, scale=3.0).sum(1)

    boxes = [
        ((sign * 2.4 - 1, sign * 2.4 + 1), (other * 4 - 1, other * 4 + 1))
        for sign in (-1, 1)
        for other in (-1, 1)
    ]

    def log_likelihood(params, batch):
        mean = jnp.where(batch["is_first"], *means(params["a"], params["c"])) + batch["x"] @ params["b"]
        return dist.Normal(mean, 1.0).log_prob(batch["y"])

    prior = {
        "a": dist.Normal(0.0, 3.0),
        "c": dist.Normal(0.0, 3.0),
        "b": dist.Normal(jnp.zeros(size), 1.0).to_event(1),
    }
    truth = np.logaddexp.reduce([log_integral(log_density, *box) for box in boxes])
    return problem(prior, log_likelihood, truth, x=x, is_first=is_first, y=y)


def mixture(components: int, found: int, count: int, *, declared: bool = True, size: int = 1) -> Problem:
    """The built-in Gaussian mixture on rows that have `found` components; no truth yet."""
    generator = np.random.default_rng(0)
    centres = np.array(CENTRES.get(found, 3.0 * np.arange(found)))
    label = generator.integers(found, size=count)
    y = centres[label][:, None] * np.linspace(1, -0.5, size) + 0.5 * generator.standard_normal((count, size))
    y = y if declared else np.sort(y, axis=0)
    model = ev.models.gaussian_mixture(num_components=components, num_features=size)
    if not declared:
        model = ev.Model(model.prior, model.log_likelihood)
    return Problem(model, {"y": single(y)}, float("nan"))


def network(count: int, units: int = 3) -> Problem:
    """A network of three tanh units: 48 copies of each mode; no truth yet."""
    generator = np.random.default_rng(0)
    x = single(generator.standard_normal((count, 2)))
    first = generator.standard_normal((units, 2))
    y = single(np.tanh(x @ first.T).sum(1) + generator.standard_normal(count))

    def log_likelihood(params, batch):
        hidden = jnp.tanh(batch["x"] @ params["inputs"].T + params["biases"])
        return dist.Normal(hidden @ params["outputs"], 1.0).log_prob(batch["y"])

    prior = {
        "inputs": dist.Normal(jnp.zeros((units, 2)), 1.0).to_event(2),
        "biases": dist.Normal(jnp.zeros(units), 1.0).to_event(1),
        "outputs": dist.Normal(jnp.zeros(units), 1.0).to_event(1),
    }
    return Problem(ev.Model(prior, log_likelihood), {"x": x, "y": y}, float("nan"))


EXACT = {
    "two means, 50 rows": partial(two_means, 50, 3.0),
    "two means, overlapping, 200 rows": partial(two_means, 200, 1.0),
    "two means, 2,000 rows": partial(two_means, 2000, 3.0),
    "rare component, 1,000 rows": partial(rare_component, 1_000),
    "rare component, 10,000 rows": partial(rare_component, 10_000),
    "sinusoid, 30 rows": partial(sinusoid, 30),
    "sinusoid, 300 rows": partial(sinusoid, 300),
    "square, 10 rows": partial(squares, 10, 1),
    "four squares, 1,000 rows": partial(squares, 1000, 4),
    "two squares, unequal, 100 rows": partial(squares, 100, 2, 0.3),
    "four modes, 7 parameters, 100 rows": partial(four_modes, 100, 5),
    "four modes, 22 parameters, 200 rows": partial(four_modes, 200, 20),
    "four modes, 22 parameters, 2,000 rows": partial(four_modes, 2_000, 20),
}
LONG = {  # truths by two long methods
    "mixture of 2, 50 rows": partial(mixture, 2, 2, 50),
    "mixture of 3, 82 sorted rows, not declared": partial(mixture, 3, 3, 82, declared=False),
    "mixture of 3 on 2, 1,000 rows": partial(mixture, 3, 2, 1000),
    "mixture of 3 on 2, 10,000 rows": partial(mixture, 3, 2, 10_000),
    "mixture of 4 in 2 dimensions, 200 rows": partial(mixture, 4, 4, 200, size=2),
    "mixture of 6, 300 rows": partial(mixture, 6, 4, 300),
    "mixture of 3, 100,000 rows": partial(mixture, 3, 3, 100_000),
    "network, 300 rows": partial(network, 300),
    "network, 10,000 rows": partial(network, 10_000),
}
