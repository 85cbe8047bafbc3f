"""What runs at a worker: sums over the rows of a partition, for a model that may come pickled.

A partition is a data frame, arrays, or a `Source` that is read again for each call. Every function
takes the batches of a partition and the model.
"""

import pickle
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from evidentia.data.arrays import as_arrays, described, map_arrays, num_rows, on_device
from evidentia.data.batches import Batch, recut
from evidentia.data.fingerprint import sums_by_name
from evidentia.data.source import Source
from evidentia.errors import ConfigurationError
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.posterior.rows import Window

BATCH_SIZE = 1 << 18  # rows of a source in memory at once
MATTERING = "evidentia", "jax", "numpy", "numpyro"  # packages whose versions must agree

Versions = dict[str, str]


class Facts(NamedTuple):
    """What the driver needs to know of a partition.

    Attributes:
        num_rows, num_dropped: rows kept, and rows left out for missing values.
        kind: names, shapes and dtypes of its arrays; "" without rows.
        sums: sums of the hashes of its rows, by array (`data.fingerprint`).
    """

    num_rows: int
    num_dropped: int
    kind: str
    sums: Counter[str]


def versions() -> Versions:
    """The versions of what must agree between the driver and all workers."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python} | {name: version(name) for name in MATTERING}


def answer(
    partition: Any, needed: Versions, model: Model | bytes, function: Callable[..., Any], *args: Any
) -> Any:
    """`function(batches, model, *args)` of a partition.

    Raises:
        ConfigurationError: this worker has other versions than the driver.
    """
    for name, own in versions().items():
        if own != needed[name]:
            raise ConfigurationError(
                f"worker {platform.node()} has {name} {own}; this process has {needed[name]}. Install the same versions on "
                "all workers."
            )
    return function(_batches(partition), _unpickled(model) if isinstance(model, bytes) else model, *args)


def facts(batches: Iterator[Batch], model: Model) -> Facts:
    """The facts of a partition."""
    kept, dropped, kind, sums = 0, 0, "", Counter[str]()
    for batch in batches:
        dropped += batch.num_dropped
        if batch.num_rows:
            kept, kind = kept + batch.num_rows, described(batch.arrays)
            sums.update(sums_by_name(batch.arrays))
    return Facts(kept, dropped, kind, sums)


def some_rows(batches: Iterator[Batch], model: Model, wanted: Int[np.ndarray, " rows"]) -> Any:
    """The arrays of some rows, by their ascending numbers; None if none are wanted.

    Raises DataError if the model cannot use the partition, of which all rows are checked.
    """
    pieces, start = [], 0
    for batch in batches:
        if model.check_data is not None and batch.num_rows:
            model.check_data(batch.arrays)
        chosen = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        if len(chosen):
            pieces.append(map_arrays(lambda leaf, chosen=chosen: leaf[chosen], batch.arrays))
        start += batch.num_rows
    return map_arrays(lambda *leaves: np.concatenate(leaves), *pieces) if pieces else None


def log_likelihoods(
    batches: Iterator[Batch], model: Model, positions: Float[np.ndarray, "particles parameters"]
) -> Any:
    """Log-likelihood of all rows at every particle, in nats, float64; None without rows."""

    def look(bound: BoundModel, window: Window):
        deviations, offset = window.log_likelihoods(bound, jnp.asarray(positions))
        return deviations + offset

    return _sum(batches, model, look)


def exact_log_likelihoods(
    batches: Iterator[Batch], model: Model, positions: Float[np.ndarray, "particles parameters"]
) -> Any:
    """The same, computed in float64 too."""
    return _sum(batches, model, lambda bound, window: window.exact_log_likelihoods(bound, positions))


def expansion(
    batches: Iterator[Batch], model: Model, centre: Float[np.ndarray, " parameters"], hessian: bool
) -> Any:
    """Value, gradient and Hessian of the log-likelihood at a position; None without rows."""
    return _sum(batches, model, lambda bound, window: tuple(window.expand(bound, centre, hessian)[1:]))


def _sum(batches: Iterator[Batch], model: Model, look: Callable[[BoundModel, Window], Any]) -> Any:
    """The sum over batches of what `look` finds of each."""
    found = (
        look(model.bind(batch.arrays), Window(on_device(batch.arrays), 0, batch.num_rows))
        for batch in batches
        if batch.num_rows
    )
    return reduce(total, found, None)


def total(first: Any, second: Any) -> Any:
    """The sum of two answers, of which either may be None: of a partition without rows."""
    if first is None or second is None:
        return second if first is None else first
    return jax.tree.map(np.add, first, second)


def _batches(partition: Any) -> Iterator[Batch]:
    if isinstance(partition, Source):
        yield from recut(partition.batches(), BATCH_SIZE)
    else:
        arrays = as_arrays(partition, min_rows=0)
        yield Batch(arrays, num_rows(arrays))


@lru_cache(maxsize=8)
def _unpickled(model: bytes) -> Model:
    # The same object each time, which keeps what was traced.
    return pickle.loads(model)
