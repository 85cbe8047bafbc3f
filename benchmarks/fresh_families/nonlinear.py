"""Curves with unknown shapes and linear coefficients: waves, decays, saturation, a small network.

Given the shapes s, rows are y = X(s) c + noise with c ~ N(0, 1), so that

    y | s ~ N(0, σ² I + X Xᵀ)

in closed form; one or two shapes are left to a sum over a grid.
"""

from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import evidentia as ev

from .problem import LOG_TWO_PI, Drawn, log_trapezoid, log_uniform, pick, single, wide

ROWS = (10, 40)
HIGHEST = 20.0  # frequency
AT_ONCE = 2_000_000  # numbers of the matrices X
CELLS = {1: (40_000, 9_000), 2: (600, 300)}  # of each axis, by shapes: for the truth, and again
NORMAL = stats.norm.logpdf


def _log_rows(y: np.ndarray, columns: np.ndarray, noise: float) -> np.ndarray:
    """log N(y; 0, σ² I + X Xᵀ) of matrices X, (points, rows, coefficients), by their moments."""
    precision = np.eye(columns.shape[2]) + np.einsum("kni,knj->kij", columns, columns) / noise**2
    projections = np.einsum("kni,n->ki", columns, y) / noise**2
    explained = np.einsum("ki,ki->k", projections, np.linalg.solve(precision, projections[..., None])[..., 0])
    return NORMAL(y, 0, noise).sum() - 0.5 * np.linalg.slogdet(precision)[1] + 0.5 * explained


def _log_rows_again(y: np.ndarray, columns: np.ndarray, noise: float) -> np.ndarray:
    """The same by the covariances of all rows."""
    covariances = noise**2 * np.eye(len(y)) + columns @ np.swapaxes(columns, 1, 2)
    squares = np.linalg.solve(covariances, np.broadcast_to(y[:, None], (len(columns), len(y), 1)))[..., 0] @ y
    return -0.5 * (squares + np.linalg.slogdet(covariances)[1] + len(y) * LOG_TWO_PI)


def _of_shapes(
    model: ev.Model,
    data: dict[str, np.ndarray],
    columns_of: Callable[[np.ndarray], np.ndarray],
    log_prior: Callable[[np.ndarray], np.ndarray],
    *edges: tuple[float, float],
    **drawn: float,
) -> Drawn:
    """The problem whose truth is ∫ p(s) p(y | s) ds over a box, by the middles of its cells.

    Args:
        columns_of: (points, shapes) -> X, (points, rows, coefficients).
        log_prior: (points, shapes) -> (points,).
    """
    y, noise = wide(data["y"]), float(data["noise"][0])

    def integral(log_rows, cells):
        steps = [(high - low) / cells for low, high in edges]
        axes = [low + step * (np.arange(cells) + 0.5) for (low, _), step in zip(edges, steps, strict=True)]
        shapes = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], -1)
        parts = np.array_split(shapes, 1 + 2 * len(shapes) * len(y) // AT_ONCE)
        heights = [log_rows(y, columns_of(part), noise) + log_prior(part) for part in parts]
        return log_trapezoid(np.concatenate(heights), float(np.prod(steps)))

    most, fewer = CELLS[len(edges)]
    drawn = {"rows": len(y), "noise": noise, **drawn}
    return Drawn(model, data, integral(_log_rows, most), drawn, lambda: integral(_log_rows_again, fewer))


def _data(generator: np.random.Generator, x: np.ndarray, curve: np.ndarray, low: float, high: float):
    """Rows about a curve, with a noise of ten to the power `low` to `high`."""
    noise = single(np.full(len(x), log_uniform(generator, low, high)))
    return {"x": x, "y": single(curve + noise * generator.standard_normal(len(x))), "noise": noise}


@cache
def _frequency_model() -> ev.Model:
    def log_likelihood(params, batch):
        angle = 2 * jnp.pi * params["frequency"] * batch["x"]
        wave = params["sine"] * jnp.sin(angle) + params["cosine"] * jnp.cos(angle)
        return dist.Normal(wave, batch["noise"]).log_prob(batch["y"])

    one = dist.Normal(0.0, 1.0)
    return ev.Model({"frequency": dist.Uniform(0.0, HIGHEST), "sine": one, "cosine": one}, log_likelihood)


def frequency(generator: np.random.Generator) -> Drawn:
    """A wave at uneven times: tens of narrow modes of its frequency under noise."""
    x = single(np.sort(generator.random(pick(generator, ROWS))))
    angle = 2 * np.pi * generator.uniform(1, HIGHEST) * wide(x)
    curve = np.stack([np.sin(angle), np.cos(angle)], 1) @ generator.standard_normal(2)

    def columns_of(shapes):
        angles = 2 * np.pi * shapes * wide(x)
        return np.stack([np.sin(angles), np.cos(angles)], -1)

    def log_prior(shapes):
        return np.full(len(shapes), -np.log(HIGHEST))

    data = _data(generator, x, curve, -0.5, 0.3)
    return _of_shapes(_frequency_model(), data, columns_of, log_prior, (0.0, HIGHEST))


@cache
def _decays_model() -> ev.Model:
    def log_likelihood(params, batch):
        curves = params["amplitudes"] * jnp.exp(-params["rates"] * batch["x"][:, None])
        return dist.Normal(curves.sum(-1), batch["noise"]).log_prob(batch["y"])

    prior = {
        "amplitudes": dist.Normal(0.0, 1.0).expand([2]).to_event(1),
        "rates": dist.LogNormal(0.0, 1.0).expand([2]).to_event(1),
    }
    return ev.Model(prior, log_likelihood)


def two_decays(generator: np.random.Generator) -> Drawn:
    """A sum of two exponentials, which can be swapped, and are told apart by few rows or none."""
    x = single(np.sort(4 * generator.random(pick(generator, ROWS))))
    rates = np.exp(generator.standard_normal(2))
    curve = np.exp(-rates * wide(x)[:, None]) @ generator.standard_normal(2)

    def columns_of(shapes):
        return np.exp(-np.exp(shapes)[:, None, :] * wide(x)[:, None])

    data = _data(generator, x, curve, -1.2, 0.0)
    return _of_shapes(
        _decays_model(), data, columns_of, lambda logs: NORMAL(logs).sum(1), (-7.0, 7.0), (-7.0, 7.0)
    )


@cache
def _network_model() -> ev.Model:
    def log_likelihood(params, batch):
        units = params["outer"] * jnp.tanh(params["inner"] * batch["x"][:, None])
        return dist.Normal(units.sum(-1), batch["noise"]).log_prob(batch["y"])

    prior = {
        "inner": dist.Normal(0.0, 2.0).expand([2]).to_event(1),
        "outer": dist.Normal(0.0, 1.0).expand([2]).to_event(1),
    }
    return ev.Model(prior, log_likelihood)


def network(generator: np.random.Generator) -> Drawn:
    """Two units of a network without biases: swaps, and signs of both weights of a unit."""
    x = single(np.linspace(-2, 2, pick(generator, ROWS)))
    inner = 2 * generator.standard_normal(2)
    curve = np.tanh(inner * wide(x)[:, None]) @ generator.standard_normal(2)

    def columns_of(shapes):
        return np.tanh(shapes[:, None, :] * wide(x)[:, None])

    data = _data(generator, x, curve, -0.8, 0.0)
    return _of_shapes(
        _network_model(), data, columns_of, lambda s: NORMAL(s, 0, 2).sum(1), (-14.0, 14.0), (-14.0, 14.0)
    )


@cache
def _saturation_model() -> ev.Model:
    def log_likelihood(params, batch):
        curve = params["limit"] * batch["x"] / (params["half"] + batch["x"])
        return dist.Normal(curve, batch["noise"]).log_prob(batch["y"])

    return ev.Model({"limit": dist.Normal(0.0, 1.0), "half": dist.LogNormal(0.0, 3.0)}, log_likelihood)


def saturation(generator: np.random.Generator) -> Drawn:
    """Michaelis and Menten's curve, also far below or above half of its limit: a long ridge."""
    x = single(np.linspace(0.1, 2, pick(generator, ROWS)))
    half = log_uniform(generator, -2, 2)
    curve = generator.standard_normal() * wide(x) / (half + wide(x))

    def columns_of(shapes):
        return (wide(x) / (np.exp(shapes) + wide(x)))[..., None]

    data = _data(generator, x, curve, -2.5, 0.0)
    return _of_shapes(
        _saturation_model(),
        data,
        columns_of,
        lambda logs: NORMAL(logs[:, 0], 0, 3),
        (-30.0, 30.0),
        half=float(half),
    )


FAMILIES = {
    "frequency": frequency,
    "two decays": two_decays,
    "network": network,
    "saturation": saturation,
}
