"""Four problems with known evidence, small enough for every estimator and every peer."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from problems import Problem, laplace_truth
from scipy.special import gammainccinv, gammaln, logit, ndtri

import evidentia as ev


@dataclass(frozen=True)
class SmallProblem(Problem):
    """A problem whose prior is also a map of the unit cube, as other nested samplers need."""

    quantiles: Callable[[np.ndarray], np.ndarray]  # cube (..., parameters) -> unconstrained


def linear() -> SmallProblem:
    """Linear regression with 5 features, 1,000 rows: 6 parameters, a Gaussian posterior; exact."""
    model = ev.models.linear_regression(num_features=5)
    data, _ = model.simulate(1000, 0)
    return SmallProblem("linear", model, data, lambda data: (model.exact_log_evidence(data), 0.0), 0.1, ndtri)


def scale() -> SmallProblem:
    """A normal with unknown mean and variance, 500 rows: 2 parameters, one a scale; exact."""

    def log_likelihood(params, batch):
        scale = jnp.sqrt(params["variance"])
        return dist.Normal(params["scaled_mean"] * scale, scale).log_prob(batch["y"])

    prior = {"variance": dist.InverseGamma(3.0, 2.0), "scaled_mean": dist.Normal(0.0, 2.0)}
    model = ev.Model(prior, log_likelihood, name="normal with unknown scale")
    y = np.random.default_rng(0).normal(1.5, 0.7, size=500).astype(np.float32)
    return SmallProblem("scale", model, {"y": y}, _exact_scale, 0.1, _scale_quantiles)


def mixture() -> SmallProblem:
    """Three overlapping Gaussians, 200 rows: 8 parameters, 6 copies of each mode, minor modes."""
    model = ev.models.gaussian_mixture(num_components=3, num_features=1)
    generator = np.random.default_rng(0)
    component = generator.choice(3, size=200, p=[0.5, 0.3, 0.2])
    means, scales = np.array([-1.5, 0.0, 2.0]), np.array([0.5, 0.4, 0.8])
    y = means[component] + scales[component] * generator.standard_normal(200)
    return SmallProblem(
        "mixture", model, {"y": y[:, None].astype(np.float32)}, _annealed(model), 0.5, _mixture_quantiles
    )


def softmax() -> SmallProblem:
    """Softmax regression, 4 features, 3 classes, 1,000 rows: 15 parameters, 10 identified."""
    model = ev.models.softmax_regression(num_features=4, num_classes=3)
    data, params = model.simulate(1000, 0)
    return SmallProblem("softmax", model, data, laplace_truth(model, params, num_draws=10_000), 0.2, ndtri)


SMALL_PROBLEMS = {"linear": linear, "scale": scale, "mixture": mixture, "softmax": softmax}


def check_quantiles(problem: SmallProblem, *, num_draws: int = 20_000) -> None:
    """Raise unless the map of the unit cube has the prior's means and covariances."""
    bound = problem.model.bind(problem.data)
    drawn = np.asarray(bound.sample_prior(jax.random.key(0), num_draws), float)
    mapped = problem.quantiles(np.random.default_rng(0).random(drawn.shape))
    pairs = np.triu_indices(drawn.shape[1])
    # Squares and products are compared too: medians and quartiles would miss dependent parameters.
    for moments in (lambda x: x, lambda x: (x[:, :, None] * x[:, None, :])[:, pairs[0], pairs[1]]):
        one, other = moments(drawn), moments(mapped)
        tolerance = 5 * np.sqrt((one.var(0) + other.var(0)) / num_draws)
        if not np.all(np.abs(one.mean(0) - other.mean(0)) < tolerance):
            raise AssertionError(f"{problem.name}: the map of the unit cube does not match the prior")


def _annealed(model: ev.Model):
    """Truth from many particles annealed from the prior without redrawing.

    Its error is the spread of 8 runs. It shares only the likelihood with the peers' nested
    samplers.
    """

    def truth(data):
        method = ev.SMC(num_particles=4096, target_ess=0.9)
        runs = [ev.estimate(model, data, method=method, seed=1000 + i).log_evidence for i in range(8)]
        return float(np.mean(runs)), float(np.std(runs, ddof=1) / np.sqrt(len(runs)))

    return truth


def _exact_scale(data: dict) -> tuple[float, float]:
    """Exact evidence under the conjugate normal-inverse-gamma prior."""
    y = data["y"].astype(float)
    count, precision = len(y), 1 / 4 + len(y)
    shape, rate = 3.0 + count / 2, 2.0 + 0.5 * (np.sum(y**2) - np.sum(y) ** 2 / precision)
    gammas = gammaln(shape) - gammaln(3.0) + 3.0 * np.log(2.0) - shape * np.log(rate)
    return float(gammas + 0.5 * np.log(0.25 / precision) - 0.5 * count * np.log(2 * np.pi)), 0.0


def _scale_quantiles(cube: np.ndarray) -> np.ndarray:
    # Positions hold log(variance), variance ~ InverseGamma(3, 2), and the mean in units of the
    # scale, N(0, 2²).
    return np.stack([np.log(2.0 / gammainccinv(3.0, cube[..., 0])), 2.0 * ndtri(cube[..., 1])], axis=-1)


def _mixture_quantiles(cube: np.ndarray) -> np.ndarray:
    # Stick-breaking weights: the fractions broken off are Beta(1, 2) and Beta(1, 1) for
    # Dirichlet(1, 1, 1). NumPyro's unconstrained vector holds their log odds, shifted so that
    # equal weights lie at zero.
    left = np.array([2, 1])
    sticks = logit(-np.expm1(np.log1p(-cube[..., :2]) / left)) + np.log(left)
    log_variances = -np.log(gammainccinv(1.0, cube[..., 2:5]))
    means = 2.0 * np.exp(0.5 * log_variances) * ndtri(cube[..., 5:8])
    return np.concatenate([sticks, log_variances, means], axis=-1)
