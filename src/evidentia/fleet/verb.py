"""`estimate_many`: the evidence of every model for every one of many data sets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from evidentia.cluster.over_executor import check_executor
from evidentia.errors import ConfigurationError, DataError, ModelError, check_seed, kind_of
from evidentia.estimation.estimate import Question
from evidentia.evidence.method import Method
from evidentia.fleet.folder import FleetFolder
from evidentia.fleet.jobs import Models
from evidentia.fleet.progress import FleetUpdate
from evidentia.fleet.record import FleetRecord
from evidentia.fleet.schedule import Inline, Schedule, run
from evidentia.model.model import Model
from evidentia.system.sharing import check_not_forked


def estimate_many(
    models: Model | Question | Mapping[str, Model | Question],
    datasets: Mapping[str, Any] | Iterable[Any],
    *,
    method: Method | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    as_completed: bool = False,
    folder: str | Path | None = None,
    progress: bool | Callable[[FleetUpdate], None] = False,
) -> Iterator[FleetRecord]:
    """Estimate the log evidence of every model for every data set, in nats.

    Data sets of up to 2,000 rows whose shapes agree, but for a similar number of rows, are
    estimated 64 at a time by one compiled program: importance sampling from Student t's at the
    mode. Whatever that program cannot vouch for (several modes, uneven or heavy-tailed weights, a
    search that does not converge, a model with symmetries or more than 30 parameters) is left to
    `estimate`, and so is everything if `method` is given. Standard errors are as in `estimate`.

    Args:
        models: one model, or models by name.
        datasets: data sets by name, or any iterable of data sets, such as a generator that is
            longer than memory: a bounded number is held at a time. Each is what `estimate` takes.
        method: a configuration with which `estimate` runs all tasks; by default, batches.
        seed: the same seed gives the same numbers for a data set, by its name or position, with
            every executor and in every order.
        executor: of `concurrent.futures`, or alike, to which batches are submitted; by default
            they run in this thread, when the next record is asked for. It is not shut down.
            Processes must be started afresh ("spawn"), with models whose functions are defined at
            the top level of a module.
        as_completed: yield records as they come, not in the order of the data sets.
        folder: where finished records are kept, as Parquet files; may be a URL. A later call with
            it skips the data sets that are there, unless their data have changed.
        progress: True for a bar on standard error, or a function that is called with a
            `FleetUpdate` after each data set.

    Returns:
        An iterator over one `FleetRecord` per data set. Errors of single tasks are kept in it. If
        it is closed, or interrupted with Ctrl-C, pending work is cancelled.

    Raises:
        ConfigurationError, ModelError, DataError: an argument is invalid.
        CheckpointError: `folder` is of a fleet with other models, another method or seed.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> models = {"linear": linear, "student-t": student_t}  # doctest: +SKIP
        >>> with ThreadPoolExecutor(2) as executor:  # doctest: +SKIP
        ...     for record in ev.estimate_many(models, series, executor=executor):
        ...         print(record.name, record.comparison.best)

    Source: the batches, Geweke (1989), Econometrica 57, 1317 (importance sampling from a
        multivariate t); `fleet/batched.py` has the equations.
    """
    check_not_forked()
    named = _checked_models(models)
    if method is not None and (isinstance(method, type) or not isinstance(method, Method)):
        raise ConfigurationError(f"method must be a configuration such as SGAIS(); got {method!r}.")
    check_seed(seed)
    items, total = _items(datasets)
    schedule = Schedule(
        named,
        method,
        int(seed),
        executor=Inline() if executor is None else executor,
        shipped=_shipped(named, executor),
        as_completed=as_completed,
        total=total,
    )
    settings = {"seed": str(int(seed)), "method": repr(method), "models": ", ".join(sorted(named))}
    kept = nullcontext(None) if folder is None else FleetFolder(folder, settings)
    return run(schedule, items, kept, progress)


def _checked_models(models: Any) -> Models:
    if isinstance(models, type) or not isinstance(models, Mapping | Model | Question):
        raise ModelError(
            f"models must be an evidentia.Model or a Regression, or map names to them; got {kind_of(models)}."
        )
    is_mapping = isinstance(models, Mapping)
    named = cast("Mapping[Any, Any]", models if is_mapping else {getattr(models, "name", "model"): models})
    if not named:
        raise ModelError("models must be a model, or map at least one name to a model; got an empty mapping.")
    for name, model in named.items():
        if not isinstance(name, str):
            raise ModelError(f"the names in models must be strings; got {name!r}.")
        if isinstance(model, type) or not isinstance(model, Model | Question):
            raise ModelError(
                f"models[{name!r}] must be an evidentia.Model or a Regression; got {kind_of(model)}."
            )
    return dict(named)


def _items(datasets: Any) -> tuple[Iterator[tuple[str | int, Any]], int | None]:
    """Names or positions with data, lazily, and their number if known."""
    if isinstance(datasets, Mapping):
        named = cast("Mapping[Any, Any]", datasets)
        if unnamed := [name for name in named if not isinstance(name, str)]:
            raise DataError(f"the names in datasets must be strings; got {unnamed[0]!r}.")
        return ((name, named[name]) for name in named), len(named)
    if isinstance(datasets, str) or hasattr(datasets, "columns") or not hasattr(datasets, "__iter__"):
        raise DataError(
            "datasets must be a mapping of names to data, or an iterable of data sets; got "
            f"{type(datasets).__name__}."
        )
    unnamed = cast("Iterable[Any]", datasets)
    return enumerate(unnamed), len(datasets) if hasattr(datasets, "__len__") else None


def _shipped(models: Models, executor: Any) -> Models | bytes:
    """The models as they go to the executor: pickled once for processes, which keep them."""
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return models
    check_executor(executor)
    for name, model in models.items():
        try:
            pickle.dumps(model)
        except Exception as error:
            if not isinstance(executor, ProcessPoolExecutor):
                return models  # the executor may have a pickler of its own, as Dask has
            raise ModelError(
                f"models[{name!r}] cannot be sent to another process: {error}. Define its functions at the top level of a "
                "module, not inside a function or as a lambda; or use a ThreadPoolExecutor."
            ) from error
    return pickle.dumps(models)
