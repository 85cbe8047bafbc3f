"""Independent draws in batches, so that methods that take all rows at once show progress and can
be interrupted.

Held are the likelihoods of one batch for one block of rows, and the positions and log weights of
all draws so far.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from evidentia.evidence.path.checks import check_defined
from evidentia.posterior.rows import Window

BATCH_SIZE = 256, 4096  # draws in a batch, at least and at most,
MAX_EVALUATIONS = 500_000_000  # so that rows times draws do not exceed this: seconds for a regression

LogWeights = Float[np.ndarray, " draws"]
Weigh = Callable[[Array, int], tuple[Float[Array, "draws parameters"], LogWeights]]


class Draws(NamedTuple):
    """The draws so far with their log weights in nats, in float64, and the share done.

    On the host, in arrays that have room for all draws.
    """

    positions: Any  # Float[np.ndarray, "draws parameters"], which programs take too
    log_weights: LogWeights
    share_done: float


def in_batches(weigh: Weigh, count: int, rows: Window, key: Array) -> Iterator[Draws]:
    """`count` draws; after each batch those so far.

    `weigh(key, size)` returns the positions and the log weights of `size` new draws, given `rows`.

    Raises EstimationError, which names the rows, if a log weight is NaN.
    """
    positions, log_weights, done = None, np.empty(count), 0
    size = batch_size(count, rows)
    while done < count:
        stop = min(done + size, count)
        # All batches have the same size, so that nothing is compiled for the last; its surplus is
        # dropped.
        found, weighed = weigh(jax.random.fold_in(key, done), size)
        log_weights[done:stop] = weighed[: stop - done]
        check_defined(log_weights[done:stop], rows.span, "draws")
        if positions is None:
            positions = np.empty((count, found.shape[1]), np.float32)
        positions[done:stop] = found[: stop - done]
        done = stop
        yield Draws(positions[:done], log_weights[:done], done / count)


def batch_size(count: int, rows: Window) -> int:
    """Draws in a batch, such that all batches have about the same size."""
    least, most = BATCH_SIZE
    wanted = min(max(MAX_EVALUATIONS // rows.size, least), most)
    num_batches = -(-count // wanted)
    return -(-count // num_batches)
