"""`estimate`: the log evidence of a model from data, in one call; runs a method."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
from jax.sharding import NamedSharding

from evidentia.data.arrays import as_arrays, num_rows, on_device, shuffled
from evidentia.data.batches import all_rows, recut
from evidentia.data.fingerprint import fingerprints, sums_by_name
from evidentia.data.read_ahead import read_ahead
from evidentia.data.sharded import check_sharding, in_place, placed, sharding_of
from evidentia.data.source import Source
from evidentia.display.progress import Update, reporter
from evidentia.errors import (
    ConfigurationError,
    DataError,
    DiagnosticWarning,
    EstimationError,
    EvidentiaError,
    ModelError,
    UnfinishedError,
    check_memory,
    check_positive,
    check_seed,
    warn,
)
from evidentia.evidence.laplace import Laplace
from evidentia.evidence.method import Estimate, Method, Snapshot
from evidentia.evidence.sgais import SGAIS
from evidentia.interruption import check, hearing_ctrl_c
from evidentia.model.bound import BoundModel
from evidentia.model.model import Model
from evidentia.model.width import Change, with_width
from evidentia.online.online import Online
from evidentia.posterior.reweighting import ModelWidths
from evidentia.posterior.rows import Window
from evidentia.posterior.spreading import spread_window
from evidentia.result import Evidence, make_evidence
from evidentia.trajectory import trajectory_of

MAX_PARTICLES = 65_536  # limit for `target_standard_error`
BATCH_SIZE = 65_536  # rows of a source between two updates of the progress
ON_MANY_DEVICES = SGAIS, Laplace  # the methods for rows that are spread over devices


@runtime_checkable
class Question(Protocol):
    """What `estimate` takes in place of a model: it makes one of the data, or knows the answer."""

    def answer(
        self, data: Any, method: Method | None, seed: int, run: Callable[[Model, Any], Evidence]
    ) -> Evidence:
        """The evidence of the data; `run` estimates that of a model and arrays with the method."""
        ...


def estimate(
    model: Model | Question,
    data: Any,
    *,
    method: Method | None = None,
    seed: int = 0,
    target_standard_error: float | None = None,
    in_order: bool = False,
    sharding: NamedSharding | None = None,
    progress: bool | Callable[[Update], None] = False,
) -> Evidence:
    """Estimate the log evidence log p(data) of a model, in nats.

    Args:
        model: a prior and a pointwise log-likelihood; or a `Regression`, whose data are a table.
        data: one array, a tuple, or a mapping of arrays, all with observations on the leading axis
            (NumPy, JAX, pandas, Polars, Arrow). The built-in regressions take `{"x": (n,
            features), "y": (n,)}`. Or a source, such as `read_parquet` returns: it is read once,
            in order, by an `Online`, and may be larger than memory.
        method: the configuration of a method; `SGAIS()` if not given, the only one for a source.
        seed: the same seed gives the same numbers on the same machine.
        target_standard_error: in nats. If a run's standard error is larger, another run follows
            with as many more particles as needed, up to `MAX_PARTICLES`; if that is not enough, an
            EvidenceWarning is issued.
        in_order: use the rows in their order, as the trajectory over them then is. By default they
            are used in a random order, which depends on the seed and the number of rows alone: in
            sorted data the posterior moves far whenever new values begin, which costs accuracy. A
            source is always read in order.
        sharding: spreads the rows over the devices of its mesh, for `SGAIS` and `Laplace`. In
            several processes (`jax.distributed`) `data` are the rows of this process, and all
            processes make the same call. A source is read into memory. JAX arrays that are spread
            over devices already need no `sharding`.
        progress: True for a bar on standard error, or a function that is called with an `Update`
            after each chunk, or after each step of a method that uses all rows at once.

    Returns:
        The log evidence with its standard error, its trajectory over the data, and the posterior.
        After Ctrl-C, the result so far with `completed=False`; if there is none, as for `AIS`
        before its end, the KeyboardInterrupt propagates.

    Raises:
        DataError, ModelError: data or a model that cannot be used, and what is needed instead.
        ConfigurationError: an invalid method, seed, target or sharding.
        EstimationError: the log-likelihood is NaN at a particle, or -inf at all particles. If an
            error occurs halfway, also in the data of a source, its `evidence` is the result for
            the rows before.

    Example:
        >>> model = ev.models.linear_regression(num_features=2)  # doctest: +SKIP
        >>> evidence = ev.estimate(model, {"x": x, "y": y})  # doctest: +SKIP
    """
    if isinstance(model, Question):
        check_seed(seed)
        if sharding is not None:
            raise ConfigurationError(
                "sharding needs an evidentia.Model with arrays; got a Regression with a table."
            )
        options = {"target_standard_error": target_standard_error, "in_order": in_order, "progress": progress}
        return model.answer(data, method, int(seed), partial(estimate, method=method, seed=seed, **options))
    chosen: Method = SGAIS() if method is None else method
    _check(model, chosen, seed, target_standard_error)
    started = time.perf_counter()
    spread = sharding_of(data) if sharding is None else check_sharding(sharding)
    if spread is None:
        make_run = _runs(model, data, int(seed), in_order, started)
    else:
        _check_spread(chosen, in_order)
        make_run = _spread_runs(model, data, spread, int(seed), started)
    with reporter(progress, model.name) as report, _numbered(in_order or isinstance(data, Source)):
        evidence, messages = _drive(make_run(chosen), report)
        while evidence.completed and (more := _more_particles(evidence, target_standard_error)):
            larger = replace(chosen, num_particles=more)  # type: ignore[type-var]
            try:
                found, messages = _drive(make_run(larger), report)
                if not found.completed:
                    raise KeyboardInterrupt
                evidence = found
            except KeyboardInterrupt:
                messages = [
                    f"the run with {more:,} particles was stopped; the result is that with "
                    f"{evidence.method.num_particles:,}."
                ]
                break
            except EvidentiaError as error:  # for example, the source can be read only once
                error.evidence = evidence
                raise
    if target_standard_error is not None and not evidence.standard_error <= target_standard_error:
        known = "unknown" if math.isnan(evidence.standard_error) else f"{evidence.standard_error:.2g} nats"
        messages.append(
            f"the standard error is {known} with {evidence.method.num_particles:,} particles; "
            f"target_standard_error={target_standard_error:g} was not reached."
        )
    warn(messages)
    warn(evidence.signs.values(), DiagnosticWarning)
    again = partial(
        estimate,
        data=data,
        method=chosen,
        seed=seed,
        target_standard_error=target_standard_error,
        in_order=in_order,
        sharding=sharding,
    )
    return _with_new_runs(evidence, lambda factor, names: again(with_width(model, factor, names)))


def _with_new_runs(evidence: Evidence, run: Callable[[float, tuple[str, ...]], Evidence]) -> Evidence:
    """The result with the means to run its model anew with wider priors."""

    def change(factor: float, parameters: tuple[str, ...]) -> Change:
        other = run(factor, parameters)
        error = math.hypot(other.standard_error, evidence.standard_error)
        return Change(other.log_evidence - evidence.log_evidence, error, is_new_run=True)

    assert isinstance(evidence.widths, ModelWidths)
    return replace(evidence, widths=replace(evidence.widths, new_run=change))


def _runs(
    model: Model, data: Any, seed: int, in_order: bool, started: float
) -> Callable[[Method], _ArrayRun | _SourceRun]:
    """A function that starts a run over the data."""
    if isinstance(data, Source):
        return partial(_SourceRun, model, data, seed, started)
    arrays = as_arrays(data)
    if model.check_data is not None:
        model.check_data(arrays)
    known = fingerprints(sums_by_name(arrays))
    if not in_order:
        arrays = shuffled(arrays, seed)
    window = Window(on_device(arrays), 0, num_rows(arrays))
    return partial(_ArrayRun, model.bind(arrays), window, known, seed, started)


def _spread_runs(
    model: Model, data: Any, sharding: NamedSharding, seed: int, started: float
) -> Callable[[Method], _ArrayRun]:
    """A function that starts a run over rows that are, or are to be, spread over devices."""
    if isinstance(data, Source):
        data = all_rows(data.batches())
    place = placed if sharding_of(data) is None else in_place
    window, first_rows = spread_window(place(data, sharding, seed, model.check_data))
    return partial(_ArrayRun, model.bind(first_rows), window, {}, seed, started)


def _check_spread(method: Method, in_order: bool) -> None:
    if not isinstance(method, ON_MANY_DEVICES):
        names = " and ".join(f"{one.__name__}()" for one in ON_MANY_DEVICES)
        raise ConfigurationError(
            f"method must be one of {names} for rows that are spread over devices; got {method!r}."
        )
    if in_order:
        raise ConfigurationError(
            "in_order=True needs rows on one device: rows that are spread over devices have no order. Leave it out."
        )


@contextmanager
def _numbered(in_order: bool) -> Iterator[None]:
    """Say how rows are numbered in an error."""
    try:
        yield
    except EstimationError as error:
        if not in_order:
            error.add_note("Rows are numbered in random order; with in_order=True, in yours.")
        raise


def _drive(run: _ArrayRun | _SourceRun, report: Callable[[Update], None]) -> tuple[Evidence, list[str]]:
    """The result of a run, also of an interrupted one, and what the user should know about it."""
    try:
        with hearing_ctrl_c():
            for update in run.updates():
                report(update)
                check()
    except KeyboardInterrupt:
        evidence = run.evidence(completed=False)
        if evidence is None:
            raise
        return evidence, [run.stopped()]
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


def _check_memory(method: Method, bound: BoundModel) -> None:
    """Raise ConfigurationError if the particles alone exceed the memory of the machine."""
    count = getattr(method, "num_particles", 0)
    check_memory(f"num_particles={count:,}", "positions", count * bound.num_parameters * 4)  # float32


class _ArrayRun:
    """A run over arrays in memory."""

    def __init__(
        self,
        bound: BoundModel,
        rows: Window,
        known: Mapping[str, str],
        seed: int,
        started: float,
        method: Method,
    ):
        _check_memory(method, bound)
        self._bound, self._rows, self._fingerprints, self._seed = bound, rows, known, seed
        self._started, self._method = started, method
        self._history: list[Update] = []
        self._last: Snapshot | None = None  # the latest with an estimate

    def updates(self) -> Iterator[Update]:
        """Yield an update per snapshot; the trajectory keeps the latest per number of rows."""
        num_steps = 0
        for snapshot in self._method.run(self._bound, self._rows, jax.random.key(self._seed)):
            num_steps += snapshot.num_steps
            found = snapshot.estimate or Estimate(math.nan, math.nan)
            update = Update(
                snapshot.num_observations,
                self._rows.size,
                found.log_evidence,
                found.standard_error,
                num_steps,
                time.perf_counter() - self._started,
                snapshot.share_done,
            )
            if snapshot.num_observations:
                if self._history and self._history[-1].num_observations == snapshot.num_observations:
                    self._history.pop()
                self._history.append(update)
                self._last = snapshot
            yield update

    def evidence(self, *, completed: bool) -> Evidence | None:
        """The result of the last snapshot with an estimate."""
        if self._last is None or self._last.estimate is None:
            return None
        return make_evidence(
            self._bound,
            self._method,
            self._seed,
            self._last.estimate,
            (self._last.positions, self._last.log_weights),
            trajectory_of(self._history),
            self._last.diagnose(),
            seconds=self._history[-1].seconds,
            completed=completed,
            fingerprints=self._fingerprints if self._last.num_observations == self._rows.size else {},
        )

    def stopped(self) -> str:
        """A sentence with the number of rows, or of steps if the method uses all rows at once."""
        last = self._history[-1]
        if last.share_done is None:
            return _stopped(last.num_observations, last.total_observations)
        return f"stopped after {last.num_annealing_steps} steps; the result is the estimate at that point."


class _SourceRun:
    """A run over a source that is read once, in order, by an `Online`."""

    def __init__(self, model: Model, source: Source, seed: int, started: float, method: Method):
        self._source, self._started = source, started
        self._online = Online(model, method, seed=seed)  # type: ignore[arg-type]
        self._num_dropped = 0
        self._sums: Counter[str] = Counter()  # of the hashes of the rows so far

    def updates(self) -> Iterator[Update]:
        """Yield an update after each batch, and redraw the particles at the end."""
        num_steps, online = 0, self._online
        for batch in read_ahead(recut(self._source.batches(), BATCH_SIZE)):
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
        if online.method.refresh:
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

    def stopped(self) -> str:
        """A sentence with the number of rows."""
        return _stopped(self._online.num_observations, self._source.num_rows)


def _stopped(num_observations: int, total: int | None) -> str:
    of_total = "" if total is None else f" of {total}"
    return f"stopped after {num_observations}{of_total} observations; the result is for those."


def _check(model: Any, method: Any, seed: Any, target: float | None) -> None:
    if not isinstance(model, Model):
        raise ModelError(
            f"model must be an evidentia.Model; got {type(model).__name__}. See Model.from_numpyro."
        )
    if isinstance(method, type) or not isinstance(method, Method):
        raise ConfigurationError(f"method must be a configuration such as SGAIS(); got {method!r}.")
    check_seed(seed)
    if target is not None:
        check_positive("target_standard_error", target)


def _more_particles(evidence: Evidence, target: float | None) -> int | None:
    """Particles needed for the target, as error² falls as 1/particles; None to stop."""
    if target is None or not evidence.standard_error > target:  # also if it is unknown
        return None
    wanted = math.ceil(1.2 * evidence.method.num_particles * (evidence.standard_error / target) ** 2)
    return min(wanted, MAX_PARTICLES) if evidence.method.num_particles < MAX_PARTICLES else None
