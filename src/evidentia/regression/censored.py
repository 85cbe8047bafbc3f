"""Survival times T, observed or right-censored: log T = η + scale · W, as R's survreg has them.

W has the law of the logarithm of an exponential variable for the families exponential, whose scale
is 1, and weibull, whose shape is 1 / scale; it is standard normal for lognormal. With z = (log t -
η) / scale, an event at t has the density of T there, and a time censored at t the probability of
T > t. All are in terms of log t, which float32 holds for any unit of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Float
from numpy import ndarray
from scipy.special import gammaln

from evidentia.errors import DataError

HALF_LOG_2PI = 0.9189385332046727


def exponential(predictor, batch, extra):
    """d (z - log t) - e^z, where d is 1 for events and 0 for censored times."""
    z = batch["log_y"] - predictor
    return batch["event"] * (z - batch["log_y"]) - jnp.exp(z)


def weibull(predictor, batch, extra):
    """d (z - log scale - log t) - e^z."""
    z = (batch["log_y"] - predictor) / extra["scale"]
    return batch["event"] * (z - jnp.log(extra["scale"]) - batch["log_y"]) - jnp.exp(z)


def lognormal(predictor, batch, extra):
    """-z²/2 - log scale - ½ log 2π - log t for events, log Φ(-z) for censored times."""
    z = (batch["log_y"] - predictor) / extra["scale"]
    event = -0.5 * z**2 - jnp.log(extra["scale"]) - HALF_LOG_2PI - batch["log_y"]
    return jnp.where(batch["event"] > 0, event, log_ndtr(-z))


def mean_of_weibull(predictor: Any, extra: Mapping[str, Any]) -> ndarray:
    """e^η Γ(1 + scale)."""
    return np.exp(predictor + gammaln(1 + extra["scale"]))


def mean_of_lognormal(predictor: Any, extra: Mapping[str, Any]) -> ndarray:
    """e^(η + scale² / 2)."""
    return np.exp(predictor + extra["scale"] ** 2 / 2)


def events_of(status: ndarray | None, num_rows: int, largest: float | None = None) -> Float[ndarray, " rows"]:
    """1 for an event and 0 for a censored time, of 0 and 1, of truth values, or of 1 and 2.

    As in R: if the largest value is 2, it is the event and 1 is not; without a status, all times
    are those of events. `largest` is that of all rows, if these are some.

    Raises:
        DataError: other values.
    """
    if status is None:
        return np.ones(num_rows)
    if status.dtype.kind not in "fiub":
        raise DataError(
            f"the status of Surv must be 0 (censored) and 1 (event), True and False, or 1 and 2; got {status[0]!r}. Of text, "
            f"write Surv(time, status == {status[0]!r})."
        )
    values = status.astype(np.float64)
    event = values - 1 if (values.max() if largest is None else largest) == 2 else values
    wrong = (event != 0) & (event != 1)
    if wrong.any():
        first = int(wrong.argmax())
        seen = ", ".join(f"{one:g}" for one in np.unique(values)[:5])
        raise DataError(
            f"the status of Surv must be 0 (censored) and 1 (event), True and False, or 1 and 2; it has {seen} (row {first} of "
            f"those used has {values[first]:g}). Of several kinds of event, take one: Surv(time, status == 1)."
        )
    return event
