"""The linear predictor of rows, and the likelihood that a family makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidentia.model.program import LogLikelihood
from evidentia.regression.compact import Layout
from evidentia.regression.families import Family

Predictor = Callable[[Mapping[str, Any], Mapping[str, Any]], jax.Array]


def predictor_of(
    names: tuple[str, ...], layout: Layout, replaced: Mapping[str, Any], outputs: tuple[int, ...] = ()
) -> Predictor:
    """The linear predictor of rows; effects with replaced priors are parameters of their own.

    `outputs` is the shape of one row's: (categories - 1,) of categories.
    """
    free = np.array([place for place, name in enumerate(names) if name not in replaced], np.int32)
    own = {name: place for place, name in enumerate(names) if name in replaced}

    def effects_of(params: Mapping[str, Any]) -> jax.Array:
        if not own:
            return params["effects"]
        effects = jnp.zeros(len(names))
        if len(free):
            effects = effects.at[free].set(params["effects"])
        for name, place in own.items():
            effects = effects.at[place].set(params[name])
        return effects

    def predictor(params: Mapping[str, Any], batch: Mapping[str, Any]) -> jax.Array:
        found = params.get("Intercept", jnp.zeros(outputs))[None]  # (1,), or (1, categories - 1)
        if names:
            found = found + layout.predictor(effects_of(params), batch)
        if "offset" in batch:
            found = found + batch["offset"]
        rows = next(iter(batch.values())).shape[:1]
        return jnp.broadcast_to(found, (*rows, *found.shape[1:]))

    return predictor


def log_likelihood_of(law: Family, predictor: Predictor) -> LogLikelihood:
    """The pointwise log-likelihood, without effects that vary by group."""
    return lambda params, batch: log_density(law, predictor(params, batch), params, batch)


def log_density(
    law: Family, predictor: jax.Array, params: Mapping[str, Any], batch: Mapping[str, Any]
) -> jax.Array:
    """The log density of rows in nats, given their predictor and all parameters."""
    return law.log_density(predictor, batch, {name: params[name] for name in law.extra})
