"""The order of work of a fleet: read a bounded number of data sets, group them, submit, yield."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax

from evidentia.data.arrays import as_arrays
from evidentia.data.source import Source
from evidentia.errors import DataError, EvidentiaError, ModelError, quietly
from evidentia.evidence.method import Method
from evidentia.fleet import jobs
from evidentia.fleet.folder import FleetFolder, fingerprint, record_of
from evidentia.fleet.jobs import BATCH, Alone, Dataset, Models, Outcome
from evidentia.fleet.progress import FleetUpdate, reporter
from evidentia.fleet.record import FleetRecord
from evidentia.model.model import Model


class Inline(Executor):
    """An executor that runs a job at once, in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The finished future of a call."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(frozen=True, eq=False)
class Schedule:
    """What a fleet computes and where.

    Attributes:
        models, method, seed, as_completed: as in `estimate_many`.
        executor: where jobs run.
        shipped: the models as a job takes them.
        total: number of data sets, if known.
    """

    models: Models
    method: Method | None
    seed: int
    executor: Executor
    shipped: Models | bytes
    as_completed: bool
    total: int | None

    @property
    def takes_arrays(self) -> bool:
        """Whether the data are arrays for all models, not tables."""
        return all(isinstance(model, Model) for model in self.models.values())

    @property
    def most_open(self) -> int:
        """Most data sets that are read and not yet yielded: two batches per processor."""
        return BATCH * 2 * max(2, os.cpu_count() or 1)


@dataclass
class _Open:
    """A data set that is read and not yet yielded."""

    dataset: Dataset
    fingerprint: str = ""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    record: FleetRecord | None = None


class _Job(NamedTuple):
    """What a future is about: data sets, and the models that it takes."""

    datasets: list[Dataset]
    models: tuple[str, ...]


@dataclass
class _State:
    """What is under way."""

    started: float
    open: dict[int, _Open] = field(default_factory=dict)  # by position
    groups: dict[Any, list[Dataset]] = field(default_factory=dict)  # by shape
    pending: dict[Future[Any], _Job] = field(default_factory=dict)
    is_read: bool = False
    num_read: int = 0
    num_done: int = 0
    num_errors: int = 0
    num_estimated: int = 0
    num_resumed: int = 0


def run(
    schedule: Schedule,
    items: Iterator[tuple[str | int, Any]],
    kept: AbstractContextManager[FleetFolder | None],
    progress: bool | Callable[[FleetUpdate], None],
) -> Iterator[FleetRecord]:
    """Yield the records of a fleet; see `estimate_many`."""
    state = _State(time.perf_counter())
    with reporter(progress) as report, kept as folder:
        try:
            while not state.is_read or state.open:
                _read(schedule, state, items, folder)
                _submit_groups(schedule, state)
                _collect(schedule, state)
                for one in _finished(schedule, state):
                    report(_count(state, one, schedule.total, folder))
                    yield one.record  # type: ignore[misc]
        finally:
            for future in state.pending:
                future.cancel()


def _read(schedule: Schedule, state: _State, items, folder: FleetFolder | None) -> None:
    """Read data sets, until enough are open or a batch is full."""
    while not state.is_read and len(state.open) < schedule.most_open:
        try:
            name, data = next(items)
        except StopIteration:
            state.is_read = True
            return
        one = state.open[state.num_read] = _Open(Dataset(state.num_read, name, data))
        state.num_read += 1
        try:
            key = _prepare(schedule, one, folder)
        except (DataError, ModelError) as error:
            one.record = record_of(name, {model: jobs.kept(error) for model in schedule.models})
            continue
        if one.record is not None:
            state.num_resumed += 1
        elif key is None:
            _submit_alone(schedule, state, one.dataset, dict.fromkeys(schedule.models, Alone()))
        else:
            state.groups.setdefault(key, []).append(one.dataset)
            if len(state.groups[key]) == BATCH:
                _submit_batch(schedule, state, state.groups.pop(key))
                return


def _prepare(schedule: Schedule, one: _Open, folder: FleetFolder | None) -> Any:
    """The key of the data set's batch, None for `estimate`; its record, if it is in the folder."""
    data = one.dataset.data
    if schedule.takes_arrays and not isinstance(data, Source):
        with quietly():
            data = as_arrays(data)
        one.dataset = one.dataset._replace(data=data)
    if folder is not None:
        if isinstance(data, Source):
            raise DataError("data of a fleet with a folder must be in memory; got a source.")
        one.fingerprint = fingerprint(data)
        for name, model in schedule.models.items():
            folder.settle(*_identity(name, model, data))
        one.record = folder.find(one.dataset.name, one.fingerprint, tuple(schedule.models))
    is_batched = schedule.method is None and schedule.takes_arrays and not isinstance(data, Source)
    return jobs.shape_of(data) if is_batched and jobs.is_small(data) else None


def _identity(name: str, model: Any, data: Any) -> tuple[str, str]:
    """A model on data of some shape, in words, and a hash of what it computes there."""
    if not isinstance(model, Model):
        return f"models[{name!r}]", repr(model)
    leaves, structure = jax.tree.flatten(data)
    shapes = ", ".join(f"{leaf.dtype} {('n', *leaf.shape[1:])}" for leaf in leaves)
    try:
        identity = model.bind(data).identity
    except EvidentiaError:  # each task says what is wrong
        identity = "unusable"
    return f"models[{name!r}] on {structure} of {shapes}", identity


def _submit_groups(schedule: Schedule, state: _State) -> None:
    """Submit incomplete batches, if nothing else can go on."""
    is_stuck = state.is_read or (not state.pending and len(state.open) >= schedule.most_open)
    if is_stuck:
        for datasets in state.groups.values():
            _submit_batch(schedule, state, datasets)
        state.groups.clear()


def _submit_batch(schedule: Schedule, state: _State, datasets: list[Dataset]) -> None:
    future = _submitted(schedule, run_batch, schedule.shipped, datasets, schedule.seed)
    state.pending[future] = _Job(datasets, tuple(schedule.models))


def _submit_alone(schedule: Schedule, state: _State, dataset: Dataset, alone: dict[str, Alone]) -> None:
    reasons = {name: each.reason for name, each in alone.items()}
    words = schedule.shipped, dataset, reasons, schedule.method, schedule.seed
    state.pending[_submitted(schedule, run_alone, *words)] = _Job([dataset], tuple(alone))


def _submitted(schedule: Schedule, function: Callable[..., Any], *words: Any) -> Future[Any]:
    """The future of a call; one with an error, if the executor takes no more work."""
    try:
        return schedule.executor.submit(function, *words)
    except Exception as error:
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


def _collect(schedule: Schedule, state: _State) -> None:
    """Take up the outcomes of jobs that are done; wait for one, if there is nothing else to do."""
    heads = list(state.open.values())[: None if schedule.as_completed else 1]
    can_yield = any(one.record is not None for one in heads)
    can_read = not state.is_read and len(state.open) < schedule.most_open
    done, _ = wait(
        state.pending, timeout=0 if can_yield or can_read else None, return_when=FIRST_COMPLETED
    )  # fmt: skip
    for future in done:
        job = state.pending.pop(future)
        for dataset, outcomes in zip(job.datasets, _outcomes(future, job), strict=True):
            _take_up(schedule, state, state.open[dataset.position], outcomes)


def _take_up(schedule: Schedule, state: _State, one: _Open, outcomes: dict[str, Outcome]) -> None:
    """Add outcomes of a data set, and submit what they leave to `estimate`."""
    one.outcomes.update(outcomes)
    alone = {name: each for name, each in outcomes.items() if isinstance(each, Alone)}
    if alone:
        _submit_alone(schedule, state, one.dataset, alone)
        return
    in_order = {name: one.outcomes[name] for name in schedule.models}
    one.record = record_of(one.dataset.name, in_order)  # type: ignore[arg-type]


def _outcomes(future: Future[Any], job: _Job) -> list[dict[str, Outcome]]:
    """The outcomes of a job by data set; the error for all its tasks, if the job itself failed."""
    try:
        return future.result()
    except Exception as error:
        return [dict.fromkeys(job.models, jobs.kept(error)) for _ in job.datasets]


def _finished(schedule: Schedule, state: _State) -> Iterator[_Open]:
    """Take out the records that may be yielded now."""
    for position, one in list(state.open.items()):
        if one.record is not None:
            del state.open[position]
            yield one
        elif not schedule.as_completed:
            return


def _count(state: _State, one: _Open, total: int | None, folder: FleetFolder | None) -> FleetUpdate:
    assert one.record is not None
    state.num_done += 1
    state.num_errors += len(one.record.errors)
    ways = [evidence.diagnostics.get("way") for evidence in one.record.evidences.values()]
    state.num_estimated += ways.count("estimate")
    if folder is not None and one.outcomes:
        folder.keep(one.record, one.fingerprint)
    seconds = time.perf_counter() - state.started
    return FleetUpdate(
        state.num_done, total, state.num_errors, state.num_estimated, state.num_resumed, seconds
    )


# --- In the worker -------------------------------------------------------------------------------


def run_batch(shipped: Models | bytes, datasets: list[Dataset], seed: int) -> list[dict[str, Outcome]]:
    """`jobs.run_batch` with models that may be pickled."""
    return jobs.run_batch(_unpacked(shipped), datasets, seed)


def run_alone(
    shipped: Models | bytes, dataset: Dataset, reasons: dict[str, str], method: Method | None, seed: int
) -> list[dict[str, Outcome]]:
    """`jobs.run_alone` with models that may be pickled, in the form of a batch of one."""
    return [jobs.run_alone(_unpacked(shipped), dataset, reasons, method, seed)]


def _unpacked(shipped: Models | bytes) -> Models:
    return _unpickled(shipped) if isinstance(shipped, bytes) else shipped


@lru_cache(maxsize=2)
def _unpickled(pickled: bytes) -> Models:
    """The models, once per process: traced again for every job, they would take a second each."""
    return pickle.loads(pickled)
