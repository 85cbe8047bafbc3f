"""Any executor of `concurrent.futures` as an engine: its calls carry the partitions."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from evidentia.cluster.engine import Task
from evidentia.data.batches import Batch
from evidentia.data.source import Source
from evidentia.errors import ConfigurationError, DataError
from evidentia.model.model import Model

ROWS_PER_PARTITION = 1_000_000


@dataclass(frozen=True)
class RowsOf:
    """The rows `start <= row < stop` of a source, as a source that any process can read."""

    source: Source
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        """The number of rows, including those with missing values."""
        return self.stop - self.start

    def batches(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the rows after the first `skip`. Raises like `Source`."""
        left = self.num_rows - skip
        for batch in self.source.batches(self.start + skip):
            if batch.num_read >= left:
                yield _first(batch, left)
                return
            left -= batch.num_read
            yield batch
        raise DataError(f"the data end before row {self.stop:,}; they have changed since they were opened.")


def _first(batch: Batch, count: int) -> Batch:
    """The first `count` rows that were read, without the dropped ones."""
    if batch.indices is None:
        return batch.part(0, count)
    kept = batch.indices[batch.indices < count]
    return Batch(batch.part(0, len(kept)).arrays, count, kept)


@dataclass(frozen=True, eq=False)
class OverExecutor:
    """Partitions that go to an executor with each call.

    Attributes:
        executor: of `concurrent.futures`, or alike.
        partitions: what the first argument of a function becomes at the worker.
    """

    executor: Executor
    partitions: Sequence[Any]

    @classmethod
    def of_source(cls, executor: Executor, source: Source) -> "OverExecutor":
        """The rows of a source, which workers read again for each call.

        Raises:
            ConfigurationError: as `check_executor`.
            DataError: the number of rows is unknown.
        """
        check_executor(executor)
        total = source.num_rows
        if total is None:
            raise DataError(
                "data must be a source that knows its number of rows, such as read_parquet returns, to be spread over an "
                "executor."
            )
        starts = range(0, total, ROWS_PER_PARTITION)
        return cls(
            executor, [RowsOf(source, start, min(start + ROWS_PER_PARTITION, total)) for start in starts]
        )

    def submit(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> list[Task]:
        """As `Engine.submit`."""
        own = [()] * len(self.partitions) if each is None else [(one,) for one in each]
        return [
            self.executor.submit(function, partition, *args, *last)
            for partition, last in zip(self.partitions, own, strict=True)
        ]

    def shipped(self, model: Model) -> Model | bytes:
        """As `Engine.shipped`; where this program does not run, its functions go by value."""
        if isinstance(self.executor, ThreadPoolExecutor):
            return model
        runs_program = isinstance(self.executor, ProcessPoolExecutor)
        return (pickle if runs_program else import_module("cloudpickle")).dumps(model)


def check_executor(executor: Any) -> None:
    """Raise ConfigurationError unless calls can be submitted to it, and it does not fork."""
    if not callable(getattr(executor, "submit", None)):
        raise ConfigurationError(
            f"executor must have the method submit of concurrent.futures.Executor; got {executor!r}."
        )
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ConfigurationError(
            "executor must not fork this process, whose JAX has threads: forked workers can hang. Use "
            "ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))."
        )
