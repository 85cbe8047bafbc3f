"""GARCH: series whose conditional variance depends on the values before."""

from dataclasses import replace
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from evidentia.errors import ConfigurationError
from evidentia.model.built_in.sequences import check_series, infinite_evidence, predicted, simulated
from evidentia.model.model import Model
from evidentia.system.sharing import check_not_forked

ERRORS = "normal", "student_t"
BURN_IN = 100  # rows that are simulated and dropped


def garch(*, errors: str = "normal", many_sequences: bool = False) -> Model:
    """A GARCH(1, 1): each variance is a mean of last squared error, last variance and a constant.

        y_t = mean + e_t,    e_t ~ N(0, v_t),
        v_{t+1} = arch e_t² + garch v_t + rest scale²,    v_1 = scale²
        mean ~ N(0, 1),    scale ~ HalfNormal(1),    (arch, garch, rest) ~ Dirichlet(1, 1, 1)

    The shares add up to one, so that series are stationary with the variance scale². In the usual
    notation α, β and ω are arch, garch and rest scale². Results have the shares as one array,
    `shares`. With Student t errors, e_t has the variance v_t, and
    degrees_of_freedom = 2 + tail, tail ~ Gamma(2, 0.1).

    Data are `{"y": (T,)}`; with `many_sequences`, `{"y": (sequences, T)}`. The priors expect a
    series of deviation about one, such as returns in per cent. Missing values are refused: the
    variance depends on the value that is missing.

    Args:
        errors: "normal" or "student_t".
        many_sequences: whether data hold many sequences, independent given the parameters.

    Raises:
        ConfigurationError: other errors.

    Example:
        >>> model = garch()
        >>> data, params = model.simulate(num_observations=500, seed=0)
        >>> data["y"].shape, list(params)
        ((500,), ['mean', 'scale', 'shares'])

    Source: Bollerslev (1986), Journal of Econometrics 31, 307, Eq. 1 to 3; Bollerslev (1987),
    Review of Economics and Statistics 69, 542 (Student t).
    """
    check_not_forked()  # the prior takes JAX
    if errors not in ERRORS:
        raise ConfigurationError(f"errors must be one of {', '.join(map(repr, ERRORS))}; got {errors!r}.")
    return _model(errors == "student_t", bool(many_sequences))


@cache
def _model(has_tails, many_sequences):
    prior = {
        "mean": dist.Normal(0.0, 1.0),
        "scale": dist.HalfNormal(1.0),
        "shares": dist.Dirichlet(jnp.ones(3)),
        **({"tail": dist.Gamma(2.0, 0.1)} if has_tails else {}),
    }
    model = Model.from_recursion(
        prior,
        _first,
        _step,
        many_sequences=many_sequences,
        name=f"GARCH(1, 1){', Student t' if has_tails else ''}",
    )
    return replace(
        model,
        check_data=partial(_check_data, has_tails, many_sequences),
        simulate=partial(simulated, _series, prior, many_sequences),
        predict=partial(predicted, _series),
    )


def _check_data(has_tails, many_sequences, data):
    """Raise DataError unless there are series with noise.

    With n values of the mean, m others, and a scale s about zero, the density is of the order of
    s^(-n) if m = 0. Student t errors of ν > 2 degrees of freedom give s^(-n + ν m), where the mean
    and `arch` are within s and s² of their values: the integral is infinite for n - 2 m > 4.
    """
    check_series(many_sequences, data)
    known = data["y"][~np.isnan(data["y"])]
    alike = np.unique(known, return_counts=True)[1].max()
    if 1 < len(known) == alike or (has_tails and alike - 2 * (len(known) - alike) > 4):
        raise infinite_evidence(f"the same value in {alike} of {len(known)} rows")


def _first(params):
    return params["scale"] ** 2


def _step(params, variance, row):
    error = row["y"] - params["mean"]
    if "tail" in params:
        freedom = 2.0 + params["tail"]
        scale = jnp.sqrt(variance * params["tail"] / freedom)
        log_predictive = dist.StudentT(freedom, 0.0, scale).log_prob(error)
    else:
        log_predictive = -0.5 * (error**2 / variance + jnp.log(2 * jnp.pi * variance))
    return _following(params["shares"], params["scale"], error, variance), log_predictive


def _following(shares, scale, error, variance):
    return shares[..., 0] * error**2 + shares[..., 1] * variance + shares[..., 2] * scale**2


def _series(params, length, generator):
    """A series (draws, length) for each draw of the parameters."""
    y, variance = np.zeros((len(params["scale"]), length)), params["scale"] ** 2
    for row in range(-BURN_IN, length):
        error = np.sqrt(variance) * _unit_errors(params, generator)
        if row >= 0:
            y[:, row] = params["mean"] + error
        variance = _following(params["shares"], params["scale"], error, variance)
    return y


def _unit_errors(params, generator):
    """Errors of the variance one, (draws,)."""
    if "tail" not in params:
        return generator.standard_normal(len(params["scale"]))
    freedom = 2.0 + params["tail"]
    return generator.standard_t(freedom) * np.sqrt(params["tail"] / freedom)
