"""A window of rows that are spread over devices, with copies of the first of them."""

import jax
import numpy as np

from evidentia.data.arrays import on_device
from evidentia.data.sharded import Sharded, axes_of
from evidentia.model.bound import Observations
from evidentia.posterior.rows import Window
from evidentia.posterior.shards import Shards

NUM_COPIED = 16_384  # rows that every process copies: sums over so few take less time than their collectives


def spread_window(rows: Sharded) -> tuple[Window, Observations]:
    """The window of all rows, and its first rows as NumPy arrays, the same in every process."""
    shards = Shards.of(rows.sharding.mesh, axes_of(rows.sharding), rows.counts)
    size = int(np.sum(rows.counts, dtype=np.int64))
    copies = shards.fetch(rows.arrays, np.arange(min(size, NUM_COPIED)))
    head = Window(on_device(copies), 0, len(jax.tree.leaves(copies)[0]))
    return Window(rows.arrays, 0, size, shards=shards, head=head), copies
