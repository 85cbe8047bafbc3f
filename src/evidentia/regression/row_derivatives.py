"""The rows of a regression on the host: their log density and its derivatives by the predictor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from evidentia.regression.families import Family
from evidentia.system.compilation import in_float64

LOG_CONCAVE = "binary", "trials", "count"  # kinds of response, of families without more parameters
LEAST_WEIGHT = 1e-10  # of a row, relative to the largest


class Expanded(NamedTuple):
    """The rows' log density at predictors: its sum, and slopes and weights of each row."""

    value: float
    slopes: Float[ndarray, " rows"]
    weights: Float[ndarray, " rows"]


class Responses(NamedTuple):
    """The rows of a regression on the host.

    Attributes:
        law: their family.
        batch: what its log density takes, beside the predictor.
        columns: of the coefficients.
        offset: a known part of the predictor.
    """

    law: Family
    batch: Mapping[str, ndarray]
    columns: Float[ndarray, "rows coefficients"]
    offset: Float[ndarray, " rows"]

    def expand(self, predictor: Float[ndarray, " rows"]) -> Expanded:
        """As `Expanded`."""
        with in_float64():
            value, slopes, weights = _expansion(self.law.log_density, predictor, dict(self.batch))
        weights = np.asarray(weights, np.float64)
        return Expanded(
            float(value), np.asarray(slopes, np.float64), np.maximum(weights, LEAST_WEIGHT * weights.max())
        )

    def thirds(self, predictor: Float[ndarray, " rows"]) -> Float[ndarray, " rows"]:
        """The third derivatives of the rows' log densities."""
        with in_float64():
            return np.asarray(_thirds(self.law.log_density, predictor, dict(self.batch)), np.float64)


def is_log_concave(law: Family) -> bool:
    """Whether a family's log density is concave in the predictor, and has no other parameters."""
    return law.kind in LOG_CONCAVE and not law.extra


def _derivatives(log_density: Any, predictor: Any, batch: Any) -> Any:
    def of_rows(predictor):
        return log_density(predictor, batch, {})

    ones = jnp.ones_like(predictor)
    slopes, along = jax.jvp(lambda at: jax.jvp(of_rows, (at,), (ones,))[1], (predictor,), (ones,))
    return jnp.sum(of_rows(predictor)), slopes, -along


_expansion = jax.jit(_derivatives, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _thirds(log_density: Any, predictor: Any, batch: Any) -> Any:
    ones = jnp.ones_like(predictor)
    return jax.jvp(lambda at: -_derivatives(log_density, at, batch)[2], (predictor,), (ones,))[1]
