"""Ray as an executor, and its datasets as partitions."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any

from evidentia.cluster.over_executor import OverExecutor
from evidentia.errors import ConfigurationError, DataError

RETRIES = 2  # of a call whose worker died, or that could not read


class RayExecutor(Executor):
    """An executor whose calls are Ray tasks, on the cluster that `ray.init` has joined.

    Arguments that are Ray's object references become their values at the worker. A call whose
    worker died is tried again. Cancelling a future ends its task, with its worker if it runs.

    Args:
        options: those of a Ray task, such as `num_cpus`.

    Raises:
        ConfigurationError: Ray is not installed, or `ray.init` has not been called.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> ray.init()  # doctest: +SKIP
        >>> records = ev.estimate_many(model, series, executor=RayExecutor())  # doctest: +SKIP
    """

    def __init__(self, **options: Any):
        ray = _ray()
        if not ray.is_initialized():
            raise ConfigurationError("RayExecutor needs a cluster: call ray.init() first.")
        retries: dict[str, Any] = {"max_retries": RETRIES, "retry_exceptions": [OSError]}
        self._call = ray.remote(_call).options(**(retries | options))
        self._cancel = ray.cancel

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of `fn(*args, **kwargs)` at some worker."""
        reference = self._call.remote(fn, *args, **kwargs)
        future: Future[Any] = reference.future()

        def cancel_if_cancelled(future: Future[Any]) -> None:
            if future.cancelled():
                self._cancel(reference, force=True)  # an interrupt alone waits for compiled code to end

        future.add_done_callback(cancel_if_cancelled)
        return future


def over_dataset(dataset: Any) -> OverExecutor:
    """The blocks of a Ray dataset, which stay in Ray's object store."""
    if not hasattr(dataset, "to_numpy_refs"):
        raise DataError(
            "data of Ray must be one dataset, whose columns are the model's arrays; got a tuple or mapping. Use "
            "map_batches or zip."
        )
    return OverExecutor(RayExecutor(), dataset.to_numpy_refs())


def _call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


def _ray() -> Any:
    try:
        return import_module("ray")  # not checked by pyright: Ray is no part of the tests' extra
    except ImportError as error:
        raise ConfigurationError("Ray is not installed: pip install 'evidentia[ray]'.") from error
