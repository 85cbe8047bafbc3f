"""Structural time series: linear Gaussian states, integrated out by the Kalman filter."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from evidentia.errors import ConfigurationError, check_count, check_flag
from evidentia.model.built_in.checks import check_size
from evidentia.model.built_in.sequences import LENGTH, check_series, drawn_from, infinite_evidence
from evidentia.model.model import Model
from evidentia.system.sharing import check_not_forked

Vector = Float[Array, " m"] | Float[np.ndarray, " m"]


class Parts(NamedTuple):
    """What a series is made of; see `state_space`."""

    level: bool
    trend: bool
    seasonal: int
    autoregression: int
    num_features: int

    @property
    def size(self) -> int:
        """The number of values of the state."""
        return self.level + self.trend + max(0, self.seasonal - 1) + self.autoregression + self.num_features


class System(NamedTuple):
    """A linear Gaussian system at some parameters, for states of the length m.

    s_1 ~ N(0, diag(start)),   s_{t+1} = transition s_t + N(0, diag(noise)),
    y_t = (observed, x_t)ᵀ s_t + N(0, variance)
    """

    noise: Vector
    start: Vector
    observed: Vector
    variance: Any


def state_space(
    *,
    level: bool = True,
    trend: bool = False,
    seasonal: int = 0,
    autoregression: int = 0,
    num_features: int = 0,
    many_sequences: bool = False,
) -> Model:
    """A structural time series: a level with a trend, seasons, an autoregression, a regression.

        y_t = level_t + season_t + cycle_t + x_tᵀ weights + N(0, noise_scale²)

        level_{t+1} = level_t + slope_t + N(0, level_scale²),     level_1 ~ N(0, 2²)
        slope_{t+1} = slope_t + N(0, slope_scale²),               slope_1 ~ N(0, 1)
        season_{t+1} = -Σ_{j<period-1} season_{t-j} + N(0, season_scale²),   each at first N(0, 1)
        cycle_{t+1} = Σ_i coefficients_i cycle_{t+1-i} + N(0, cycle_scale²),  each at first N(0, 1)
        weights ~ N(0, 1)

    Parameters are the scales, half-normal(1), and the coefficients, normal(0, 0.5²); the others
    are integrated out exactly by the Kalman filter. The priors expect a series of deviation about
    one.

    Data are `{"y": (T,)}`, with `"x": (T, num_features)` for a regression; with `many_sequences`,
    `{"y": (sequences, T)}` and so on. NaN in y is a missing value: states move on, and nothing is
    learnt. Shorter sequences are filled up with NaN at the end, which leaves their likelihood as
    it is.

    Args:
        level: whether there is a level, a random walk.
        trend: whether it has a slope, itself a random walk.
        seasonal: the period of seasons in rows, at least two; 0 for none.
        autoregression: the order of the cycle; 0 for none.
        num_features: the number of columns of x; 0 for none.
        many_sequences: whether data hold many sequences, independent given the parameters.

    Raises:
        ConfigurationError: an argument is out of range, or there is nothing but noise.

    Example:
        >>> model = state_space(trend=True, seasonal=4)
        >>> data, params = model.simulate(num_observations=100, seed=0)
        >>> list(params)
        ['noise_scale', 'level_scale', 'slope_scale', 'season_scale']

    Source: Durbin, Koopman (2012), Time Series Analysis by State Space Methods, 2nd edition,
    sections 3.2 (the models) and 4.3 (the filter).
    """
    check_not_forked()  # the prior takes JAX
    for name, value in (("level", level), ("trend", trend)):
        check_flag(name, value)
    counts = {"seasonal": seasonal, "autoregression": autoregression, "num_features": num_features}
    for name, value in counts.items():
        check_count(name, value, 0)
    if seasonal == 1:
        raise ConfigurationError("seasonal must be a period of at least 2 rows, or 0 for none; got 1.")
    if trend and not level:
        raise ConfigurationError("trend=True needs level=True: it is the slope of the level.")
    parts = Parts(bool(level), bool(trend), *(int(value) for value in counts.values()))
    if not parts.size:
        raise ConfigurationError(
            "state_space needs a level, seasons, an autoregression or features; got none."
        )
    check_size(f"a state of {parts.size:,} values", parts.size**2)
    return _model(parts, bool(many_sequences))


@cache
def _model(parts: Parts, many_sequences: bool) -> Model:
    scales = {
        "noise_scale": True,
        "level_scale": parts.level,
        "slope_scale": parts.trend,
        "season_scale": bool(parts.seasonal),
        "cycle_scale": bool(parts.autoregression),
    }
    prior: dict[str, Any] = {name: dist.HalfNormal(1.0) for name, is_there in scales.items() if is_there}
    if parts.autoregression:
        prior["coefficients"] = dist.Normal(0.0, 0.5).expand([parts.autoregression]).to_event(1)
    named = [name for name, is_there in parts._asdict().items() if is_there and name != "level"]
    words = ["local level" if parts.level else "no level", *(name.replace("num_", "") for name in named)]
    model = Model.from_recursion(
        prior,
        partial(_first, parts),
        partial(_step, parts),
        many_sequences=many_sequences,
        missing=("y",),
        name=", ".join(words),
    )
    return replace(
        model,
        check_data=partial(_check_data, parts, len(prior), many_sequences),
        simulate=partial(_simulate, model.prior, parts, many_sequences),
    )


def _check_data(parts: Parts, num_params: int, many_sequences: bool, data: Any) -> None:
    """Raise DataError unless there are series with noise.

    Where m values of the state fit n rows, the density is of the order of s^(m - n) if all k
    parameters are of the order of s; its integral over them is infinite for n - m > k - 1.
    """
    check_series(many_sequences, data, num_features=parts.num_features)
    y, x = (data["y"], data.get("x")) if many_sequences else (data["y"][None], data.get("x"))
    features = np.zeros((*y.shape, 0)) if x is None else x.reshape(*y.shape, parts.num_features)
    least = parts.size + num_params  # rows: fewer are always fitted
    for rows in (slice(2 * least), slice(None)):  # most series have noise at their beginning
        if not all(_is_exact(parts, least, *one) for one in zip(y[:, rows], features[:, rows], strict=True)):
            return
    raise infinite_evidence("fitted exactly by the states of the model")


def _is_exact(parts: Parts, least: int, y: np.ndarray, x: np.ndarray) -> bool:
    """Whether a series is what states without noise give, to the rounding of float32."""
    row = np.arange(len(y)) / len(y)
    seasons = np.arange(len(y))[:, None] % max(1, parts.seasonal) == np.arange(parts.seasonal)
    columns = np.concatenate(
        [np.ones((len(y), int(parts.level))), row[:, None][:, : int(parts.trend)], seasons, x], axis=1
    )
    known = ~np.isnan(y)
    y, columns = y[known].astype(float), columns[known]
    residual = y - columns @ np.linalg.lstsq(columns, y)[0] if columns.size else y
    rounding = 4 * np.finfo(np.float32).eps * np.abs(y).max(initial=0.0)
    return len(y) >= least and bool(np.abs(residual).max(initial=0.0) <= rounding)


def system_of(parts: Parts, params: Mapping[str, Any]) -> System:
    """The system of some parts at some parameters; the coefficients of features are states."""
    seasons = max(0, parts.seasonal - 1)
    of_series = {  # by part: the values of the state, and the scale of the first of them
        "level_scale": (int(parts.level), 2.0, 1.0),
        "slope_scale": (int(parts.trend), 1.0, 0.0),
        "season_scale": (seasons, 1.0, 1.0),
        "cycle_scale": (parts.autoregression, 1.0, 1.0),
    }
    start, observed, noise = [], [], []
    for name, (size, deviation, weight) in of_series.items():
        if size:
            start += [deviation**2] * size
            observed += [weight] + [0.0] * (size - 1)
            noise += [params[name] ** 2] + [0.0] * (size - 1)
    rest = parts.num_features
    return System(
        jnp.stack([jnp.asarray(one) for one in [*noise, *[0.0] * rest]]),
        np.array(start + [1.0] * rest, np.float32),
        np.array(observed, np.float32),
        params["noise_scale"] ** 2,
    )


def moved(parts: Parts, params: Mapping[str, Any], states: Any) -> Array:
    """The transition, applied to states on the leading axis: sums and shifts, without a matrix."""
    found, at = [], parts.level + parts.trend
    if parts.level:
        found.append(states[:1] + states[1:2] if parts.trend else states[:1])
    if parts.trend:
        found.append(states[1:2])
    if parts.seasonal:  # the season of this row, then those of the rows before
        seasons = states[at : (at := at + parts.seasonal - 1)]
        found += [-seasons.sum(0, keepdims=True), seasons[:-1]]
    if parts.autoregression:
        cycles = states[at : (at := at + parts.autoregression)]
        found += [jnp.tensordot(params["coefficients"], cycles, 1)[None], cycles[:-1]]
    return jnp.concatenate([*found, states[at:]])


def _first(parts: Parts, params):
    start = jnp.asarray(system_of(parts, params).start)
    return jnp.zeros_like(start), jnp.diag(start)


def _step(parts: Parts, params, state, row):
    """Kalman filter: from the mean and covariance of s_t given y_1, …, y_{t-1} to the next.

        f = zᵀ P z + variance,   k = P z / f,   m' = m + k (y - zᵀ m),
        P' = (I - k zᵀ) P (I - k zᵀ)ᵀ + variance k kᵀ

    The last form (Joseph's) stays positive in float32 where the noise is small. A missing y leaves
    m and P as they are.
    """
    of = system_of(parts, params)
    mean, covariance = state
    z = jnp.concatenate([jnp.asarray(of.observed), row["x"]]) if "x" in row else jnp.asarray(of.observed)
    is_missing = jnp.isnan(row["y"])
    along = covariance @ z
    total = z @ along + of.variance
    error = jnp.where(is_missing, 0.0, row["y"]) - z @ mean
    gain: Any = jnp.where(is_missing, 0.0, along / total)
    left: Array = covariance - gain[:, None] * along
    filtered = left - (left @ z)[:, None] * gain + of.variance * gain[:, None] * gain
    log_predictive = -0.5 * (error**2 / total + jnp.log(2 * jnp.pi * total))
    after = moved(parts, params, moved(parts, params, filtered).T) + jnp.diag(of.noise)
    next_state = moved(parts, params, mean + gain * error), 0.5 * (after + after.T)
    known: Any = jnp.where(is_missing, 0.0, log_predictive)
    return next_state, known


def _simulate(prior, parts, many_sequences, num_observations, seed):
    params, generator = drawn_from(prior, seed), np.random.default_rng(seed)
    of = System(*(np.asarray(each) for each in system_of(parts, params)))
    count, length = (num_observations, LENGTH) if many_sequences else (1, num_observations)
    x = generator.standard_normal((count, length, parts.num_features), np.float32)
    z = np.concatenate([np.broadcast_to(of.observed, (count, length, len(of.observed))), x], axis=-1)
    state, y = np.sqrt(of.start) * generator.standard_normal((count, parts.size)), np.zeros((count, length))
    for row in range(length):
        y[:, row] = (z[:, row] * state).sum(1) + np.sqrt(of.variance) * generator.standard_normal(count)
        state = np.asarray(moved(parts, params, state.T)).T + np.sqrt(of.noise) * generator.standard_normal(
            state.shape
        )
    data = {"y": y.astype(np.float32), **({"x": x} if parts.num_features else {})}
    return data if many_sequences else {name: array[0] for name, array in data.items()}, params
