"""Families with more zeros than a law of counts has, and shares that may be 0 or 1.

With f the law of counts and μ its mean, an inflated law is 0 with a probability π of its own, and
follows f otherwise; under a hurdle, all zeros are of the probability π, and f is cut off at 0:

    inflated:  p(0) = π + (1-π) f(0),    p(y) = (1-π) f(y),               mean (1-π) μ
    hurdle:    p(0) = π,                 p(y) = (1-π) f(y) / (1 - f(0)),  mean (1-π) μ / (1 - f(0))

(Lambert 1992; Mullahy 1986). Shares are 0 or 1 with the probability `zoi`, and 1 of these two with
the probability `coi`; all others are beta (Ospina and Ferrari 2010). The names are those of brms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy import ndarray
from scipy.special import expit

LogDensity = Callable[[jax.Array, Mapping[str, jax.Array], Mapping[str, Any]], jax.Array]
Mean = Callable[[Any, Mapping[str, Any]], ndarray]

MOST, LEAST = 60.0, -80.0  # log means whose exponentials float32 holds; f(0) is 0 or 1 beyond them


def zero_inflated(counts: LogDensity, predictor, batch, extra):
    """The log density of counts with the probability `zi` of a further 0."""
    log_extra, log_rest = jnp.log(extra["zi"]), jnp.log1p(-extra["zi"])
    zero = jnp.logaddexp(log_extra, log_rest + _log_zero(counts, predictor, batch, extra))
    return jnp.where(batch["y"] > 0, log_rest + _positive(counts, predictor, batch, extra), zero)


def hurdle(counts: LogDensity, predictor, batch, extra):
    """The log density of counts which are 0 with the probability `hu`, and cut off at 0."""
    log_some = jnp.log(-jnp.expm1(_log_zero(counts, predictor, batch, extra)))
    some = jnp.log1p(-extra["hu"]) - log_some + _positive(counts, predictor, batch, extra)
    return jnp.where(batch["y"] > 0, some, jnp.log(extra["hu"]))


def zero_inflated_beta(shares: LogDensity, predictor, batch, extra):
    """The log density of shares which are 0 with the probability `zi`."""
    some = jnp.log1p(-extra["zi"]) + _inside(shares, predictor, batch, extra)
    return jnp.where(batch["end"] == 0, some, jnp.log(extra["zi"]))


def zero_one_inflated_beta(shares: LogDensity, predictor, batch, extra):
    """The log density of shares which are 0 or 1 with the probability `zoi`, and 1 with `coi`."""
    end, coi = batch["end"], extra["coi"]
    at_end = jnp.log(extra["zoi"]) + jnp.where(end > 0, jnp.log(coi), jnp.log1p(-coi))
    some = jnp.log1p(-extra["zoi"]) + _inside(shares, predictor, batch, extra)
    return jnp.where(end == 0, some, at_end)


def mean_of_inflated(predictor: Any, extra: Mapping[str, Any]) -> ndarray:
    """Of counts with further zeros."""
    return (1 - extra["zi"]) * np.exp(predictor)


def mean_of_hurdle(predictor: Any, extra: Mapping[str, Any]) -> ndarray:
    """Of counts cut off at 0: μ / (1 - f(0)), which is 1 for small μ."""
    mean = np.exp(np.maximum(predictor, LEAST))
    dispersion = extra.get("dispersion")
    log_zero = -mean if dispersion is None else -np.log1p(dispersion * mean) / dispersion
    return (1 - extra["hu"]) * mean / -np.expm1(log_zero)


def mean_of_shares_or_zero(predictor: Any, extra: Mapping[str, Any]) -> ndarray:
    """Of shares which may be 0."""
    return (1 - extra["zi"]) * expit(predictor)


def mean_of_shares_or_ends(predictor: Any, extra: Mapping[str, Any]) -> ndarray:
    """Of shares which may be 0 or 1."""
    return extra["zoi"] * extra["coi"] + (1 - extra["zoi"]) * expit(predictor)


def _log_zero(counts: LogDensity, predictor, batch, extra) -> jax.Array:
    """log f(0). Predictors are relative to the response's location, which log y is, too."""
    log_mean = predictor - batch["log_y"] + jnp.log(jnp.maximum(batch["y"], 1))
    nothing = jnp.zeros_like(batch["y"])
    at_zero = {"y": nothing, "log_y": nothing, "constant": nothing}
    return counts(jnp.clip(log_mean, LEAST, MOST), at_zero, extra)


def _positive(counts: LogDensity, predictor: Any, batch, extra) -> jax.Array:
    """log f(y) where y > 0, and something finite elsewhere, whose derivatives are, too."""
    place: Any = jnp.where(batch["y"] > 0, predictor, batch["log_y"])
    return counts(place, batch, extra)


def _inside(shares: LogDensity, predictor, batch, extra) -> jax.Array:
    """The log density between the ends, and something finite at them, as are its derivatives."""
    place: Any = jnp.where(batch["end"] == 0, predictor, 0.0)
    return shares(place, batch, extra)
