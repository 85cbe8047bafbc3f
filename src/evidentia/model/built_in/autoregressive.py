"""Autoregressions: each value of a series depends on those before it."""

from dataclasses import replace
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import DataError, check_count
from evidentia.model.built_in.checks import check_size
from evidentia.model.built_in.sequences import LENGTH, check_series, drawn_from
from evidentia.model.model import Model
from evidentia.system.sharing import check_not_forked


def autoregression(order: int, *, many_sequences: bool = False) -> Model:
    """An autoregression of order p, given the first p values of the series.

        intercept ~ N(0, 1),   coefficients_i ~ N(0, 1),   variance ~ InverseGamma(1, 1),
        y_t ~ N(intercept + Σ_i coefficients_i y_{t-i}, variance)    for t > p

    Data are `{"y": (T,)}`; with `many_sequences`, `{"y": (sequences, T)}`. The first p values are
    given: the evidence is that of the others. To compare orders, leave out the first values of
    the series for the smaller ones, so that all have the same values to explain. Coefficients are
    not restricted to stationary series. The priors expect a series of deviation about one.

    Args:
        order: p, at least one.
        many_sequences: whether data hold many sequences, independent given the parameters.

    Raises:
        ConfigurationError: an argument is out of range, or needs more memory than there is.

    Example:
        >>> model = autoregression(order=2)
        >>> data, params = model.simulate(num_observations=100, seed=0)
        >>> data["y"].shape, params["coefficients"].shape
        ((100,), (2,))

    Source: Hamilton (1994), Time Series Analysis, section 5.3 (the conditional likelihood).
    """
    check_not_forked()  # the prior takes JAX
    check_count("order", order, 1)
    check_size(f"order={order:,}", int(order) + 2)
    return _model(int(order), bool(many_sequences))


@cache
def _model(order, many_sequences):
    model = Model.from_recursion(
        {
            "intercept": dist.Normal(0.0, 1.0),
            "coefficients": dist.Normal(0.0, 1.0).expand([order]).to_event(1),
            "variance": dist.InverseGamma(1.0, 1.0),
        },
        lambda params: (jnp.zeros(order), 0),
        partial(_step, order),
        many_sequences=many_sequences,
        name=f"autoregression of order {order}",
    )
    return replace(
        model,
        check_data=partial(_check_data, order, many_sequences),
        simulate=partial(_simulate, model.prior, order, many_sequences),
    )


def _step(order, params, state, row):
    before, count = state  # the last values, the latest first
    mean = params["intercept"] + params["coefficients"] @ before
    log_predictive = dist.Normal(mean, jnp.sqrt(params["variance"])).log_prob(row["y"])
    after = jnp.concatenate([row["y"][None], before[:-1]])
    return (after, count + 1), jnp.where(count < order, 0.0, log_predictive)


def _check_data(order, many_sequences, data):
    check_series(many_sequences, data)
    if data["y"].shape[-1] <= order:
        raise DataError(
            f"a series must have more values than order={order}, as the first ones are given; got data['y'] of shape "
            f"{data['y'].shape}."
        )


def _simulate(prior, order, many_sequences, num_observations, seed):
    """Series with parameters from the prior, whose coefficients are halved until it has a mean."""
    params, generator = drawn_from(prior, seed), np.random.default_rng(seed)
    while np.abs(params["coefficients"]).sum() >= 1:  # sufficient for stationary series
        params["coefficients"] = params["coefficients"] / 2
    count, length = (num_observations, LENGTH) if many_sequences else (1, num_observations)
    y = np.zeros((count, LENGTH + length), np.float32)
    noise = generator.normal(0.0, np.sqrt(params["variance"]), y.shape)
    for row in range(order, y.shape[1]):
        before = y[:, row - order : row][:, ::-1]
        y[:, row] = params["intercept"] + before @ params["coefficients"] + noise[:, row]
    y = y[:, LENGTH:]
    return {"y": y if many_sequences else y[0]}, params
