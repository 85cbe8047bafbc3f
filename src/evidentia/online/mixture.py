"""Predictive densities of rows under weighted particles."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from evidentia import weights
from evidentia.data.arrays import num_rows, round_up, with_rows
from evidentia.model.bound import BoundModel
from evidentia.system.compilation import jitted

BLOCK = 4096  # rows at once


def log_mixture(
    model: BoundModel,
    positions: Float[Array | np.ndarray, "particles parameters"],
    log_weights: Float[np.ndarray, " particles"],
    rows: Any,
) -> Float[np.ndarray, " rows"]:
    """log Σ Wᵢ p(row | θᵢ) of each row, W the normalised weights; in nats, float64."""
    log_shares, length = weights.normalise(log_weights), min(BLOCK, round_up(num_rows(rows)))
    found = []
    for first in range(0, num_rows(rows), length):
        block = jax.tree.map(lambda leaf: with_rows(leaf[first : first + length], length), rows)  # noqa: B023
        found.append(_log_mixture(model, positions, log_shares, block))
    return np.concatenate(found).astype(np.float64)[: num_rows(rows)]


@jitted(static_argnames="model")
def _log_mixture(model, positions: Array, log_shares: Array, block: Any):
    values = jax.vmap(model.log_likelihood, (0, None))(positions, block)
    return jax.nn.logsumexp(values + log_shares[:, None], axis=0)
