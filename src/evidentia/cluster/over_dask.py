"""Dask collections as partitions: every look is a graph over them, computed by the cluster.

A collection that is persisted stays in the workers' memory; of any other, each look computes the
partitions anew. If a worker dies, Dask computes elsewhere what it had.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
from dask.delayed import delayed
from distributed import Client, get_client

from evidentia.cluster.engine import Task
from evidentia.errors import ConfigurationError, DataError
from evidentia.model.model import Model

RETRIES = 2  # of a partition that failed


@dataclass(frozen=True, eq=False)
class OverDask:
    """The partitions of a collection, as delayed values, and the client of a cluster."""

    client: Client
    partitions: Sequence[Any]

    @classmethod
    def of(cls, data: Any) -> "OverDask":
        """A data frame, or a tuple or mapping of data frames, series and arrays.

        Raises:
            ConfigurationError: there is no cluster.
            DataError: the collections have other numbers of partitions.
        """
        if isinstance(data, Mapping):
            return cls(_client(), _together(data, lambda *parts: dict(zip(data, parts, strict=True))))
        if isinstance(data, tuple):
            return cls(_client(), _together(dict(enumerate(data)), lambda *parts: parts))
        return cls(_client(), _delayed(data))

    def submit(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> list[Task]:
        """As `Engine.submit`, in one graph that holds the arguments once."""
        call = delayed(function, pure=False)
        shared = [delayed(argument, pure=False, traverse=False) for argument in args]
        own = [()] * len(self.partitions) if each is None else [(one,) for one in each]
        tasks = [
            call(partition, *shared, *last) for partition, last in zip(self.partitions, own, strict=True)
        ]
        return list(self.client.compute(tasks, retries=RETRIES, optimize_graph=False))  # type: ignore[arg-type]

    def shipped(self, model: Model) -> bytes:
        """As `Engine.shipped`; functions of the program go by value."""
        return cloudpickle.dumps(model)


def _client() -> Client:
    try:
        client = get_client()
    except ValueError as error:
        raise ConfigurationError(
            "data of Dask need a cluster, and no client is connected to one. Make one first: client = "
            "dask.distributed.Client(address), or Client() for this machine."
        ) from error
    if client.status != "running":
        raise ConfigurationError(f"the client of Dask is {client.status}; connect it to a scheduler.")
    return client


def _together(collections: Mapping[Any, Any], make: Callable[..., Any]) -> list[Any]:
    """Partitions of several collections whose rows belong together."""
    parts = {name: _delayed(collection) for name, collection in collections.items()}
    counts = {name: len(each) for name, each in parts.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"data[{name!r}] has {count}" for name, count in counts.items())
        raise DataError(
            f"all collections of data must have the same partitions; {listed}. Repartition or rechunk them alike."
        )
    return [delayed(make, pure=False)(*each) for each in zip(*parts.values(), strict=True)]


def _delayed(collection: Any) -> list[Any]:
    if hasattr(collection, "chunks"):  # an array: whole rows in each chunk
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        return collection.to_delayed().ravel().tolist()
    if not hasattr(collection, "to_delayed"):
        raise DataError(
            f"all collections of data must be of Dask; got {type(collection).__name__} among them."
        )
    # Not fused, frames of the same rows share the steps that make them.
    return list(collection.optimize(fuse=False).to_delayed(optimize_graph=False))
