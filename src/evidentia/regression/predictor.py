"""The linear predictor of rows, and the likelihood that a family makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.model.program import LogLikelihood
from evidentia.regression.compact import Layout
from evidentia.regression.families import Family


@dataclass(frozen=True, eq=False)
class Predictor:
    """The linear predictor of rows; effects with replaced priors are parameters of their own.

    Attributes:
        names: of the columns.
        layout: how these are held.
        replaced: names of those with parameters of their own.
        outputs: the shape of one row's: (categories - 1,) of categories.
    """

    names: tuple[str, ...]
    layout: Layout
    replaced: frozenset[str] = frozenset()
    outputs: tuple[int, ...] = ()

    def __call__(self, params: Mapping[str, Any], batch: Mapping[str, Any]) -> jax.Array:
        """Of the rows of a batch: (rows, *outputs)."""
        found = params.get("Intercept", jnp.zeros(self.outputs))[None]  # (1,), or (1, categories - 1)
        if self.names:
            found = found + self.layout.predictor(self._effects_of(params), batch)
        if "offset" in batch:
            found = found + batch["offset"]
        rows = next(iter(batch.values())).shape[:1]
        return jnp.broadcast_to(found, (*rows, *found.shape[1:]))

    def _effects_of(self, params: Mapping[str, Any]) -> jax.Array:
        if not self.replaced:
            return params["effects"]
        effects = jnp.zeros(len(self.names))
        free = np.array(
            [place for place, name in enumerate(self.names) if name not in self.replaced], np.int32
        )
        if len(free):
            effects = effects.at[free].set(params["effects"])
        for place, name in enumerate(self.names):
            if name in self.replaced:
                effects = effects.at[place].set(params[name])
        return effects


def log_likelihood_of(law: Family, predictor: Predictor) -> LogLikelihood:
    """The pointwise log-likelihood, without effects that vary by group."""
    return partial(_log_likelihood, law, predictor)


def _log_likelihood(
    law: Family, predictor: Predictor, params: Mapping[str, Any], batch: Mapping[str, Any]
) -> jax.Array:
    return log_density(law, predictor(params, batch), params, batch)


def log_density(
    law: Family, predictor: jax.Array, params: Mapping[str, Any], batch: Mapping[str, Any]
) -> jax.Array:
    """The log density of rows in nats, given their predictor and all parameters."""
    return law.log_density(predictor, batch, {name: params[name] for name in law.extra})
