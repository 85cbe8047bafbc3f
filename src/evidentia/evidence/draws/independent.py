"""Independent draws in batches, so that methods can show progress and be interrupted.

Memory holds the likelihoods of one batch for one block of rows, and the positions and log weights
of all draws so far.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from evidentia.evidence.method import check_defined
from evidentia.model.bound import BoundModel
from evidentia.posterior.rows import Positions, Rows, Window

LogWeights = Float[np.ndarray, " draws"]
Weigh = Callable[[Array, int], tuple[Float[Array, "draws parameters"], LogWeights]]


class Draws(NamedTuple):
    """The draws so far with float64 log weights in nats, and the fraction done.

    The arrays are on the host and have room for all draws.
    """

    positions: Any  # Float[np.ndarray, "draws parameters"], also accepted by compiled programs
    log_weights: LogWeights
    share_done: float


def in_batches(weigh: Weigh, count: int, rows: Rows, key: Array) -> Iterator[Draws]:
    """Yield all draws so far after each batch, up to `count` draws.

    `weigh(key, size)` returns the positions and log weights of `size` new draws, given `rows`.

    Raises EstimationError, which names the rows, if a log weight is NaN.
    """
    positions, log_weights, done = None, np.empty(count), 0
    size = batch_size(count, rows)
    while done < count:
        stop = min(done + size, count)
        # All batches have one size, to avoid compilation for the last; its surplus is dropped.
        found, weighed = weigh(jax.random.fold_in(key, done), size)
        log_weights[done:stop] = weighed[: stop - done]
        check_defined(log_weights[done:stop], rows.span, "draws")
        if positions is None:
            positions = np.empty((count, found.shape[1]), np.float32)
        positions[done:stop] = found[: stop - done]
        done = stop
        yield Draws(positions[:done], log_weights[:done], done / count)


def batch_size(count: int, rows: Rows) -> int:
    """Number of draws per batch, about the same for all batches."""
    wanted = 500_000_000 // rows.size  # evaluations, which take seconds for a regression
    wanted = min(max(wanted, 256), 4096)
    num_batches = -(-count // wanted)
    return -(-count // num_batches)


def exact_draws(model: BoundModel, rows: Window, count: int, key: Array) -> Positions:
    """Independent draws from the posterior of `rows`, by the model's `sample_posterior`."""
    assert model.sample_posterior is not None
    data = jax.tree.map(lambda leaf: np.asarray(leaf[rows.start : rows.stop]), rows.arrays)
    params = model.sample_posterior(data, count, int(jax.random.bits(key)))
    return jax.vmap(model.unconstrain)(jax.tree.map(jnp.asarray, dict(params)))
