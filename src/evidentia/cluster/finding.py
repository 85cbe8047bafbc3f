"""Which engine some data need, told without importing Dask or Ray."""

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from evidentia.cluster.engine import Engine
from evidentia.cluster.over_executor import OverExecutor
from evidentia.cluster.ray_executor import over_dataset
from evidentia.data.source import Source
from evidentia.errors import ConfigurationError, DataError


def engine_of(data: Any, executor: Executor | None) -> Engine | None:
    """The engine for rows on a cluster, or for a source and an executor; None for other data.

    Raises:
        ConfigurationError: no cluster is connected, or a package is not installed; an executor
            that cannot be used.
        DataError: an executor for data that are not a source.
    """
    if isinstance(data, Engine):
        return data
    if executor is not None:
        if not isinstance(data, Source):
            raise DataError(
                "data must be a source, such as read_parquet returns, to be spread over an executor; got "
                f"{type(data).__name__}."
            )
        return OverExecutor.of_source(executor, data)
    package = _package(data)
    if package == "dask":
        return _over_dask(data)
    return over_dataset(data) if package == "ray" else None


def is_far(data: Any) -> bool:
    """Whether data are collections of Dask or Ray."""
    return bool(_package(data))


def _package(data: Any) -> str:
    """The package whose collections the data are; "" for none."""
    members = data.values() if isinstance(data, Mapping) else data if isinstance(data, tuple) else (data,)
    packages = {type(one).__module__.split(".")[0] for one in members}
    return next((name for name in ("dask", "ray") if name in packages), "")


def _over_dask(data: Any) -> Engine:
    try:
        from evidentia.cluster.over_dask import OverDask
    except ImportError as error:
        raise ConfigurationError(
            f"data of Dask need a package that is not installed ({error.name}): pip install 'evidentia[dask]'."
        ) from error
    return OverDask.of(data)
