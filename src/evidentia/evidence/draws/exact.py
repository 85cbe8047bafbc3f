"""Exact posterior draws of models that have a closed form of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Positions, Window


def exact_draws(model: BoundModel, rows: Window, count: int, key: Array) -> Positions:
    """Independent draws from the posterior of `rows`, by the model's `sample_posterior`."""
    assert model.sample_posterior is not None
    data = jax.tree.map(lambda leaf: np.asarray(leaf[rows.start : rows.stop]), rows.arrays)
    params = model.sample_posterior(data, count, int(jax.random.bits(key)))
    return jax.vmap(model.unconstrain)(jax.tree.map(jnp.asarray, dict(params)))
