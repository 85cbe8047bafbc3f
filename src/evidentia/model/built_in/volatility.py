"""Stochastic volatility: series whose log variance is a hidden autoregression.

The filter runs along a grid of the log variance: the hidden process becomes a Markov chain between
the points of the grid, and the forward algorithm of hidden Markov chains gives the likelihood.
With z_t the log variance in its stationary deviations,

    z_{t+1} ~ N(φ z_t, 1 - φ²),    P_ij ∝ N(z_j; φ z_i, 1 - φ²),    Σ_j P_ij = 1.

The error of sums over equidistant points falls exponentially once they are as close as a
transition is wide, √(1 - φ²). With 128 points over ±6 deviations that is φ = 0.996; the likelihood
of 300 rows was exact to 10⁻⁶ up to φ = 0.98, to 0.001 at 0.99, and to 0.03 at 0.998. Beyond, rows
of P that are normalised keep it a likelihood. Twice the points show the error at the posterior.

Source: Langrock, MacDonald, Zucchini (2012), Journal of Empirical Finance 19, 147 (the chain);
Trefethen, Weideman (2014), SIAM Review 56, 385 (equidistant points).
"""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms

from evidentia.model.built_in.sequences import check_series, infinite_evidence, predicted, simulated
from evidentia.model.model import Model
from evidentia.model.recursion import Recursion
from evidentia.system.sharing import check_not_forked

WIDTH = 6.0  # of the grid to both sides, in stationary deviations
NUM_POINTS = 128


def stochastic_volatility(*, many_sequences: bool = False) -> Model:
    """A stochastic volatility model, with the path of the log variance integrated out.

        y_t ~ N(0, exp(h_t)),    h_{t+1} ~ N(μ + φ (h_t - μ), σ²),    h_1 ~ N(μ, σ²/(1 - φ²))
        μ ~ N(0, 2²),    (1 + φ)/2 ~ Beta(20, 1.5),    σ ~ HalfNormal(1)

    with μ = log_variance, φ = persistence and σ = volatility. A filter on a grid of 128 points
    integrates h out. What 256 points add to the evidence is measured at posterior draws and added,
    and half of it is part of the standard error.

    Data are `{"y": (T,)}`, deviations from their mean; with `many_sequences`,
    `{"y": (sequences, T)}`. The priors expect a series of deviation about one, such as returns in
    per cent. NaN in y is a missing value: the log variance moves on, and nothing is learnt.

    Args:
        many_sequences: whether data hold many sequences, independent given the parameters.

    Raises:
        ConfigurationError: the process was forked from one that has used JAX.

    Example:
        >>> model = stochastic_volatility()
        >>> data, params = model.simulate(num_observations=500, seed=0)
        >>> data["y"].shape, list(params)
        ((500,), ['log_variance', 'persistence', 'volatility'])

    Source: Kim, Shephard, Chib (1998), Review of Economic Studies 65, 361, Eq. 1 and section 2.1
    (the priors of φ); Kastner, Frühwirth-Schnatter (2014), Computational Statistics and Data
    Analysis 76, 408 (that of σ); Langrock, MacDonald, Zucchini (2012), Journal of Empirical
    Finance 19, 147 (the filter).
    """
    check_not_forked()  # the prior takes JAX
    return _model(bool(many_sequences))


@cache
def _model(many_sequences):
    to_interval = transforms.AffineTransform(-1.0, 2.0, domain=constraints.unit_interval)
    prior = {
        "log_variance": dist.Normal(0.0, 2.0),
        "persistence": dist.TransformedDistribution(dist.Beta(20.0, 1.5), to_interval),
        "volatility": dist.HalfNormal(1.0),
    }
    model = Model.from_recursion(
        prior,
        _first,
        _step,
        many_sequences=many_sequences,
        missing=("y",),
        name="stochastic volatility",
    )
    filtered = recursion(NUM_POINTS, is_one=not many_sequences)
    refined = recursion(2 * NUM_POINTS, is_one=not many_sequences)
    return replace(
        model,
        log_likelihood=replace(filtered, refined=refined),
        check_data=partial(_check_data, many_sequences),
        simulate=partial(simulated, _series, prior, many_sequences),
        predict=partial(predicted, _series),
    )


def _check_data(many_sequences, data):
    """Raise DataError unless there is a value other than 0, without which h has no lower bound."""
    check_series(many_sequences, data)
    if not np.nansum(np.abs(data["y"])):
        raise infinite_evidence("zero in all rows")


def recursion(num_points: int, *, is_one: bool = True) -> Recursion:
    """The likelihood by a filter on a grid of so many points."""
    return Recursion(_first, _step, is_one, prepare=partial(chain_of, num_points), is_costly=True)


def chain_of(num_points: int, params):
    """The Markov chain on the grid: log variances, stationary probabilities, transitions.

    Each transition is relative to the nearest point, as all others may underflow.
    """
    persistence, z = params["persistence"], jnp.linspace(-WIDTH, WIDTH, num_points)
    variance = (1.0 - persistence) * (1.0 + persistence)
    deviation = params["volatility"] / jnp.sqrt(variance)
    initial = jnp.exp(-0.5 * z**2)
    transition = jax.nn.softmax(-0.5 * (z - persistence * z[:, None]) ** 2 / variance, axis=1)
    log_variances = params["log_variance"] + deviation * z
    return {"h": log_variances, "initial": initial / initial.sum(), "transition": transition}


def _first(chain):
    return chain["initial"]


def _step(chain, probabilities, row):
    """Forward algorithm, scaled by the largest likelihood; NaN has the likelihood 1."""
    is_missing = jnp.isnan(row["y"])
    y: Any = jnp.where(is_missing, 0.0, row["y"])
    log_square = 2 * jnp.log(jnp.abs(y))  # 0 stays 0 where exp(-h) overflows
    at_points = -0.5 * (jnp.log(2 * jnp.pi) + chain["h"] + jnp.exp(log_square - chain["h"]))
    logs: Any = jnp.where(is_missing, 0.0, at_points)
    largest = jax.lax.stop_gradient(logs.max())
    joint = probabilities * jnp.exp(logs - largest)
    total = joint.sum()
    return (joint / total) @ chain["transition"], jnp.log(total) + largest


def _series(params, length, generator):
    """A series (draws, length) for each draw of the parameters."""
    persistence, draws = params["persistence"], len(params["volatility"])
    step = np.sqrt(1.0 - persistence.astype(float) ** 2)
    z, y = generator.standard_normal(draws), np.zeros((draws, length))
    for row in range(length):
        h = params["log_variance"] + params["volatility"] / step * z
        y[:, row] = np.exp(h / 2) * generator.standard_normal(draws)
        z = persistence * z + step * generator.standard_normal(draws)
    return y
