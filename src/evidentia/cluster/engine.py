"""The protocol of an engine, which calls functions of partitions, and how its errors read here."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from evidentia.errors import ConfigurationError, DataError, EstimationError, EvidentiaError
from evidentia.model.model import Model
from evidentia.system.interruption import check

SHORTEST_WAIT, LONGEST_WAIT = 0.001, 0.05  # seconds between two looks at whether a task has ended

# By class name, so that neither Dask nor Ray is imported to recognise them.
DIED = (
    "KilledWorker",
    "WorkerCrashedError",
    "NodeDiedError",
    "OutOfMemoryError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "BrokenProcessPool",
)
DISCONNECTED = (
    "CancelledError",
    "ClosedClientError",
    "CommClosedError",
    "FutureCancelledError",
    "FuturesCancelledError",
)


@runtime_checkable
class Task(Protocol):
    """A call under way, like a `concurrent.futures.Future`."""

    def result(self) -> Any:
        """Its result; raises what the call raised."""
        ...

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def cancel(self) -> Any:
        """Cancel it, if it has not ended."""
        ...


@runtime_checkable
class Engine(Protocol):
    """The partitions of some rows, and workers that call functions of them."""

    def submit(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Sequence[Task]:
        """Start `function(partition, *args)` for every partition, where it is.

        With `each`, the last argument is that of the partition.
        """
        ...

    def shipped(self, model: Model) -> Model | bytes:
        """A model as calls carry it: pickled, or itself for threads. Raises if that fails."""
        ...


@dataclass(frozen=True, eq=False)
class Made:
    """An engine whose partitions are made of those of another, at the workers, for each call."""

    engine: Engine
    make: Callable[[Any], Any]

    def submit(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> Sequence[Task]:
        """As `Engine.submit`."""
        return self.engine.submit(_called, self.make, function, *args, each=each)

    def shipped(self, model: Model) -> Model | bytes:
        """As `Engine.shipped`."""
        return self.engine.shipped(model)


def _called(partition: Any, make: Callable[[Any], Any], function: Callable[..., Any], *args: Any) -> Any:
    return function(make(partition), *args)


def results(
    engine: Engine, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
) -> Iterator[Any]:
    """Yield the results of `Engine.submit` in the order of the partitions.

    What is left is cancelled if the caller stops, also by Ctrl-C.

    Raises:
        EvidentiaError: what the function raised, with the number of the partition.
        DataError: a partition cannot be read.
        EstimationError: workers died or are absent, or the connection to them was lost.
        ConfigurationError: a worker lacks a module.
    """
    tasks = deque(engine.submit(function, *args, each=each))
    number = 0
    try:
        while tasks:
            yield _result(tasks[0], number)
            tasks.popleft()
            number += 1
    finally:
        for task in tasks:
            with suppress(Exception):  # of a connection that was lost, which is the news
                task.cancel()


def _result(task: Task, number: int) -> Any:
    # Not result(timeout): a wait that times out while the task ends raises errors of its own,
    # a TimeoutError that may be the task's, or in Dask an UnboundLocalError.
    wait = SHORTEST_WAIT
    while not task.done():
        check()
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)
    try:
        return task.result()
    except Exception as error:
        raise _translated(error, number) from error


def _translated(error: Exception, number: int) -> EvidentiaError:
    """The error as this package's, with the number of the partition."""
    cause = getattr(error, "cause", None)  # Ray wraps what a task raised
    found = cause if isinstance(cause, Exception) else error
    name = type(found).__name__
    if isinstance(found, EvidentiaError):
        return type(found)(f"partition {number}: {found}")
    if isinstance(found, ModuleNotFoundError):
        return ConfigurationError(
            f"a worker lacks a module of this process: {found}. Install the same packages on all workers, evidentia too; "
            "define the model's functions in the program, or in a module that the workers have."
        )
    if name in DIED:
        return EstimationError(
            f"the workers that had partition {number}, perhaps beside others, died each time it was tried ({name}). The likely "
            "cause is lack of memory: make the partitions smaller, or give each worker more memory."
        )
    if name in DISCONNECTED:
        return EstimationError(
            f"the connection to the cluster was lost at partition {number} ({name}). Check that its scheduler runs, and "
            "estimate again."
        )
    if name == "NoWorkerError":
        return EstimationError(
            f"the cluster had no workers for longer than its no-workers-timeout, at partition {number}. A local cluster does "
            "not start workers again that died too often; the likely cause is lack of memory."
        )
    return DataError(f"partition {number} cannot be read, after retries: {name}: {found}")
