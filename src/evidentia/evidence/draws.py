"""Independent draws, in batches: how estimators that take all rows at once show progress and can be stopped.

What is held is one batch's likelihood of one block of rows, and the positions and log weights of all draws so far.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from evidentia.evidence.checks import check_defined
from evidentia.rows import Rows

BATCH_SIZE = 256, 4096  # draws in a batch, at least and at most,
MAX_EVALUATIONS = 500_000_000  # so that rows times draws are no more: seconds for a regression

LogWeights = Float[np.ndarray, " draws"]
Weigh = Callable[[Array, int], tuple[Float[Array, "draws parameters"], LogWeights]]


class Draws(NamedTuple):
    """The draws so far with their log weights in nats, in float64, and the share done of all of them.

    All is on the host, where the draws that come next have their place without a copy.
    """

    positions: Any  # Float[np.ndarray, "draws parameters"], which JAX takes for an array of its own
    log_weights: LogWeights
    share_done: float


def in_batches(weigh: Weigh, count: int, rows: Rows, key: Array) -> Iterator[Draws]:
    """`count` draws; after each batch those so far.

    `weigh(key, size)` returns the positions and the log weights of that many new draws, which know `rows`.

    Raises EstimationError, which names the rows, if a log weight is NaN.
    """
    positions, log_weights, done = None, np.empty(count), 0
    size = batch_size(count, rows)
    while done < count:
        stop = min(done + size, count)
        # Batches are all of one size, so that nothing is compiled for the last: what is too much is dropped.
        found, weighed = weigh(jax.random.fold_in(key, done), size)
        log_weights[done:stop] = weighed[: stop - done]
        check_defined(log_weights[done:stop], rows, "draws")
        if positions is None:
            positions = np.empty((count, found.shape[1]), np.float32)
        positions[done:stop] = found[: stop - done]
        done = stop
        yield Draws(positions[:done], log_weights[:done], done / count)


def batch_size(count: int, rows: Rows) -> int:
    """Draws in a batch, such that the batches are of about equal size."""
    least, most = BATCH_SIZE
    wanted = min(max(MAX_EVALUATIONS // rows.size, least), most)
    num_batches = -(-count // wanted)
    return -(-count // num_batches)
