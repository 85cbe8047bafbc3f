"""Nonlinear regressions in two parameters, drawn at random: up to dozens of modes, bent and sharp.

y ~ noise about f(a, c, x), with a and c from N(0, 9). The truth is an integral over cells, divided
where the posterior is.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import logsumexp

import evidentia as ev

from .problem import Problem, single

SCALE = 3.0  # of the prior
CELLS, HALF_WIDTH = 600, 7.0 * SCALE  # of the first grid, along an axis
NEGLIGIBLE = 20.0  # nats below the highest cell, beyond 2.5 differences between neighbours
AGREEMENT = 1e-3  # nats between two grids
BATCH = 2**17

CURVES = {
    "squares": lambda a, c, x: jnp.where(x > 0, a**2 + 0.05 * a, c**2 + 0.03 * c + 0.1 * a),
    "sine and line": lambda a, c, x: jnp.sin(a * x) + c * x,
    "sine wave": lambda a, c, x: a * jnp.sin(c * x),
    "absolute": lambda a, c, x: jnp.abs(a) * x + c**2,
    "growth": lambda a, c, x: c * jnp.exp(0.3 * a * x),
    "bilinear": lambda a, c, x: a * x + a * c * x**2,
    "tanh": lambda a, c, x: c * jnp.tanh(a * x),
    "phase": lambda a, c, x: jnp.cos(a + c * x),
    "cubic": lambda a, c, x: a**3 / 3 - a + c * x,
    "egg box": lambda a, c, x: jnp.sin(a) * x + jnp.sin(c),
    "skewed ring": lambda a, c, x: a**2 + c**2 + 0.1 * a * x,
    "hinge": lambda a, c, x: jnp.maximum(a * x, c),
    "product and more": lambda a, c, x: a * c * x + 0.05 * a,
    "bumps": lambda a, c, x: jnp.exp(-((x - a) ** 2)) + jnp.exp(-((x - c) ** 2)),
    "step": lambda a, c, x: jax.nn.sigmoid(8 * (x - a)) * c,
}
NOISES = {
    "normal": (dist.Normal, lambda generator, count: generator.standard_normal(count)),
    "Student-t": (partial(dist.StudentT, 3.0), lambda generator, count: generator.standard_t(3, count)),
}


def nonlinear(curve: str, count: int, noise: str, scale: float, seed: int = 0) -> Problem:
    """Rows x ~ U(-2, 2) about a curve whose parameters are drawn from the prior."""
    generator = np.random.default_rng([seed, list(CURVES).index(curve)])
    mean, (density, draw) = CURVES[curve], NOISES[noise]
    at = SCALE * generator.standard_normal(2)
    x = single(generator.uniform(-2, 2, count))
    y = single(np.asarray(mean(*at.astype(np.float32), x)) + scale * draw(generator, count))

    def log_likelihood(params, batch):
        return density(mean(params["a"], params["c"], batch["x"]), scale).log_prob(batch["y"])

    data = {"x": x, "y": y}
    model = ev.Model({"a": dist.Normal(0, SCALE), "c": dist.Normal(0, SCALE)}, log_likelihood)
    return Problem(model, data, log_evidence_by_cells(log_likelihood, data))


def log_evidence_by_cells(log_likelihood: Callable, data: dict[str, np.ndarray]) -> float:
    """The integral over a grid, whose cells are divided by nine until two grids agree."""
    with jax.enable_x64(True):
        wide = {name: jnp.asarray(values, jnp.float64) for name, values in data.items()}

        @jax.jit
        def log_joint(points):
            def one(point):
                prior = dist.Normal(0.0, SCALE).log_prob(point).sum()
                return log_likelihood({"a": point[0], "c": point[1]}, wide).sum() + prior

            return jax.lax.map(one, points, batch_size=512)

        def heights_at(points):
            padded = np.resize(points, (-(-len(points) // BATCH) * BATCH, 2))
            found = [np.asarray(log_joint(part)) for part in padded.reshape(-1, BATCH, 2)]
            return np.concatenate(found)[: len(points)]

        width = 2 * HALF_WIDTH / CELLS
        axis = -HALF_WIDTH + width * (np.arange(CELLS) + 0.5)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        heights = heights_at(points)
        slopes = _differences(heights.reshape(CELLS, CELLS)).ravel()
        offsets = np.stack(np.meshgrid(*[[-1, 0, 1]] * 2), -1).reshape(-1, 2) / 3
        found: list[float] = []
        while len(found) < 2 or abs(found[-1] - found[-2]) > AGREEMENT:
            kept = heights + 2.5 * slopes > heights.max() - NEGLIGIBLE
            assert kept.sum() < 5_000_000, "the posterior is too sharp or too wide for cells"
            found.append(float(logsumexp(heights[kept]) + 2 * np.log(width)))
            points = (points[kept][:, None] + width * offsets).reshape(-1, 2)
            heights, width = heights_at(points), width / 3
            slopes = np.repeat(np.ptp(heights.reshape(-1, 9), axis=1), 9) / 1.5
    return found[-1]


def _differences(heights: np.ndarray) -> np.ndarray:
    """The largest difference of each point of a grid from its neighbours."""
    padded = np.pad(heights, 1, mode="edge")
    neighbours = padded[2:, 1:-1], padded[:-2, 1:-1], padded[1:-1, 2:], padded[1:-1, :-2]
    return np.max([np.abs(heights - each) for each in neighbours], axis=0)


PROBLEMS = {
    f"{curve}, {count:,} rows": partial(nonlinear, curve, count, noise, scale)
    for curve in CURVES
    for count, noise, scale in ((20, "normal", 0.5), (400, "Student-t", 1.0))
}
