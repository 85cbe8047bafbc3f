"""`estimate`: the log evidence of a model from data, in one call; runs a method."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal, Protocol, runtime_checkable

from jax.sharding import NamedSharding

from evidentia.cluster.engine import Engine
from evidentia.cluster.finding import engine_of, is_far
from evidentia.data.sharded import check_sharding, sharding_of
from evidentia.display.progress import Update, reporter
from evidentia.errors import (
    ConfigurationError,
    DataError,
    DiagnosticWarning,
    EstimationError,
    EvidentiaError,
    ModelError,
    check_positive,
    check_seed,
    warn,
)
from evidentia.evidence.amis import AMIS
from evidentia.evidence.method import Method, check_method
from evidentia.evidence.sgais import SGAIS
from evidentia.model.local import Integrated
from evidentia.model.model import Model
from evidentia.model.outside import OutsideLikelihood
from evidentia.model.outside.run import check_arguments, remembering
from evidentia.model.width import Change, with_width
from evidentia.posterior.reweighting import ModelWidths
from evidentia.result import Evidence
from evidentia.runs import check_elsewhere, drive, runs_over

MOST_WORK = 200_000  # rows times particles, where each takes an integral
LEAST_PARTICLES = 128  # 512 take seven times as long at 2,000 rows
MAX_PARTICLES = 65_536  # limit for `target_standard_error`


@runtime_checkable
class Question(Protocol):
    """What `estimate` takes in place of a model: it makes one of the data, or knows the answer."""

    def answer(self, data: Any, method: Method | None, seed: int, run: Callable[..., Evidence]) -> Evidence:
        """The evidence of the data; `run` estimates that of a model and arrays.

        It uses the method, or another: `run(model, arrays, method=…)`.
        """
        ...


def estimate(
    model: Model | Question,
    data: Any = None,
    *,
    method: Method | Literal["auto"] | None = "auto",
    seed: int = 0,
    target_standard_error: float | None = None,
    in_order: bool = False,
    sharding: NamedSharding | None = None,
    executor: Executor | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: bool | Callable[[Update], None] = False,
) -> Evidence:
    """Estimate the log evidence log p(data) of a model, in nats.

    Args:
        model: a prior and a pointwise log-likelihood; or a `Regression`, whose data are a table.
        data: one array, a tuple, or a mapping of arrays, all with observations on the leading axis
            (NumPy, JAX, pandas, Polars, Arrow). The built-in regressions take `{"x": (n,
            features), "y": (n,)}`. Or a source, such as `read_parquet` returns: it is read once,
            in order, by an `Online`, and may be larger than memory. Or rows on a cluster: a Dask
            data frame, a tuple or mapping of Dask collections, or a Ray dataset. If not given,
            those that the model brings along (`Model.data`).
        method: the configuration of a method. "auto" is `SGAIS()`, the only one for a source,
            which tempers the likelihood where rows are few or depend on each other; or `AMIS()`
            for a likelihood outside JAX, which has no gradient. `diagnostics["chosen"]` says why.
            None is the same.
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
        executor: of `concurrent.futures`, or of Dask or Ray: its workers read the partitions of a
            source, once for each look at all rows, for `SGAIS` and `Laplace`.
        checkpoint: a folder that keeps the evaluations of a likelihood outside JAX
            (`Model.from_callable`), also if this process is killed. The same call again goes on
            where it was; with more particles, from what a completed run has evaluated.
        progress: True for a bar on standard error, or a function that is called with an `Update`
            after each chunk, or after each step of a method that uses all rows at once.

    Returns:
        The log evidence with its standard error, its trajectory over the data, and the posterior.
        After Ctrl-C, the result so far with `completed=False`; if there is none, as for `AIS`
        before its end, the KeyboardInterrupt propagates.

    Raises:
        DataError, ModelError: data or a model that cannot be used, and what is needed instead.
        ConfigurationError: an invalid method, seed, target or sharding.
        EstimationError: the log-likelihood is NaN or +inf at a particle, or -inf at all particles;
            there is not enough memory, or workers of a cluster died. If an error occurs halfway,
            also in the data of a source, its `evidence` is the result for the rows before.
        CheckpointError: the folder of `checkpoint` has evaluations of another model.

    Example:
        >>> model = ev.models.linear_regression(num_features=2)  # doctest: +SKIP
        >>> evidence = ev.estimate(model, {"x": x, "y": y})  # doctest: +SKIP
    """
    if isinstance(model, Question):
        check_seed(seed)
        if sharding is not None or executor is not None or is_far(data):
            raise ConfigurationError(
                "rows on many devices or on a cluster need an evidentia.Model with arrays; got a Regression with a table."
            )
        if checkpoint is not None:
            raise ConfigurationError(
                "checkpoint keeps evaluations of a Model.from_callable; a Regression needs none."
            )
        options = {"target_standard_error": target_standard_error, "in_order": in_order, "progress": progress}
        given = None if method == "auto" else method
        return model.answer(data, given, int(seed), partial(estimate, method=method, seed=seed, **options))
    chosen, reason = _chosen_method(model) if method in (None, "auto") else (method, "")
    _check(model, chosen, seed, target_standard_error)
    check_arguments(model.log_likelihood, model.name, data, executor, sharding)
    rows, started = _data_of(model, data), time.perf_counter()
    elsewhere = _elsewhere(rows, sharding, executor)
    if elsewhere is not None:
        check_elsewhere(chosen, in_order)
    runs = runs_over(model, rows, int(seed), in_order, elsewhere, started)
    if reason and isinstance(runs.log_likelihood, Integrated):
        assert runs.num_rows is not None  # latents of a source's rows are refused
        chosen, reason = _method_for_latents(runs.num_rows)
    with (
        reporter(progress, model.name) as report,
        _numbered(runs.numbering),
        remembering(model.log_likelihood, checkpoint),
    ):
        evidence, messages = _to_target(
            lambda method: drive(runs.start(method), report), chosen, target_standard_error
        )
    if reason:
        evidence = replace(evidence, diagnostics={**evidence.diagnostics, "chosen": reason})
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
        executor=executor,
        checkpoint=checkpoint,
    )
    return _with_new_runs(evidence, lambda factor, names: again(with_width(model, factor, names)))


def _to_target(
    run: Callable[[Any], tuple[Evidence, list[str]]], chosen: Any, target: float | None
) -> tuple[Evidence, list[str]]:
    """The result of a run, or of one with as many particles as a target needs, and messages."""
    evidence, messages = run(chosen)
    while evidence.completed and (more := _more_particles(evidence, target)):
        try:
            found, messages = run(replace(chosen, num_particles=more))
            if not found.completed:
                raise KeyboardInterrupt
            evidence = found
        except KeyboardInterrupt:
            kept = f"{evidence.method.num_particles:,}"
            messages = [f"the run with {more:,} particles was stopped; the result is that with {kept}."]
            break
        except EvidentiaError as error:  # for example, the source can be read only once
            error.evidence = evidence
            raise
    if target is not None and not evidence.standard_error <= target:
        known = "unknown" if math.isnan(evidence.standard_error) else f"{evidence.standard_error:.2g} nats"
        messages.append(
            f"the standard error is {known} with {evidence.method.num_particles:,} particles; "
            f"target_standard_error={target:g} was not reached."
        )
    return evidence, messages


def _chosen_method(model: Any) -> tuple[Any, str]:
    """The method for a model before it is bound to data, and why it was chosen."""
    if isinstance(getattr(model, "log_likelihood", None), OutsideLikelihood):
        return AMIS(), "AMIS, as the log-likelihood is not written in JAX and has no gradient"
    return SGAIS(), "SGAIS, as the log-likelihood has gradients; the path tempers few or dependent rows"


def _method_for_latents(num_rows: int) -> tuple[SGAIS, str]:
    """The method for latents of rows or groups, which are integrated out."""
    most = SGAIS().num_particles
    count = min(most, max(LEAST_PARTICLES, MOST_WORK // num_rows))
    reason = "as the latents of each row or group take an integral per particle"
    return SGAIS(num_particles=count), f"SGAIS with {count} particles, {reason}"


def _data_of(model: Model, data: Any) -> Any:
    """The data given, or those that the model brings along."""
    if data is None and model.data is None:
        raise DataError(f"data is missing: the model {model.name!r} brings none along.")
    return model.data if data is None else data


def _elsewhere(
    data: Any, sharding: NamedSharding | None, executor: Executor | None
) -> NamedSharding | Engine | None:
    """Where the rows are, or are to be, unless in the memory of this process."""
    engine = engine_of(data, executor)
    if engine is None:
        return sharding_of(data) if sharding is None else check_sharding(sharding)
    if sharding is not None:
        raise ConfigurationError(
            "sharding is for rows in memory; rows on a cluster stay in their partitions."
        )
    return engine


def _with_new_runs(evidence: Evidence, run: Callable[[float, tuple[str, ...]], Evidence]) -> Evidence:
    """The result with the means to run its model anew with wider priors."""

    def change(factor: float, parameters: tuple[str, ...]) -> Change:
        other = run(factor, parameters)
        error = math.hypot(other.standard_error, evidence.standard_error)
        return Change(other.log_evidence - evidence.log_evidence, error, is_new_run=True)

    if evidence.widths is None:  # results show something else than the parameters
        return evidence
    assert isinstance(evidence.widths, ModelWidths)
    return replace(evidence, widths=replace(evidence.widths, new_run=change))


@contextmanager
def _numbered(note: str) -> Iterator[None]:
    """Say in an error how rows are numbered, unless as in the data."""
    try:
        yield
    except EstimationError as error:
        if note:
            error.add_note(note)
        raise


def _check(model: Any, method: Any, seed: Any, target: float | None) -> None:
    if not isinstance(model, Model):
        raise ModelError(
            f"model must be an evidentia.Model; got {type(model).__name__}. See Model.from_numpyro."
        )
    check_method("method", method, "SGAIS()")
    check_seed(seed)
    if target is not None:
        check_positive("target_standard_error", target)


def _more_particles(evidence: Evidence, target: float | None) -> int | None:
    """Particles needed for the target, as error² falls as 1/particles; None to stop."""
    if target is None or not evidence.standard_error > target:  # also if it is unknown
        return None
    count = evidence.method.num_particles
    ratio = min(evidence.standard_error / target, float(MAX_PARTICLES))  # its square is finite
    return min(math.ceil(1.2 * count * ratio**2), MAX_PARTICLES) if count < MAX_PARTICLES else None
