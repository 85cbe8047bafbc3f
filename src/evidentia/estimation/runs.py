"""Runs of a method over arrays in memory, on many devices or on a cluster, or over a source."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from evidentia.cluster.engine import Engine
from evidentia.cluster.rows import gathered
from evidentia.data.arrays import num_rows, on_device, shuffled
from evidentia.data.arrivals import read_ahead
from evidentia.data.batches import all_rows, recut
from evidentia.data.fingerprint import fingerprints, sums_by_name
from evidentia.data.sharded import Sharded, axes_of, in_place, placed, sharding_of
from evidentia.data.source import Source
from evidentia.display.progress import Update
from evidentia.errors import (
    ConfigurationError,
    DataError,
    EstimationError,
    EvidentiaError,
    UnfinishedError,
)
from evidentia.estimation.array_run import ArrayRun, stopped_after
from evidentia.evidence.laplace import Laplace
from evidentia.evidence.method import Method
from evidentia.evidence.sgais import SGAIS
from evidentia.model.bound import BoundModel, Observations
from evidentia.model.gaussian_process import GaussianProcess
from evidentia.model.local import Integrated
from evidentia.model.model import Model
from evidentia.model.recursion import Recursion, undefined_step
from evidentia.online.online import Online
from evidentia.posterior.rows import Window
from evidentia.posterior.shards import Shards
from evidentia.posterior.units import Units, bound_to
from evidentia.results.result import Evidence
from evidentia.system.interruption import TimeOver, check, hearing_ctrl_c

NUM_DRAWS = 64  # from the prior, at which an error looks for undefined log predictives
NUM_COPIED = 16_384  # rows that every process copies: sums over so few take less time than their collectives
ON_ROWS_ELSEWHERE = SGAIS, Laplace  # the methods for rows on many devices or on a cluster


class Runs(NamedTuple):
    """Runs over some data.

    Attributes:
        start: a run of a method.
        log_likelihood: as the model is bound to the data: latents may be integrated out.
        num_rows: of the data; None for a source.
        is_constant: whether the log-likelihood uses no parameter; False for a source, read later.
        note: what explains an error of a run: how rows are numbered, or where a recursion fails.
        fingerprints: of the data, by array; none for a source.
    """

    start: Callable[[Method], ArrayRun | SourceRun]
    log_likelihood: Any
    num_rows: int | None = None
    is_constant: bool = False
    note: Callable[[], str] = str
    fingerprints: Mapping[str, str] = {}


def runs_over(
    model: Model,
    data: Any,
    seed: int,
    in_order: bool,
    elsewhere: NamedSharding | Engine | None,
    started: float,
) -> Runs:
    """Runs over the data, which may be on many devices or on a cluster."""
    if isinstance(elsewhere, NamedSharding):
        return _spread_runs(model, data, elsewhere, seed, started)
    if elsewhere is not None:
        found = gathered(elsewhere, model, seed)
        return _array_runs(model.bind(found.some), found.rows, found.fingerprints, seed, started)
    if isinstance(data, Source):
        return Runs(partial(SourceRun, model, data, seed, started), model.log_likelihood)
    found = bound_to(model, data)
    known, arrays = fingerprints(sums_by_name(found.data)), found.arrays
    if found.reason is not None:
        window = Window(jax.tree.map(jnp.asarray, arrays), 0, 1)
    else:
        arrays = arrays if in_order else shuffled(arrays, seed)
        count = num_rows(arrays)
        # Packs are not padded: each is expensive, and their shapes share no compiled programs.
        is_packed = found.levels is not None
        window = Window(jax.tree.map(jnp.asarray, arrays) if is_packed else on_device(arrays), 0, count)
    runs = _array_runs(found.model, window, known, seed, started, found)
    if isinstance(model.log_likelihood, Recursion):
        return runs._replace(note=partial(_undefined, found.model, model.log_likelihood, found.data))
    if isinstance(model.log_likelihood, GaussianProcess):
        return runs._replace(note=partial(_singular, found.model, arrays))
    is_shuffled = not in_order and found.reason is None
    return runs._replace(note=partial(_shuffled_numbers, runs)) if is_shuffled else runs


def _undefined(bound: BoundModel, recursion: Recursion, data: Any) -> str:
    """Where a recursion is undefined at draws from the prior, for an error."""
    params = bound.constrain(bound.sample_prior(jax.random.key(0), NUM_DRAWS))
    found = undefined_step(recursion, params, data)
    if found is None:
        return ""
    draw, sequence, row = found
    of_sequence = "" if recursion.is_one else f" of sequence {sequence}"
    return (
        f"The log predictive of row {row}{of_sequence} is not finite at the draw {_written(params, draw)} from the "
        "prior."
    )


def _singular(bound: BoundModel, arrays: Any) -> str:
    """Where the covariance matrix of a Gaussian process has no Cholesky factor, for an error."""
    positions = bound.sample_prior(jax.random.key(0), NUM_DRAWS)
    values = jax.lax.map(lambda one: bound.log_likelihood(one, arrays)[0], positions)
    is_undefined = np.isnan(np.asarray(values))
    what = "NaN is the log-likelihood of a covariance matrix without a Cholesky factor in float64"
    if is_undefined.any():
        draw = _written(bound.constrain(positions), is_undefined.argmax())
        what = f"The covariance matrix has no Cholesky factor in float64 at the draw {draw} from the prior"
    return (
        f"{what}: it is singular to rounding. Add noise (noise=True, or data['yerr']), or use a rougher kernel; y that is constant, "
        "or exactly smooth, leaves no noise."
    )


def _written(params: Any, draw: Any) -> str:
    """The parameters of a draw, for messages."""
    return ", ".join(
        f"{name}={np.array2string(np.asarray(one[draw]), precision=4)}" for name, one in params.items()
    )


def _shuffled_numbers(runs: Runs) -> str:
    if isinstance(runs.log_likelihood, Integrated) and runs.log_likelihood.groups is not None:
        return "Numbered are packs of whole groups, in random order."
    return "Rows are numbered in random order; with in_order=True, in yours."


def _spread_runs(model: Model, data: Any, sharding: NamedSharding, seed: int, started: float) -> Runs:
    """Runs over rows that are, or are to be, spread over devices."""
    if isinstance(data, Source):
        data = all_rows(data.batches())
    place = placed if sharding_of(data) is None else in_place
    window, first_rows = spread_window(place(data, sharding, seed, model.check_data))
    return _array_runs(model.bind(first_rows), window, {}, seed, started)


def spread_window(rows: Sharded) -> tuple[Window, Observations]:
    """The window of all rows, and its first rows as NumPy arrays, the same in every process."""
    shards = Shards.of(rows.sharding.mesh, axes_of(rows.sharding), rows.counts)
    size = int(np.sum(rows.counts, dtype=np.int64))
    copies = shards.fetch(rows.arrays, np.arange(min(size, NUM_COPIED)))
    head = Window(on_device(copies), 0, len(jax.tree.leaves(copies)[0]))
    return Window(rows.arrays, 0, size, shards=shards, head=head), copies


def _array_runs(
    bound: BoundModel,
    rows: Any,
    known: Mapping[str, str],
    seed: int,
    started: float,
    units: Units | None = None,
) -> Runs:
    count = rows.num_observations if units is None else units.num_rows
    start = partial(ArrayRun, bound, rows, known, seed, started, units=units)
    return Runs(start, bound.densities.pointwise, count, bound.is_constant, fingerprints=known)


def check_elsewhere(method: Method, in_order: bool) -> None:
    """Raise ConfigurationError unless a method can use rows on many devices or on a cluster."""
    if not isinstance(method, ON_ROWS_ELSEWHERE):
        names = " and ".join(f"{one.__name__}()" for one in ON_ROWS_ELSEWHERE)
        raise ConfigurationError(
            f"method must be one of {names} for rows on many devices or on a cluster; got {method!r}."
        )
    if in_order:
        raise ConfigurationError(
            "in_order=True needs rows on one device: rows on many devices or on a cluster have no order. Leave it out."
        )


def drive(
    run: ArrayRun | SourceRun, report: Callable[[Update], None], step: Callable[[], Any] = nullcontext
) -> tuple[Evidence, list[str]]:
    """The result of a run, also of an interrupted one, and what the user should know about it.

    Each step of the run is made within a `step()`.
    """
    updates = run.updates()
    try:
        with hearing_ctrl_c():
            while True:
                with step():
                    update = next(updates, None)
                if update is None:
                    break
                report(update)
                check()
    except KeyboardInterrupt as stop:
        evidence = run.evidence(completed=False)
        if evidence is None and isinstance(stop, TimeOver):
            raise TimeOver(f"{stop} before {run.unfinished()}") from None
        if evidence is None:
            raise
        reason = f"{stop}: " if isinstance(stop, TimeOver) else ""
        return evidence, [f"{reason}{run.stopped()}"]
    except EvidentiaError as error:
        evidence = run.evidence(completed=False)
        if isinstance(error, UnfinishedError) and evidence is not None:
            return evidence, [str(error)]
        error.evidence = evidence
        raise
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        asked = re.search(r"(\d+) bytes", str(error))
        size = f" of {int(asked[1]) / 2**30:,.1f} GiB" if asked else ""
        raise EstimationError(
            f"there is not enough memory: an array{size} was asked for. Use fewer particles, or a smaller part of the data."
        ) from error
    evidence = run.evidence(completed=True)
    assert evidence is not None
    return evidence, []


class SourceRun:
    """A run over a source that is read once, in order, in batches, by an `Online`."""

    def __init__(
        self,
        model: Model,
        source: Source,
        seed: int,
        started: float,
        method: Method,
        batch_size: int = 65_536,
    ):
        self._source, self._started, self._batch_size = source, started, batch_size
        self._online = Online(model, method, seed=seed)  # type: ignore[arg-type]
        self._num_dropped = 0
        self._sums: Counter[str] = Counter()  # of the hashes of the rows so far

    def updates(self) -> Iterator[Update]:
        """Yield an update after each batch, and redraw the particles at the end."""
        num_steps, online = 0, self._online
        for batch in read_ahead(recut(self._source.batches(), self._batch_size)):
            self._num_dropped += batch.num_dropped
            if not batch.num_rows:
                continue
            update = online.update(batch.arrays)
            self._sums.update(sums_by_name(batch.arrays))
            num_steps += update.num_annealing_steps
            yield Update(
                update.num_observations,
                self._source.num_rows,
                update.log_evidence,
                update.standard_error,
                num_steps,
                time.perf_counter() - self._started,
            )
        if not online.num_observations:
            raise DataError("data must have at least one observation; the source has none.")
        if isinstance(online.method, SGAIS) and online.method.refresh:
            online.redraw()

    def evidence(self, *, completed: bool) -> Evidence | None:
        """The result for the rows so far."""
        if not self._online.num_observations:
            return None
        found = self._online.result()
        return replace(
            found,
            seconds=time.perf_counter() - self._started,
            completed=completed,
            diagnostics={**found.diagnostics, "num_dropped": self._num_dropped},
            fingerprints=fingerprints(self._sums),
        )

    def unfinished(self) -> str:
        """What a run lacks that was stopped before its first result."""
        return f"the first batch of {self._batch_size:,} rows was processed."

    def stopped(self) -> str:
        """A sentence with the number of rows."""
        return stopped_after(self._online.num_observations, self._source.num_rows)
